"""``thetarbm report``: everything on one page, for a browser."""

from __future__ import annotations

import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.options import UserPath, json_option, profile_option, source_option, suite_option
from thetarbm_cli.commands.session import Session, pass_session

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.store import RunContext
    from thetarbm_cli.reporting.html.content import Content


@click.command("report")
@click.option(
    "--out",
    type=UserPath(dir_okay=False),
    help="File of the page [default: RESULTS/report.html].",
)
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@suite_option
@profile_option
@source_option
@json_option
@pass_session
def command(
    session: Session,
    out: Path | None,
    show: bool,
    suite_path: Path | None,
    profile: str,
    source: str | None,
) -> None:
    """Write one HTML page with verdicts, tables, figures, assumptions, environments and commands.

    Nothing is trained or measured, and the page needs no network. Without --source it shows every source of images
    that has records.
    """
    from thetarbm_cli.outputs import Report
    from thetarbm_cli.reporting.html.content import gather, missing

    content = gather(session.results, suite_path, profile, source)
    path = out or session.results / _name(profile, source)
    write_page(session, session.run_context(), content, path)
    drawn = [picture.figure.name for picture in content.pictures if picture.image is not None]
    output = Report(path=str(path), bytes=path.stat().st_size, figures=drawn, missing=missing(content))
    for line in content.report.missing_at_once():
        session.say(line)
    lost = {picture.figure.name: "; ".join(picture.missing) for picture in content.pictures if picture.image is None}
    if lost:
        why = set(lost.values()).pop() if len(set(lost.values())) == 1 else "the page says what each lacks"
        session.say(f"not drawn: {', '.join(lost)}; {why}")
    if not session.print_json(output):
        click.echo(output.path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        session.say(f"no browser could be started; open {path} by hand")


def write_page(session: Session, context: RunContext, content: Content, path: Path) -> None:
    """Draw the figures and write the page."""
    from thetarbm_cli import storage
    from thetarbm_cli.reporting.html.page import render_page
    from thetarbm_cli.reporting.html.pictures import draw_pictures

    with session.progress("figures") as progress:
        draw_pictures(content, context, progress)
    storage.write_bytes(path, render_page(content, datetime.now(tz=UTC).date().isoformat()).encode())


def _name(profile: str, source: str | None) -> str:
    """Name the page after profile and source where they are not the default, as tables are."""
    size = "" if profile == "paper" else f"-{profile}"
    return f"report{size}{'' if source is None else f'-{Path(source).stem}'}.html"
