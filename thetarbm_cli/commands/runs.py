"""``thetarbm train``, ``evaluate``, ``features`` and ``perturb``: one run after the other."""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
from click.core import ParameterSource
from pydantic import BaseModel, ConfigDict, Field

from thetarbm_cli.commands.common import (
    NumberList,
    RegistryChoice,
    Session,
    UserPath,
    images_option,
    jobs_option,
    json_option,
    pass_session,
    profile_option,
    seed_option,
    set_option,
    suite_option,
)
from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.errors import EXIT_FAILED, InputError, StorageError, ThetaRBMError
from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import (
    ERROR,
    GAMMA_TEST,
    GAMMA_TRAIN,
    MEASURES,
    MISSING,
    column_name,
    measure_of,
    split_column,
)
from thetarbm_cli.registry import DATASETS, MODELS, source_names
from thetarbm_cli.ui import Display, TrainingDisplay, print_command, print_fields, print_text

if TYPE_CHECKING:
    from thetarbm_cli.results import Number
    from thetarbm_cli.specs import MeasureSpec
    from thetarbm_cli.store import Store, Training
    from thetarbm_cli.suite import Cell

logger = logging.getLogger("thetarbm")

Percent = Annotated[float, Field(ge=0, le=100)]
Gamma = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Weights = Literal["learned", "normal", "kmeans", "images"]
# The words of `evaluate` for the main numbers, and what prints under them with an ending for the O-RBM.
MAIN = (ERROR, GAMMA_TRAIN, GAMMA_TEST)


class Trained(BaseModel):
    """What ``thetarbm train --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run: str
    model: str
    settings: dict[str, Any]
    """The whole description of the training."""
    seed: int
    cached: bool
    path: str
    """Folder of the run."""
    weights: str
    """File of its weights, a plain .npz."""
    epochs: Count
    seconds: Annotated[float, Field(ge=0)]
    """Of training, over all its parts if it was interrupted."""
    reconstruction_error: float | None
    """After the last epoch; null for a control, which learns nothing."""
    mean_activation: float | None
    """After the last epoch; null for a control."""


@click.command("train")
@click.option(
    "--model",
    required=True,
    type=RegistryChoice(MODELS),
    help="What learns; pixels and aligned-pixels are controls that learn nothing.",
)
@click.option("--sparsity", type=float, help="Target of the mean activation [default: 0.3].")
@profile_option
@click.option(
    "--train-on",
    type=RegistryChoice(DATASETS),
    default="mnist-rot",
    help="What it learns from; mnist is tested on mnist-rot, the others on test images of their own.",
)
@images_option
@click.option("--tensor", type=click.Choice(["full", "tied"]), help="theta: S slices, or one matrix [default: tied].")
@click.option(
    "--rotation",
    type=click.Choice(["bilinear", "nearest", "replicated", "permutation"]),
    help="Kind of the rotation operators [default: bilinear].",
)
@click.option("--epochs", type=int, help="Passes over the training images [default: 30].")
@click.option("--hidden", type=int, help="Hidden units [default: 500].")
@seed_option
@set_option
@click.option("--force", is_flag=True, help="Train once more, beside the run that is there.")
@json_option
@pass_session
def train(
    session: Session,
    /,
    model: str,
    profile: str,
    train_on: str,
    source: str,
    seed: int,
    assignments: tuple[str, ...],
    force: bool,
    **settings: Any,
) -> None:
    """Train one model; the same call finds the finished run, or resumes one that was cut off.

    \b
    thetarbm train --model theta --sparsity 0.3
    thetarbm train --model rbm --set learning_rate=0.005 --set visible=bernoulli
    thetarbm train --model theta --set data.train=1000 --set perturbation.n=1 --set perturbation.p=0.1
    """  # noqa: D301  click takes \b as "keep these lines"
    from thetarbm_cli.specs import parse_assignments, train_spec
    from thetarbm_cli.store import MadeFor

    assigned = parse_assignments(assignments)
    if "data.source" in assigned:
        # A shell leaves ~ behind an equals sign.
        assigned["data.source"] = os.path.expanduser(str(assigned["data.source"]))
    options = {name: value for name, value in settings.items() if value is not None}
    given = click.get_current_context().get_parameter_source
    data = {"data.dataset": train_on, "data.source": source}
    named = {"data.dataset": given("train_on"), "data.source": given("source")}
    options |= {name: data[name] for name, where in named.items() if where is not ParameterSource.DEFAULT}
    for name in options.keys() & assigned.keys():
        if options[name] != assigned[name]:
            option = {"data.dataset": "--train-on", "data.source": "--source"}.get(name, f"--{name}")
            raise InputError(
                f"{option} {options[name]} and --set {name}={assigned[name]} contradict each other: give one of them"
            )
    asked = {**options, **assigned}
    if "data.dataset" in asked and asked.get("data.source", source) not in source_names():
        raise InputError(
            f"--train-on {asked['data.dataset']} and --source {asked['data.source']} contradict each other: "
            "a file of images is what the run learns from, so leave --train-on out"
        )
    # What a profile says of measuring is for `evaluate`, and what it says of learning means nothing to a control.
    spec = train_spec(model, {**profile_settings(profile, model)[0], **data, **asked}, seed=seed)
    path = str(asked.get("data.source", source))
    started, store = time.perf_counter(), session.store()
    with TrainingDisplay(model, session.quiet) as display:
        # The libraries take a second.
        from thetarbm_cli import pipeline

        training, cached = pipeline.train(
            store,
            spec,
            source=None if path in source_names() else path,
            backend=session.backend_name,
            force=force,
            # A profile takes as many images as there are; who names a number wants that number.
            exact=bool(assigned.keys() & {"data.train", "data.valid"}),
            made_for=MadeFor(profile=profile),
            report=lambda step, done, total: display.preparing(done, total) if step == pipeline.PREPARING else None,
            on_epoch=lambda epoch, epochs: display.epoch(
                epoch.epoch, epochs, epoch.reconstruction_error, epoch.mean_activation
            ),
        )
    last: dict[str, float] = training.history[-1] if training.history else {}
    output = Trained(
        run=training.run,
        model=model,
        settings=training.spec.model_dump(mode="json"),
        seed=seed,
        cached=cached,
        path=str(store.path(training.run)),
        weights=str(store.path(training.run, "weights.npz")),
        epochs=len(training.history),
        seconds=training.seconds,
        reconstruction_error=last.get("reconstruction_error"),
        mean_activation=last.get("mean_activation"),
    )
    if session.print_json(output):
        return
    how = "cached" if cached else f"trained in {time.perf_counter() - started:.1f} s"
    fields = [("run", f"{output.run} ({how})"), ("path", output.path)]
    if output.reconstruction_error is not None:
        error = f"reconstruction error {output.reconstruction_error:.4f}"
        fields.append(("epochs", f"{output.epochs}, {error}, mean activation {output.mean_activation:.3f}"))
    print_fields(fields)
    print_command("evaluate", command_line("evaluate", output.run))


def profile_settings(profile: str, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the settings of a profile that concern the training of a model, and those that concern measuring it."""
    from thetarbm_cli.parameters import declared
    from thetarbm_cli.specs import measure_settings, train_settings
    from thetarbm_cli.suite import load_suite

    size = load_suite(check_settings=False).profile(profile).set
    known = {*declared(model), *train_settings()}
    measured = measure_settings()
    return (
        {name: value for name, value in size.items() if name in known and name not in measured},
        {name: value for name, value in size.items() if name in measured},
    )


class GridSearch(BaseModel):
    """The SVM with C and γ chosen on the validation images."""

    C: float
    gamma: float
    validation_error_percent: Percent
    test_error_percent: Percent
    grid: list[dict[str, float]]


class Evaluated(BaseModel):
    """Numbers of one run; the O-RBM's also on images that are not aligned."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={
            "if": {"properties": {"model": {"const": "orbm"}}},
            "then": {"anyOf": [{"required": [f"{name}_unaligned" for name in MAIN]}, {"required": ["settings"]}]},
        },
    )

    run: str
    model: str
    sparsity: float | None
    seed: int
    dataset: str
    """The data set of the test images."""
    source: str
    """Where they come from."""
    train_sha256: str
    """Checksum of the training images: two files of one name are told apart by it."""
    test_error_percent: Percent | None
    """None on images that have no labels."""
    gamma_train: Gamma | None
    gamma_test: Gamma | None
    gamma_offset: float
    """Δ of the γ-score's rotations, in degrees."""
    dead_units: Count | None
    """Hidden units that do not vary on the test images and are left out of γ."""
    cached: bool
    test_error_percent_unaligned: Percent | None = None
    gamma_train_unaligned: Gamma | None = None
    gamma_test_unaligned: Gamma | None = None
    settings: dict[str, Any] | None = None
    """Settings of the measurement that were asked for by --set or a profile."""
    weights: Weights = "learned"
    """Whether the numbers are the run's own, or which other weights a control had in the place of the learned ones."""
    unusual: dict[str, dict[str, Any]] = {}
    """Of each number, by its name, the settings of its measurement that are not the usual ones."""
    more: dict[str, float] = {}
    """Other measures that were taken, by name."""
    grid_search: GridSearch | None = None


class EvaluatedRuns(BaseModel):
    """What ``thetarbm evaluate --json`` prints."""

    runs: list[Evaluated]


@click.command("evaluate")
@click.argument("runs", nargs=-1, metavar="RUN…", shell_complete=complete_runs)
@click.option("--all", "every", is_flag=True, help="Every finished run in the results folder.")
@click.option("--profile", help="Sizes of the test images [default: those of the profile that the run was made in].")
@click.option("--offset", type=float, help="Δ of the γ-score's rotations, in degrees [default: 20].")
@click.option("--grid-search", is_flag=True, help="Also choose C and γ of the SVM on the validation images.")
@click.option("--invariance", is_flag=True, help="Also take three other measures of invariance, on test images.")
@set_option
@click.option("--force", is_flag=True, help="Measure again what was measured; the first numbers stand.")
@json_option
@pass_session
def evaluate(
    session: Session,
    runs: tuple[str, ...],
    every: bool,
    profile: str | None,
    offset: float | None,
    grid_search: bool,
    invariance: bool,
    assignments: tuple[str, ...],
    force: bool,
) -> int:
    """Measure runs: RBF-SVM test error (C = 10, γ = 0.02) and γ-score on train and test.

    RUN is an id, the beginning of one, or the path of its folder or a file in it. Settings of measuring are given by
    --set, as svm.C=1 or features=states; each gives further numbers beside those that are there. With --all, runs that
    have all numbers are printed from their records, and others are measured; one that cannot be is passed over with a
    warning, and the exit code is 1.
    """
    from thetarbm_cli.specs import OFFSET, OWN_IMAGES, parse_assignments

    if every and runs:
        raise InputError("--all is for every finished run: name runs, or use --all, not both")
    if not every and not runs:
        raise InputError("name the runs to evaluate, or use --all for every finished run")
    store, assigned = session.store(), parse_assignments(assignments)
    if offset is not None:
        assigned = {**assigned, "offset": offset}
    # A run that is named wrongly is refused before any is measured.
    named = [store.require(store.find_run(name)) for name in runs]
    chosen, damaged = _trained_runs(store) if every else (named, 0)
    words = ["error", "gamma", *(["search"] if grid_search else []), *(["invariance"] if invariance else [])]
    as_recorded = every and not (force or profile or assigned or grid_search or invariance)
    output = EvaluatedRuns(runs=[])
    with Display(session.quiet) as display:
        display.update("runs", "", 0, len(chosen))
        # The libraries take a second.
        from thetarbm_cli.evaluation import measure
        from thetarbm_cli.results import nearest_numbers

        for number, training in enumerate(chosen):
            try:
                if as_recorded and training.measurements and not _was_cut_off(store, training, words):
                    found, cached, numbers = training, True, nearest_numbers(training)
                    wanted: list[MeasureSpec] = []
                else:
                    wanted = _wanted(training, words, profile, assigned)
                    found, cached = measure(
                        store,
                        training,
                        wanted,
                        backend=session.backend_name,
                        force=force,
                        report=partial(display.update, training.run),
                    )
                    numbers = _numbers(found, wanted)
                output.runs.append(
                    _evaluated(found, wanted, numbers, cached, float(assigned.get("offset", OFFSET)), assigned)
                )
            except ThetaRBMError as error:
                # On a full disk no other run could be recorded either.
                if not every or isinstance(error, StorageError):
                    raise
                logger.warning("%s", error)
            display.update("runs", "", number + 1, len(chosen))
    if not session.print_json(output):
        files = {(run.source, run.train_sha256) for run in output.runs if run.dataset == OWN_IMAGES}
        for run in output.runs:
            is_doubled = sum(source == run.source for source, _ in files) > 1
            _show(run, f" (sha256 {run.train_sha256[:12]}…)" if is_doubled else "")
    return 0 if len(output.runs) == len(chosen) + damaged else EXIT_FAILED


def _was_cut_off(store: Store, training: Training, words: list[str]) -> bool:
    """Whether a run has some numbers of those that are asked for, at whatever settings, and the others can be made."""
    asked = {(each.measure, each.part == "train", each.aligned) for each in _wanted(training, words, None, {})}
    specs = [each.spec for each in training.measurements if each.spec.weights == "learned"]
    found = {(spec.measure, spec.part == "train", spec.aligned) for spec in specs}
    return not asked <= found and store.load_weights(training.run) is not None


def _trained_runs(store: Store) -> tuple[list[Training], int]:
    """Load all runs that are done; count those with a record that cannot be used, with a warning for each."""
    known = store.identifiers()
    if not known and not store.folder.is_dir():
        raise InputError(f"there are no runs: the folder {store.folder} does not exist; thetarbm train makes one")
    trainings = store.trainings()
    done = [each for each in trainings if each.state == "done"]
    damaged = len(known) - len(trainings)
    if not done and not damaged:
        raise InputError(f"there is no finished run in {store.folder}; thetarbm train makes one")
    return done, damaged


def _wanted(training: Training, words: list[str], profile: str | None, assigned: dict[str, Any]) -> list[MeasureSpec]:
    """Describe the measurements that are asked for of a training."""
    from thetarbm_cli.specs import measure_specs, measuring

    try:
        sizes = profile_settings(profile or training.made_for.profile, training.spec.model)[1]
    except InputError:
        # The profile of another suite.
        if profile is not None:
            raise
        sizes = {}
    return measure_specs(training.spec, words, measuring({**sizes, **assigned}))


def _numbers(training: Training, wanted: list[MeasureSpec]) -> dict[str, Number]:
    """Give the numbers of measurements by the names that JSON outputs have."""
    from thetarbm_cli.results import numbers_of

    keys = {spec.key for spec in wanted}
    return {
        column_name(number.measure, number.variant): number
        for number in numbers_of(training)
        if number.measurement is not None and number.measurement.spec.key in keys
    }


def _evaluated(
    training: Training,
    wanted: list[MeasureSpec],
    described: dict[str, Number],
    cached: bool,
    offset: float,
    assigned: dict[str, Any],
) -> Evaluated:
    """Gather the numbers of a run."""
    spec, numbers = training.spec, {column: number.value for column, number in described.items()}
    tested = next((each.spec for each in training.measurements if each.spec.part != "train"), None)
    tested = next((each for each in wanted if each.part != "train"), tested)
    found = Evaluated(
        run=training.run,
        model=spec.model,
        sparsity=spec.parameters.get("sparsity"),
        seed=spec.seed,
        dataset=tested.dataset if tested else spec.tested_on,
        source=tested.source if tested else spec.data.source,
        test_error_percent=numbers.get(ERROR),
        gamma_train=numbers.get(GAMMA_TRAIN),
        gamma_test=numbers.get(GAMMA_TEST),
        train_sha256=training.images_sha256,
        gamma_offset=offset,
        dead_units=None if "dead_units_test" not in numbers else int(numbers["dead_units_test"]),
        cached=cached,
    )
    if any(f"{name}_unaligned" in numbers for name in MAIN):
        for name in MAIN:
            setattr(found, f"{name}_unaligned", numbers.get(f"{name}_unaligned"))
    if assigned:
        found.settings = assigned
    found.weights = next((each.weights for each in wanted), "learned")
    measured = {column: number.measurement for column, number in described.items() if number.measurement}
    found.unusual = {column: each.spec.unusual for column, each in measured.items() if each.spec.unusual}
    found.more = {
        name: value
        for name, value in numbers.items()
        if measure_of(split_column(name)[0]).asked_as not in ("", "error", "gamma", "search")
    }
    search = next((each for each in wanted if each.measure == "search"), None)
    if search is not None and search.key in training.by_key:
        chosen = training.by_key[search.key]
        values = {name.removeprefix("search_"): value for name, value in chosen.values.items()}
        values["test_error_percent"] = values.pop("error_percent")
        found.grid_search = GridSearch.model_validate({**values, "grid": chosen.details.get("grid", [])})
    return found


def _show(run: Evaluated, which: str) -> None:
    cached = " (cached)" if run.cached else ""
    sparsity = "" if run.sparsity is None else f"sparsity {run.sparsity}, "
    given = "".join(f", {name}={value}" for name, value in (run.settings or {}).items())
    print_text(f"{run.run}{cached}  {sparsity}seed {run.seed}, {run.dataset} {run.source}{which}{given}")
    unaligned = [getattr(run, f"{name}_unaligned") for name in MAIN]
    aligned = [getattr(run, name) for name in MAIN]
    twice = any(value is not None for value in unaligned)
    if any(value is not None for value in aligned) or not twice:
        _show_numbers(" aligned" if twice else "", *aligned)
    if twice:
        _show_numbers(" not aligned", *unaligned)
    for name, value in run.more.items():
        measure = MEASURES[split_column(name)[0]]
        print_text(f"  {measure.with_unit}{', not aligned' * (measure.name != name)} {measure.text(value)}", indent=4)
    if run.dead_units:
        print_text(f"  {run.dead_units} dead units are left out of γ", indent=4)
    if found := run.grid_search:
        print_text(
            f"  grid search: C = {found.C:g}, γ = {found.gamma:g}, validation error "
            f"{found.validation_error_percent:.2f} %, test error {found.test_error_percent:.2f} %",
            indent=4,
        )


def _show_numbers(how: str, error: float | None, gamma_train: float | None, gamma_test: float | None) -> None:
    percent = f"{MISSING} (no labels)" if error is None else f"{error:.2f} %"
    show = MEASURES[GAMMA_TEST].text
    print_text(f"  test error{how} {percent}   γ train {show(gamma_train)}   γ test {show(gamma_test)}", indent=2)


@click.command("features")
@click.argument("run", shell_complete=complete_runs)
@click.option(
    "--out",
    required=True,
    type=UserPath(dir_okay=False, allow_dash=True),
    help="FILE.npz or FILE.csv to write; - is CSV on stdout.",
)
@click.option(
    "--images",
    type=UserPath(dir_okay=False, exists=True),
    help="FILE.npz with `images` (N, h, w) [default: the run's own data].",
)
@pass_session
def features(session: Session, run: str, out: Path, images: Path | None) -> None:
    """Write the features of a run to a file.

    RUN is as for evaluate. FILE.npz has `features` (N, H), and `labels` and `split` (0 train, 1 valid, 2 test) where
    they are known; FILE.csv has a line for each image, with the columns label, split, unit0, unit1, …
    """
    from thetarbm_cli import storage
    from thetarbm_cli.arrays import write_arrays

    if str(out) != "-" and out.suffix not in (".npz", ".csv"):
        raise InputError(f"features are written as FILE.npz, FILE.csv or - for CSV on stdout, not as {str(out)!r}")
    store = session.store()
    arrays = _features(store, store.require(store.find_run(run)), images, session.backend_name)
    count, units = arrays["features"].shape
    if out.suffix == ".npz":
        write_arrays(out, arrays)
    elif out.suffix == ".csv":
        with storage.replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            _write_csv(stream, arrays)
    else:
        _write_csv(sys.stdout, arrays)
    what = f"{count} images × {units} features"
    if str(out) == "-":
        session.say(what)
    else:
        print_text(f"{out}: {what}", indent=2)


def _features(store: Store, training: Training, images: Path | None, backend: str) -> dict[str, Any]:
    """Compute ``features`` (N, H); of the run's own data also ``labels`` (N,) and ``split`` (N,)."""
    import numpy as np

    from thetarbm_cli.data.recipes import NO_LABEL, PARTS, as_unit_floats
    from thetarbm_cli.data.sources.user_npz import read_user_images
    from thetarbm_cli.pipeline import fitted, load_data

    model, _ = fitted(store, training, backend)
    if images is not None:
        pixels = as_unit_floats(read_user_images(images))
        if pixels.shape[1] != model.n_features_in_:
            raise InputError(
                f"{images} has images of {pixels.shape[1]} pixels, but {training.run} was trained on "
                f"{model.n_features_in_}"
            )
        return {"features": model.transform(pixels)}
    data = training.spec.data
    learned = load_data(store, data.dataset, data.source, data.seed, sha256=training.images_sha256)
    sizes = _wanted(training, ["error"], None, {})[0]
    measured = next((each for each in training.measurements if each.spec.measure == "error"), None)
    usual = measured.spec if measured else sizes
    # The images of a user's file are found by their checksum: several files may have its name.
    known = training.images_sha256 if usual.dataset == data.dataset else None
    tested = load_data(
        store, usual.dataset, usual.source, usual.data_seed, sha256=measured.images_sha256 if measured else known
    )
    learned, tested = learned.subset(data.train, data.valid, 0), tested.subset(0, 0, sizes.count)
    parts = [learned.part("train"), learned.part("valid"), tested.part("test")]
    labels = np.concatenate([labels for _, labels in parts])
    return {
        "features": model.transform(np.concatenate([pixels for pixels, _ in parts])),
        **({} if NO_LABEL in labels else {"labels": labels}),
        "split": np.repeat(np.array(list(PARTS.values()), dtype=np.uint8), [len(labels) for _, labels in parts]),
    }


def _write_csv(stream: Any, arrays: dict[str, Any]) -> None:
    """Write a line for each image: label and name of its part where they are known, then the units."""
    import numpy as np
    import pandas as pd

    from thetarbm_cli.data.recipes import PARTS

    table = pd.DataFrame(arrays["features"], columns=[f"unit{unit}" for unit in range(arrays["features"].shape[1])])
    if "split" in arrays:
        table.insert(0, "split", np.array(list(PARTS))[arrays["split"]])
    if "labels" in arrays:
        table.insert(0, "label", arrays["labels"])
    # Nine digits give every float32 back.
    table.to_csv(stream, index=False, float_format="%.9g", lineterminator="\n")


class PerturbedCell(BaseModel):
    """One cell of Table 3."""

    n: int
    p: float
    test_error_percent: Percent
    run: str


class Perturbed(BaseModel):
    """What ``thetarbm perturb --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    scope: Literal["train", "rbm", "all"]
    seed: int
    """The one seed of these runs; tables have the mean over all."""
    unperturbed_error_percent: Percent
    cells: list[PerturbedCell]


@click.command("perturb")
@click.option(
    "--n",
    "n_values",
    type=NumberList(int, 1, 1000),
    default="1,2,3,4",
    help="Largest errors of the orientation index.",
)
@click.option(
    "--p",
    "p_values",
    type=NumberList(float, 0.001, 0.999),
    default="0.1,0.2,0.3,0.4",
    help="Probabilities of the Binomial distribution.",
)
@click.option(
    "--scope",
    type=click.Choice(["train", "rbm", "all"]),
    default="train",
    help="Perturb training (RBM and SVM), the RBM's training only, or the test too.",
)
@suite_option
@profile_option
@images_option
@seed_option
@set_option
@jobs_option
@json_option
@pass_session
def perturb(
    session: Session,
    n_values: tuple[int, ...],
    p_values: tuple[float, ...],
    scope: Literal["train", "rbm", "all"],
    suite_path: Path | None,
    profile: str,
    source: str,
    seed: int,
    assignments: tuple[str, ...],
    jobs: int,
) -> None:
    """Make Table 3: the θ-RBM's test error when orientations are off by ±ε, ε ~ Binomial(n, p).

    Errors are read from the records; runs that are missing are made, as by thetarbm run perturbation.
    """
    from thetarbm_cli.commands.suite import make_all
    from thetarbm_cli.commands.tables import print_paper_table
    from thetarbm_cli.reporting.tables import build
    from thetarbm_cli.results import Recorded, Results, Source
    from thetarbm_cli.schedule import plan
    from thetarbm_cli.specs import parse_assignments
    from thetarbm_cli.suite import load_suite

    assigned = parse_assignments(assignments)
    if assigned.keys() & {"perturbation.n", "perturbation.p", "perturbation.scope"}:
        raise InputError("n, p and scope of the perturbation are set by --n, --p and --scope here, not by --set")
    suite = load_suite(suite_path, check_settings=False)
    cells = suite.cells(profile)
    table = [cell for cell in cells if "3" in cell.tables]
    usual = table[0].unperturbed(cells) if table else None
    if usual is None:
        raise InputError("the suite has no Table 3 with a cell whose orientations are as they are estimated")
    published = {(cell.at["n"], cell.at["p"]): cell.published for cell in table}
    of_errors = {name: value for name, value in assigned.items() if name.startswith("perturbation.")}
    given = {**usual.given, "data.source": source, **assigned}
    given = {name: value for name, value in given.items() if name not in of_errors}
    unperturbed = replace(usual, name="unperturbed", measures=("error",), offsets=(), given=given)

    def cell_of(n: int, p: float) -> Cell:
        wrong = {"perturbation.n": n, "perturbation.p": p, "perturbation.scope": scope}
        return replace(
            unperturbed,
            name=f"n = {n}, p = {p}",
            at={"n": n, "p": p},
            tables=("3",),
            published=published.get((n, p), {}),
            given={**given, **of_errors, **wrong},
        )

    perturbed = [cell_of(n, p) for n in n_values for p in p_values]
    store = session.store()
    make_all(session, store, plan(store, [unperturbed, *perturbed], only_seed=seed), jobs)
    recorded = Recorded([each for each in store.trainings() if each.spec.seed == seed])
    sha256 = next((each.images_sha256 for each in recorded.trained(unperturbed, seed)), "")
    results = Results(Source(unperturbed.source, sha256, unperturbed.tested_on), [unperturbed, *perturbed], recorded)
    values = {cell.name: results.value(cell, ERROR) for cell in results.cells}
    if any(not value.values for value in values.values()):
        raise InputError(f"{source} has no labels, which a test error needs")
    output = Perturbed(
        scope=scope,
        seed=seed,
        unperturbed_error_percent=values[unperturbed.name].values[0],
        cells=[
            PerturbedCell(
                n=cell.at["n"],
                p=cell.at["p"],
                test_error_percent=values[cell.name].values[0],
                run=values[cell.name].runs[0],
            )
            for cell in perturbed
        ],
    )
    if not session.print_json(output):
        print_paper_table(build("3", suite.tables["3"], results))
        print_text(f"All runs have seed {output.seed} and --scope {output.scope}.")
