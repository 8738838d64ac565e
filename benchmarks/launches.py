"""Count what a batch launches on a GPU, on an emulated one: ``make bench-launches``.

A launch takes a few millionths of a second whatever it computes, and so does a copy or a wait for the device: for the
small batches of these models their number decides how fast a GPU is. Only the emulated device (`tests/device`) counts
them. It computes nothing meanwhile, so that the sizes are those of the paper.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import click
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from tabulate import tabulate

from thetarbm_cli import storage
from thetarbm_cli.backend import select_backend
from thetarbm_cli.environment import describe_environment
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.contrastive_divergence import EpochRecord, EpochSums, Trainer, TrainingState

HIDDEN, SIDE, BATCH, TRANSFORMED = 500, 28, 200, 1000
# What is launched; a copy within the device is.
LAUNCHED = ("kernel", "gemm", "DtoD", "memset")
COPIES = ("HtoD", "DtoH")
RECORD = "launches.json"


@dataclass(frozen=True)
class Subject:
    """A model whose batches are counted, and how much a batch may launch at most."""

    name: str
    model: type[RBM]
    most: int
    settings: dict[str, Any] = field(default_factory=dict)


SUBJECTS = (
    Subject("RBM", RBM, 24),
    Subject("θ-RBM, tied", ThetaRBM, 24, {"tensor": "tied"}),
    Subject("θ-RBM, full", ThetaRBM, 60, {"tensor": "full"}),
    Subject("TI-RBM", TransformInvariantRBM, 40),
    Subject("TI-RBM, as its authors", TransformInvariantRBM, 40, {"variance": "tracked", "sparsity_slope": "each"}),
)  # fmt: skip


class Calls(BaseModel, frozen=True, use_attribute_docstrings=True):
    """What was called, beside what may be called at most."""

    launches: float
    """Kernels, products, and copies and fills within the device."""
    copies: float
    """Between host and device, both ways."""
    syncs: float
    """How often the host waited for the device."""
    most_launches: float | None
    """None where nothing is said of them."""
    most_copies: float
    most_syncs: float
    by_name: dict[str, float]
    """Launches and copies, by their names."""

    @classmethod
    def of(cls, calls: Counter[str], parts: int, *, launches: float | None, copies: float, syncs: float) -> Self:
        """Give the calls of one of several equal parts, and what it may call."""
        each = {name: count / parts for name, count in sorted(calls.items()) if count}
        launched, copied, waited = (
            sum(count for name, count in each.items() if name.split()[0] in kinds)
            for kinds in (LAUNCHED, COPIES, ("sync",))
        )
        named = {name: count for name, count in each.items() if name.split()[0] in (*LAUNCHED, *COPIES)}
        return cls(
            launches=launched,
            copies=copied,
            syncs=waited,
            most_launches=launches,
            most_copies=copies,
            most_syncs=syncs,
            by_name=named,
        )

    @property
    def met(self) -> bool:
        """Whether it is no more than it may be."""
        few = self.most_launches is None or self.launches <= self.most_launches
        return few and self.copies <= self.most_copies and self.syncs <= self.most_syncs


class Counted(BaseModel, frozen=True, use_attribute_docstrings=True):
    """A model, and what its batches and epochs call."""

    name: str
    settings: dict[str, Any]
    batch: Calls
    epoch_syncs: float
    """Of a whole epoch."""
    most_epoch_syncs: float = 1

    @property
    def met(self) -> bool:
        """Whether all is within its limits."""
        return self.batch.met and self.epoch_syncs <= self.most_epoch_syncs


class Launches(BaseModel, frozen=True, use_attribute_docstrings=True):
    """``python -m benchmarks.launches --json``."""

    machine: dict[str, Any]
    sizes: dict[str, int]
    models: list[Counted]
    transform: Calls
    """The second `transform` of a fitted tied θ-RBM, all images in one call."""

    @property
    def met(self) -> bool:
        """Whether everything is within its limits."""
        return self.transform.met and all(each.met for each in self.models)


class _Blind(Trainer):
    """A trainer that reads what an epoch leaves, and judges nothing by numbers that were not computed."""

    def _record(self, state: TrainingState, sums: EpochSums) -> EpochRecord:
        sums.on_host(state.parameters)
        return EpochRecord(state.epoch + 1, 0.0, 0.0)


def find_device() -> Any:
    """Find the emulated device's counters; None where the process does not run on it."""
    try:
        return importlib.import_module("cupy_device")
    except ImportError:
        return None


def calls_so_far(device: Any) -> Counter[str]:
    """Count all calls of the device so far, each under its kind and name."""
    calls: Counter[str] = Counter()
    for (kind, name), count in device.detail().items():
        # The name of a product has its shape; a copy is known by its direction.
        known = name if name in ("DtoD", *COPIES) else " ".join([kind, *name.split()[:1]])
        calls[known] += count.calls
    return calls


def count_model(device: Any, subject: Subject) -> Counted:
    """Count what a batch of a model calls: what an epoch calls whatever its length falls out of the difference."""
    longer, shorter = (_second_epoch(device, subject, batches) for batches in (4, 2))
    difference = Counter(longer)
    difference.subtract(shorter)
    return Counted(
        name=subject.name,
        settings=subject.settings,
        batch=Calls.of(difference, 2, launches=subject.most, copies=0, syncs=0),
        epoch_syncs=sum(count for name, count in longer.items() if name.split()[0] == "sync"),
    )


def _second_epoch(device: Any, subject: Subject, batches: int) -> Counter[str]:
    """Count the calls of an epoch of so many batches; the first epoch may prepare something."""
    images = make_images(BATCH * batches)
    model = subject.model(**{**subject.settings, "hidden": HIDDEN, "batch_size": BATCH, "backend": "cupy"})
    given = np.arange(len(images)) % model.rotations if isinstance(model, ThetaRBM) else None
    made = model.trainer(images, orientations=given)
    index = np.zeros(len(images), dtype=np.int64) if made.orientations is None else made.orientations
    trainer = _Blind(made.model, made.inputs, index, model, made.seed)
    state, after = trainer.start(), []
    with _skipping(device):
        trainer.run(state, 2, monitor=lambda _: after.append(calls_so_far(device)))
    after[1].subtract(after[0])
    return after[1]


def count_transform(device: Any) -> Calls:
    """Count what features of a tied θ-RBM take: images, orientations and an order are copied in, features out."""
    images = make_images(TRANSFORMED)
    model = ThetaRBM(hidden=HIDDEN, epochs=0, backend="cupy").fit(images)
    with _skipping(device):
        model.transform(images)
        before = calls_so_far(device)
        model.transform(images)
        calls = calls_so_far(device)
    calls.subtract(before)
    return Calls.of(calls, 1, launches=None, copies=4, syncs=1)


@contextmanager
def _skipping(device: Any) -> Iterator[None]:
    """Count everything and compute nothing."""
    device.skip()
    try:
        yield
    finally:
        device.skip(False)


def make_images(count: int) -> NDArray[np.float32]:
    """Make images of the digits' size; what is on them is all the same."""
    return np.random.default_rng(3).random((count, SIDE * SIDE), dtype=np.float32)


def count_all(device: Any) -> Launches:
    """Count everything."""
    return Launches(
        machine=describe_environment(select_backend("cupy")),
        sizes={"hidden": HIDDEN, "pixels": SIDE * SIDE, "batch": BATCH, "transformed": TRANSFORMED},
        models=[count_model(device, subject) for subject in SUBJECTS],
        transform=count_transform(device),
    )


def table(found: Launches, style: str = "simple") -> str:
    """Format the counts as a table: each with its limit, for a terminal or a page."""

    def beside(value: float, most: float | None) -> str:
        return f"{value:g}" if most is None else f"{value:g} (≤ {most:g})"

    sizes = found.sizes
    batch = f"a batch of {sizes['batch']}, {sizes['hidden']} hidden units"
    headings = [batch, "launches", "copies", "syncs", "syncs an epoch"]
    rows = [
        [each.name, *_cells(each.batch, beside), beside(each.epoch_syncs, each.most_epoch_syncs)]
        for each in found.models
    ]
    rows.append([f"θ-RBM, tied: features of {sizes['transformed']:,} images", *_cells(found.transform, beside), "—"])
    return tabulate(rows, headings, tablefmt=style, disable_numparse=True)


def _cells(calls: Calls, beside: Any) -> list[str]:
    return [
        beside(calls.launches, calls.most_launches),
        beside(calls.copies, calls.most_copies),
        beside(calls.syncs, calls.most_syncs),
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help=f"Also write {RECORD} here."
)
def main(as_json: bool, out: Path | None) -> None:
    """Count launches, copies and syncs of the models' batches; exit code 1 if there are more than there may be."""
    device = find_device()
    if device is None:
        click.echo("error: only the emulated device counts launches: make bench-launches", err=True)
        sys.exit(2)
    found = count_all(device)
    click.echo(found.model_dump_json(indent=2) if as_json else table(found))
    if out is not None:
        storage.write_text(out / RECORD, found.model_dump_json(indent=1) + "\n")
        click.echo(f"wrote {out / RECORD}", err=True)
    sys.exit(0 if found.met else 1)


if __name__ == "__main__":
    main()
