"""A cell of the suite: one value (over seeds) of a table, and which records belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thetarbm_cli.experiments.runs.profiles import Profile
from thetarbm_cli.experiments.runs.settings import DataSettings, Perturbation, RunSettings, SVMSettings, resolve

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.store import RunRecord

PERTURBATION_AXES = ("n", "p", "scope")
# A cell has its profile in its settings already.
NO_PROFILE = Profile()


@dataclass(frozen=True)
class Cell:
    """One point of an experiment's grid, with all settings laid over one another.

    Attributes
    ----------
    name : the experiment and the values of its axes, as ``theta/sparsity=0.3``
    at : values of the axes
    seeds : how many seeds the profile asks for
    most_seeds : how many make sense at all, or None
    offsets : further Δ for which γ is measured on the training images
    published : the paper's values by measure
    """

    name: str
    profile: str
    experiment: str
    label: str
    model: str
    at: dict[str, Any]
    data: dict[str, Any]
    parameters: dict[str, Any]
    perturbation: dict[str, Any] | None
    svm: dict[str, Any]
    measures: tuple[str, ...]
    offsets: tuple[float, ...]
    tables: tuple[str, ...]
    seeds: int
    most_seeds: int | None
    published: dict[str, float]
    context: str
    on_request: bool

    @property
    def tested_on(self) -> str:
        """The data set of its test images."""
        return DataSettings(**self.data).tested_on

    def settings(self) -> RunSettings:
        """The settings of its runs, checked."""
        return resolve(
            self.model,
            profile=NO_PROFILE,
            data=self.data,
            parameters=self.parameters,
            perturbation=self.perturbation,
            svm=self.svm,
        )

    def fits(self, record: RunRecord, *, any_source: bool = False) -> bool:
        """Whether a record was made with the settings of this cell, whatever its seed, data and algorithm.

        A record's settings leave out what is as by default, and its parameters are complete: so this needs no model.

        Parameters
        ----------
        any_source : bool
            Whether images of another source than the cell's will do.
        """
        settings = record.settings
        if settings.model != self.model or settings.perturbation != self._perturbation():
            return False
        if settings.svm != SVMSettings(**self.svm):
            return False
        ignored = {"source"} if any_source else set()
        if settings.data.model_dump(exclude=ignored) != DataSettings(**self.data).model_dump(exclude=ignored):
            return False
        return settings.parameters.keys() <= self.parameters.keys() and all(
            name in record.parameters and record.parameters[name] == value for name, value in self.parameters.items()
        )

    def unperturbed(self, cells: list[Cell]) -> Cell | None:
        """The cell of the same settings with orientations as they are estimated."""
        same = (self.model, self.data, self.parameters, self.svm, None)
        for cell in cells:
            if (cell.model, cell.data, cell.parameters, cell.svm, cell.perturbation) == same:
                return cell
        return None

    def _perturbation(self) -> Perturbation | None:
        return None if self.perturbation is None else Perturbation(**self.perturbation)
