"""``thetarbm list``, ``show``, ``pack`` and ``clean``: what was made."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from pydantic import BaseModel, ConfigDict, Field

from thetarbm_cli.commands.common import RegistryChoice, Session, UserPath, json_option, pass_session, suite_option
from thetarbm_cli.commands.completion import complete_runs, complete_settings
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.measures import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, MISSING
from thetarbm_cli.registry import MODELS
from thetarbm_cli.ui import Cell, print_fields, print_table, print_text, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.reporting.runs import ListedRun
    from thetarbm_cli.store import Store
    from thetarbm_cli.suite import Suite

Count = Annotated[int, Field(ge=0)]


@click.command("list")
@click.option("--model", "models", type=RegistryChoice(MODELS), multiple=True, help="Only runs of this model.")
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_settings,
    help="Only runs with this setting, as sparsity=0.3.",
)
@click.option("--sort", default="run", metavar="KEY", help="Setting or number to sort by; -KEY: largest first.")
@json_option
@pass_session
def list_command(session: Session, models: tuple[str, ...], where: tuple[str, ...], sort: str) -> None:
    """List every record: the settings that set it apart from the defaults, and its main numbers.

    KEY is a setting as --set names it, or model, seed, state, dataset, source, cells, or a number as
    test_error_percent; --sort also takes error and gamma. Of several --where all must hold. Runs that have no
    record yet are in the table alone.
    """
    from thetarbm_cli.reporting.runs import ListedRuns, list_runs

    store = session.store()
    trainings = [each for each in store.trainings() if not models or each.spec.model in models]
    output = ListedRuns(runs=list_runs(trainings, where, sort))
    if session.print_json(output):
        return
    # A run that has no record yet has neither settings nor numbers to choose it by.
    begun = [] if where else [run for run in store.unfinished() if not models or run.rpartition("-")[0] in models]
    if not output.runs and not begun:
        if not session.results.is_dir():
            session.say(f"the results folder {session.results} does not exist: nothing was run yet")
        else:
            session.say(f"no record in {session.results} fits" if models or where else f"no run in {session.results}")
        return
    # On a terminal, what all have is said once, as room is scarce.
    shared = _shared(output.runs) if sys.stdout.isatty() else {}
    files = {(run.source, run.train_sha256) for run in output.runs if run.dataset == "images"}
    doubled = {source for source, _ in files if sum(name == source for name, _ in files) > 1}
    rows = [_row(run, shared, doubled) for run in output.runs]
    rows += [[run, *"————", state_cell("running" if store.holder(run) else "interrupted")] for run in begun]
    print_table(["run", "seed", "error %", "γ train", "γ test", "settings"], rows, last_below=True)
    if shared:
        print_text(f"all that have a record: {_words(shared)}", style="weak")
    session.say(f"{len(rows)} run{'' if len(rows) == 1 else 's'}")


def _shared(runs: Sequence[ListedRun]) -> dict[str, Any]:
    """Give the settings that all of several runs have."""
    if len(runs) < 2:
        return {}
    return {
        name: value
        for name, value in runs[0].differs.items()
        if all(name in run.differs and run.differs[name] == value for run in runs)
    }


def _words(settings: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def _row(run: ListedRun, shared: dict[str, Any], doubled: set[str]) -> list[Cell]:
    numbers = [MEASURES[name].text(getattr(run, name)) for name in (ERROR, GAMMA_TRAIN, GAMMA_TEST)]
    words = _words({name: value for name, value in run.differs.items() if name not in shared})
    if run.source in doubled:
        words += f" sha256={run.train_sha256[:12]}…"
    settings: Cell = words if run.state == "done" else (f"diverged {words}", "bad")
    return [run.run, str(run.seed), *numbers, settings]


@click.command("show")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", shell_complete=complete_runs)
@suite_option
@json_option
@pass_session
def show(session: Session, runs: tuple[str, ...], suite_path: Path | None) -> None:
    """Show one run: settings that differ from the defaults, numbers next to the paper's, history, costs, files.

    RUN is as for evaluate. Of a run that is being trained, its settings and how far it is are shown. Of several runs,
    the settings and numbers in which they differ. Nothing is trained, measured or written.
    """
    from thetarbm_cli.reporting.runs import compare_runs, show_run, show_unfinished, to_fields
    from thetarbm_cli.suite import load_suite

    store = session.store()
    names = list(dict.fromkeys(store.find_run(run, unfinished=len(runs) == 1) for run in runs))
    if len(names) > 1:
        compared = compare_runs([_load(store, name) for name in names])
        if not session.print_json(compared):
            rows = [
                [name, *map(_word, values)]
                for values_by_name in (compared.settings, compared.measures)
                for name, values in values_by_name.items()
            ]
            print_table(["", *compared.runs], rows)
        return
    if names[0] in store.unfinished():
        shown = show_unfinished(store, names[0])
    else:
        shown = show_run(store, _load(store, names[0]), load_suite(suite_path, check_settings=False))
    if not session.print_json(shown):
        print_fields(to_fields(shown))


def _load(store: Store, run: str) -> Any:
    training = store.load(run)
    if training is None:
        raise InputError(f"the record of {run} in {store.path(run)} cannot be used; train it again")
    return training


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return MISSING if value is None else str(value)


class Packed(BaseModel):
    """What ``thetarbm pack --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    path: str
    bytes: Count
    records: Count
    """All trainings that the file has now."""
    runs: list[str]
    """Those that were asked for."""
    slim: bool
    """Whether values per unit and confusion matrices are left out."""
    removed: list[str]
    """Runs whose own files were removed."""


@click.command("pack")
@click.argument("runs", nargs=-1, metavar="[RUN]…", shell_complete=complete_runs)
@click.option("--all", "take_all", is_flag=True, help="All runs with a folder in runs/.")
@click.option("--out", type=UserPath(dir_okay=False), help="The file [default: packed/runs.jsonl.xz of the results].")
@click.option("--slim", is_flag=True, help="Leave out values per unit and confusion matrices.")
@click.option("--remove", is_flag=True, help="Then remove the runs' own records; weights stay.")
@json_option
@pass_session
def pack(
    session: Session,
    runs: tuple[str, ...],
    take_all: bool,
    out: Path | None,
    slim: bool,
    remove: bool,
) -> None:
    """Put the records of runs, with all that was measured, into one compressed file of lines with checksums.

    Every file packed/NAME.jsonl.xz of a results folder is read like the folders of runs, below them, by all commands.
    Records that such a file has already stay in it. With --remove, the pack is read again and compared before the
    records in runs/ go.
    """
    store = session.store()
    if bool(runs) == take_all:
        raise InputError("name the runs to pack, or take --all" if not runs else "RUN and --all exclude each other")
    folder = session.results / "packed"
    path = out or folder / "runs.jsonl.xz"
    if remove and path.parent.resolve() != folder.resolve():
        raise InputError(f"--remove would lose records: only packs in {folder} are read, and {path} is elsewhere")
    names = store.own_identifiers() if take_all else sorted({store.find_run(run) for run in runs})
    if not names:
        raise InputError(f"there is no run in {store.folder}; thetarbm train makes one")
    count = store.pack(path, names, slim=slim)
    removed = store.remove_packed(path) if remove else []
    output = Packed(path=str(path), bytes=path.stat().st_size, records=count, runs=names, slim=slim, removed=removed)
    if session.print_json(output):
        return
    print_text(f"{path}: {count} records, {output.bytes / 1e3:.1f} kB")
    if remove:
        print_text(f"{len(removed)} records removed from {store.folder}")


class Removal(BaseModel):
    """A folder or file that was or may be removed."""

    run: str
    path: str
    reason: str
    bytes: Count


class Cleaned(BaseModel):
    """What ``thetarbm clean --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    removed: list[Removal]
    bytes: Count
    would_remove: list[Removal] | None = None
    """With --dry-run alone: what would go."""
    would_free_bytes: Count | None = None
    """With --dry-run alone: how much room it takes."""


@click.command("clean")
@click.option("--weights", is_flag=True, help="Remove the weights of measured runs too; their records stay.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be removed, and how much room it takes.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@suite_option
@json_option
@pass_session
def clean(session: Session, weights: bool, dry_run: bool, yes: bool, suite_path: Path | None) -> None:
    """Remove runs that were made for the suite and that it no longer asks for.

    Runs made by hand or for another suite stay, and so do packed ones. What goes is listed, and you are asked first.
    """
    from thetarbm_cli.suite import find_suite, load_suite

    store = session.store()
    removals = _stale(store, load_suite(suite_path), find_suite(suite_path).name)
    if weights:
        stale = {removal.run for removal in removals}
        for training in store.trainings():
            path = store.path(training.run, "weights.npz")
            kept = training.run in stale or store.holder(training.run) is not None
            if training.measurements and path.is_file() and not kept:
                removals.append(_removal(training.run, path, "weights of a measured run"))
    size = sum(removal.bytes for removal in removals)
    if not session.as_json:
        for removal in removals:
            print_text(f"{removal.path}: {removal.reason}", indent=2)
    question = f"remove {len(removals)} of these, {size / 1e6:.1f} MB?"
    removes = not dry_run and bool(removals) and (yes or _is_confirmed(question))
    for removal in removals if removes else []:
        path = Path(removal.path)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ThetaRBMError(f"cannot remove {path}: {error.strerror}") from error
    output = Cleaned(removed=removals if removes else [], bytes=size if removes else 0)
    if dry_run:
        output.would_remove, output.would_free_bytes = removals, size
    if session.print_json(output):
        return
    if not removals:
        click.echo("nothing to remove")
    elif removes:
        click.echo(f"{len(removals)} removed, {size / 1e6:.1f} MB")
    elif dry_run:
        click.echo(f"{len(removals)} would be removed, {size / 1e6:.1f} MB")
    else:
        click.echo("nothing removed")


def _stale(store: Store, suite: Suite, file: str) -> list[Removal]:
    """List runs made for a suite that no cell of any profile asks for now, whatever the source of their images."""
    from thetarbm_cli.specs import ALGORITHM

    own = set(store.own_identifiers())
    trainings = [each for each in store.trainings() if each.run in own and each.made_for.suite == file]
    # The images of mnist have a source of their own, which no other data set has.
    sources = {each.spec.data.source for each in trainings if each.spec.tested_on == each.spec.data.dataset}
    asked = {
        cell.train_spec().cell_key
        for profile in suite.profiles
        for source in (None, *sources)
        for cell in suite.cells(profile, source)
    }
    found = []
    for each in trainings:
        if each.spec.algorithm != ALGORITHM:
            reason = f"made by version {each.spec.algorithm} of the algorithm, this is {ALGORITHM}"
        elif each.spec.cell_key not in asked:
            reason = f"made for {', '.join(each.made_for.cells)} with settings that the suite no longer has"
        else:
            continue
        if store.holder(each.run) is None:
            found.append(_removal(each.run, store.path(each.run), reason))
    return found


def _removal(run: str, path: Path, reason: str) -> Removal:
    """Say what may go, why, and how much room it takes."""
    files = path.rglob("*") if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files if file.is_file())
    return Removal(run=run, path=str(path), reason=reason, bytes=size)


def _is_confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise InputError("nobody is there to answer, and nothing was removed; --yes removes without asking") from None
