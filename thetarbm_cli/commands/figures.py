"""``thetarbm figures``: pictures of what was measured and learned."""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import BaseModel

from thetarbm_cli.commands.common import (
    NumberList,
    Session,
    UserPath,
    json_option,
    pass_session,
    profile_option,
    source_option,
    suite_option,
)
from thetarbm_cli.commands.completion import complete_figures
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.reporting.figures import FIGURES, FORMATS, encode, make

if TYPE_CHECKING:
    from thetarbm_cli.reporting.figures.context import Drawing, FigureContext

logger = logging.getLogger("thetarbm")


class Figure(BaseModel):
    """A figure that was drawn, and its file."""

    name: str
    title: str
    file: str


class FigureLeftOut(BaseModel):
    """A figure that cannot be drawn, and why."""

    name: str
    reason: str


class Figures(BaseModel):
    """What ``thetarbm figures --json`` prints."""

    files: list[str]
    figures: list[Figure]
    left_out: list[FigureLeftOut]


def _listed() -> str:
    """List the figures for the help: a paragraph that click keeps as it is."""
    lines = ["\b"]
    for needs in ("records", "weights", "images", "universes"):
        names = " ".join(figure.name for figure in FIGURES if figure.needs == needs)
        lines += textwrap.wrap(names, 76, initial_indent=f"{f'from {needs}:':<16}", subsequent_indent=" " * 16)
    return "\n".join(lines)


@click.command(
    "figures",
    help=f"""Draw figures from the records, or all that can be drawn.

Nothing is trained, measured or prepared. Some figures also need the weights of runs or the prepared images.

{_listed()}
""",
)
@click.argument("names", nargs=-1, metavar="[NAME]…", shell_complete=complete_figures)
@click.option("--format", "form", type=click.Choice(FORMATS), default="png", help="Kind of file.")
@click.option("--out", type=UserPath(file_okay=False), help="Folder of the files [default: RESULTS/figures].")
@click.option(
    "--units",
    type=NumberList(int, 0),
    metavar="N,N,…",
    help="Hidden units whose filters are shown [default: the most active ones].",
)
@suite_option
@profile_option
@source_option
@json_option
@pass_session
def command(
    session: Session,
    names: tuple[str, ...],
    form: str,
    out: Path | None,
    units: tuple[int, ...] | None,
    suite_path: Path | None,
    profile: str,
    source: str | None,
) -> None:
    """Draw figures."""
    from thetarbm_cli import storage
    from thetarbm_cli.reporting.figures.context import figure_context
    from thetarbm_cli.suite import load_suite

    for name in names:
        FIGURES[name]  # An unknown name is refused before anything is drawn.
    suite = load_suite(suite_path, check_settings=False)
    context = figure_context(suite, session.store(), profile, source, units=units or ())
    if context.others:
        others = " and ".join(other.described for other in context.others)
        session.say(f"figures show {context.results.source.described}; --source shows {others}")
    drawn, left_out = _draw(session, context, names, form)
    folder = out or session.results / "figures"
    # Universes have a size and sources of their own.
    suffix = {name: "" if FIGURES[name].needs == "universes" else context.suffix for name in drawn}
    files = {name: folder / f"{name}{suffix[name]}.{form}" for name in drawn}
    for name, (drawing, content) in drawn.items():
        # A picture of the recorded weights is not replaced by one of others.
        if out is None and not drawing.recorded and files[name].is_file():
            session.say(f"kept: {files[name]}: the recorded weights are not here; --out FOLDER draws it anew")
        else:
            storage.write_bytes(files[name], content)
    lacking = {cell.name: cell for drawing, _ in drawn.values() for cell in drawing.cells}
    for line in context.results.missing_lines(list(lacking.values())):
        session.say(line)
    output = Figures(
        files=[str(path) for path in files.values()],
        figures=[Figure(name=name, title=FIGURES[name].label, file=str(path)) for name, path in files.items()],
        left_out=[FigureLeftOut(name=name, reason=reason) for name, reason in left_out.items()],
    )
    if not session.print_json(output):
        for file in output.files:
            click.echo(file)


def _draw(
    session: Session, context: FigureContext, names: tuple[str, ...], form: str
) -> tuple[dict[str, tuple[Drawing, bytes]], dict[str, str]]:
    """Draw all figures, or the named ones, before any is written; without names, also say why others are left out."""
    from thetarbm_cli.reporting.figures.context import FigureMissing

    drawn, left_out = {}, {}
    wanted = list(dict.fromkeys(names)) or FIGURES.names
    with session.progress("drawing") as progress:
        for number, name in enumerate(wanted, start=1):
            try:
                drawing = make(name, context)
                drawn[name] = (drawing, encode(name, drawing, form))
            except FigureMissing as error:
                if names:
                    raise ThetaRBMError(f"cannot draw {name}: {error}") from error
                left_out[name] = str(error)
            progress(number, len(wanted))
    for reason in dict.fromkeys(left_out.values()):
        without = ", ".join(name for name, why in left_out.items() if why == reason)
        logger.warning("left out: %s: %s", without, reason)
    return drawn, left_out
