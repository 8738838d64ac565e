"""What `bench` reports: figures with their goals, and the sizes at which they are measured."""

from __future__ import annotations

from dataclasses import dataclass

from thetarbm_cli.benchmarks.timing import Comparison


@dataclass(frozen=True)
class Ratio:
    """One measured figure and its goal.

    Attributes
    ----------
    name : str
    value, goal : float
    at_most : bool
        On which side of the goal the value should be.
    unit : str
    note : str
        What the figure was made of, as the two times.
    """

    name: str
    value: float
    goal: float
    at_most: bool
    unit: str = "×"
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    @classmethod
    def of(
        cls, name: str, compared: Comparison, goal: float, *, at_most: bool, parts: int = 1, note: str = ""
    ) -> Ratio:
        """The figure of two jobs, the second taken `parts` times."""
        times = f"{compared.seconds:.3g} s / {compared.base_seconds:.3g} s"
        if parts > 1:
            times = f"{compared.seconds:.3g} s / ({parts} × {compared.base_seconds:.3g} s)"
        note = f"{times}, {note}" if note else times
        return cls(name, compared.ratio / parts, goal, at_most, note=note)


@dataclass(frozen=True)
class Sizes:
    """How much is measured; `quick` is for a look, the full size for a record."""

    images: int = 10_000
    hidden: int = 500
    batch: int = 100
    rounds: int = 7
    fine_rotations: int = 72
    svm_epochs: int = 30
    svm_tested: int = 2_000
    oriented: int = 50_000
    rotated_by_peer: int = 2_000
    gamma_images: int = 60_000
    gamma_parts: int = 5_000
    scaling_rounds: int = 3
    payoff_images: int = 10_000

    @classmethod
    def quick(cls) -> Sizes:
        """Sizes for a look of about a minute."""
        return cls(
            images=2_000,
            rounds=3,
            svm_epochs=3,
            svm_tested=500,
            oriented=5_000,
            rotated_by_peer=300,
            gamma_images=3_000,
            gamma_parts=1_000,
            scaling_rounds=1,
            payoff_images=1_000,
        )
