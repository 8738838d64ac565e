"""``thetarbm train``: one model, one seed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from thetarbm_cli.commands.options import RegistryChoice, images_option, json_option, seed_option, set_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import InputError
from thetarbm_cli.followup import command_line
from thetarbm_cli.registry import DATASETS, MODELS, preset_names
from thetarbm_cli.ui import Command, TrainingDisplay, print_fields

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.experiments.runs.training import TrainedRun
    from thetarbm_cli.outputs import Train


@click.command("train")
@click.option(
    "--model",
    required=True,
    type=RegistryChoice(MODELS),
    help="What learns; pixels and aligned-pixels are controls that learn nothing.",
)
@click.option("--sparsity", type=float, help="Target of the mean activation [default: 0.3].")
@click.option(
    "--profile",
    type=click.Choice(["paper", "best", "survey", "quick", "tiny"]),
    default="paper",
    help="Size of the run.",
)
@click.option(
    "--preset",
    type=click.Choice(preset_names()),
    default="paper",
    help="Settings of the paper, or (tirbm) of the TI-RBM's authors.",
)
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
@click.option("--force", is_flag=True, help="Train even if the run is there.")
@json_option
@pass_session
def command(
    session: Session,
    /,
    model: str,
    profile: str,
    preset: str,
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
    thetarbm train --model tirbm --preset reference --seed 1
    thetarbm train --model rbm --set learning_rate=0.005 --set visible=bernoulli
    thetarbm train --model theta --set data.train=1000 --set perturbation.n=1 --set perturbation.p=0.1
    """  # noqa: D301  click takes \b as "keep these lines"
    with session.progress(model):
        # The libraries take a second.
        from thetarbm_cli.experiments.runs.settings import by_section, parse_assignments, resolve
        from thetarbm_cli.experiments.runs.training import train_run

    assigned = parse_assignments(assignments)
    data = {"data.train_on": train_on, "data.source": source}
    options = {name: value for name, value in settings.items() if value is not None}
    options |= {name: value for name, value in data.items() if _is_given(name.removeprefix("data."))}
    _refuse_contradiction(options, assigned)
    given = {**data, **options, **assigned}
    if "data.train_on" in {**options, **assigned} and str(given["data.source"]).endswith(".npz"):
        raise InputError(
            f"--train-on {given['data.train_on']} and --source {given['data.source']} contradict each other: "
            "a file of images is what the run learns from, so leave --train-on out"
        )
    resolved = resolve(model, profile=profile, preset=preset, **by_section(given))
    started = time.perf_counter()
    context = session.run_context()
    with TrainingDisplay(model, session.quiet) as display:
        trained = train_run(
            context,
            resolved,
            seed,
            force=force,
            # A profile takes as many images as there are; who names a number wants that number.
            exact=by_section(assigned).get("data", ()),
            on_epoch=lambda record, epochs: display.epoch(
                record.epoch, epochs, record.reconstruction_error, record.mean_activation
            ),
            on_data=display.preparing,
        )
    elapsed = time.perf_counter() - started
    output = _output(context.store, trained)
    if not session.print_json(output):
        _show(output, elapsed)


def _is_given(name: str) -> bool:
    """Say whether an option is on the line or in a variable."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def _refuse_contradiction(options: dict[str, Any], assigned: dict[str, Any]) -> None:
    """Refuse a setting that an option and --set give different values."""
    for name in options.keys() & assigned.keys():
        if options[name] != assigned[name]:
            option = f"--{name.removeprefix('data.').replace('_', '-')} {options[name]}"
            raise InputError(f"{option} and --set {name}={assigned[name]} contradict each other: give one of them")


def _output(store: RunStore, trained: TrainedRun) -> Train:
    """Gather what is printed about a run."""
    from thetarbm_cli.outputs import Train, TrainSettings

    record = trained.record
    last = record.history[-1] if record.history else {}
    return Train(
        run=record.run,
        model=record.settings.model,
        settings=TrainSettings(**{**record.settings.model_dump(mode="json"), "parameters": record.parameters}),
        seed=record.seed,
        cached=trained.cached,
        path=str(store.path(record.run)),
        weights=str(store.weights_path(record.run)),
        epochs=len(record.history),
        seconds=record.timings["train_seconds"],
        reconstruction_error=last.get("reconstruction_error"),
        mean_activation=last.get("mean_activation"),
    )


def _show(output: Train, elapsed: float) -> None:
    how = "cached" if output.cached else f"trained in {elapsed:.1f} s"
    fields = [("run", f"{output.run} ({how})"), ("path", output.path)]
    if output.reconstruction_error is not None:
        error = f"reconstruction error {output.reconstruction_error:.4f}"
        fields.append(("epochs", f"{output.epochs}, {error}, mean activation {output.mean_activation:.3f}"))
    print_fields([*fields, ("evaluate", Command(command_line("evaluate", output.run)))])
