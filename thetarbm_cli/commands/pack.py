"""``thetarbm pack``: many records in one file."""

from __future__ import annotations

from pathlib import Path

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import UserPath, json_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import InputError
from thetarbm_cli.ui import print_text


@click.command("pack")
@click.argument("runs", nargs=-1, metavar="[RUN]…", shell_complete=complete_runs)
@click.option("--all", "take_all", is_flag=True, help="All runs with a folder in runs/.")
@click.option("--out", type=UserPath(dir_okay=False), help="The file [default: packed/runs.records.xz of the results].")
@click.option("--slim", is_flag=True, help="Leave out values per unit and confusion matrices.")
@click.option("--remove", is_flag=True, help="Then remove the runs' own records; weights stay.")
@json_option
@pass_session
def command(
    session: Session,
    runs: tuple[str, ...],
    take_all: bool,
    out: Path | None,
    slim: bool,
    remove: bool,
) -> None:
    """Put the records of runs, with all that was measured, into one compressed file with a checksum.

    Every file packed/NAME.records.xz of a results folder is read like the folders of runs, below them, by all
    commands. Records that such a file has already stay in it. With --remove, the pack is read again and compared
    before the records in runs/ go.
    """
    from thetarbm_cli.experiments.runs.packing import add_records, pack_records, remove_packed
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.outputs import Pack

    store = RunStore(session.results)
    if bool(runs) == take_all:
        raise InputError("name the runs to pack, or take --all" if not runs else "RUN and --all exclude each other")
    path = out or store.packed / "runs.records.xz"
    is_own = path.parent.resolve() == store.packed.resolve()
    if remove and not is_own:
        raise InputError(f"--remove would lose records: only packs in {store.packed} are read, and {path} is elsewhere")
    names = store.own_identifiers() if take_all else sorted({store.find(run) for run in runs})
    if not names:
        raise InputError(f"there is no run in {store.folder}; thetarbm train makes one")
    count = (add_records if is_own else pack_records)(store, path, names, slim)
    removed = remove_packed(store, path) if remove else []
    output = Pack(path=str(path), bytes=path.stat().st_size, records=count, runs=names, slim=slim, removed=removed)
    if session.print_json(output):
        return
    print_text(f"{path}: {count} records, {output.bytes / 1e3:.1f} kB")
    if remove:
        print_text(f"{len(removed)} records removed from {store.folder}")
