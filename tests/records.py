"""Trainings and measurements that were never made, with numbers of the test's choice."""

from __future__ import annotations

import hashlib
from pathlib import Path

from thetarbm_cli.measures import MEASURES, NOT_ALIGNED, split_column
from thetarbm_cli.specs import MeasureSpec
from thetarbm_cli.store import MadeFor, Measurement, Store, Training
from thetarbm_cli.suite import Cell


def sha(*words: object) -> str:
    """A checksum for made-up content."""
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()


def training_for(cell: Cell, seed: int = 0, *, images: str = "", **numbers: float) -> Training:
    """A training of the cell with its measurements, as far as there are numbers for them.

    Numbers are named as the tables' columns are: ``gamma_test_unaligned``, ``train_seconds``. `images` is the checksum
    of the images; by default, each data set, source and data seed has its own.
    """
    spec = cell.train_spec(seed)
    learned = images or sha(spec.data.dataset, spec.data.source, spec.data.seed)
    run = spec.run_id(learned)
    weights = sha("weights", run)
    training = Training(
        run=run,
        spec=spec,
        images_sha256=learned,
        state="done",
        weights_sha256=weights,
        history=[
            {
                "epoch": 1,
                "reconstruction_error": numbers.get("reconstruction_error", 1.0),
                "mean_activation": numbers.get("mean_activation", 0.3),
            }
        ],
        seconds=numbers.get("train_seconds", 10.0 if spec.model == "tirbm" else 1.0),
        products=round(numbers.get("train_gigaflops", 20.0 if spec.model == "tirbm" else 2.0) * 10**9 / 2),
        made_for=MadeFor(profile=cell.profile, suite="suite.yaml", cells=(cell.name,)),
    )
    for each in cell.measure_specs:
        values: dict[str, float | None] = {
            split_column(name)[0]: number for name, number in numbers.items() if is_of(each, name)
        }
        if values:
            tested = images or sha(each.dataset, each.source, each.data_seed)
            training.measurements.append(
                Measurement(run=run, spec=each, weights_sha256=weights, images_sha256=tested, values=values)
            )
    return training


def is_of(spec: MeasureSpec, column: str) -> bool:
    """Whether a measurement has a column's number."""
    measure, variant = split_column(column)
    of_part = not measure.endswith("_train") if spec.part != "train" else measure.endswith("_train")
    return (
        MEASURES[measure].asked_as == spec.measure and of_part and (spec.aligned is False) == (variant == NOT_ALIGNED)
    )


def save(results: Path, *trainings: Training) -> None:
    store = Store(results)
    for training in trainings:
        store.save(training)
        for measurement in training.measurements:
            store.add(measurement)
