"""``thetarbm report``: everything on one page, for a browser."""

from __future__ import annotations

import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from pydantic import BaseModel, Field

from thetarbm_cli.commands.common import (
    Session,
    UserPath,
    json_option,
    pass_session,
    profile_option,
    source_option,
    suite_option,
)

if TYPE_CHECKING:
    from thetarbm_cli.reporting.html.content import Content
    from thetarbm_cli.store import Store


class Lacking(BaseModel):
    """What the page does not have, and the command that makes it."""

    kind: Literal["cell", "figure"]
    name: str
    source: str
    reason: str
    command: str


class WrittenPage(BaseModel):
    """What ``thetarbm report --json`` prints."""

    path: str
    bytes: Annotated[int, Field(ge=0)]
    figures: list[str]
    missing: list[Lacking]


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
    from thetarbm_cli.reporting.html.content import gather
    from thetarbm_cli.reporting.tables import missing_lines

    store = session.store()
    content = gather(store, suite_path, profile, source)
    path = out or session.results / _name(profile, source)
    write_page(session, store, content, path)
    drawn = [picture.figure.name for picture in content.pictures if picture.image is not None]
    output = WrittenPage(path=str(path), bytes=path.stat().st_size, figures=drawn, missing=_missing(content))
    for line in missing_lines(content.sections):
        session.say(line)
    lost = {picture.figure.name: "; ".join(picture.missing) for picture in content.pictures if picture.image is None}
    if lost:
        why = set(lost.values()).pop() if len(set(lost.values())) == 1 else "the page says what each lacks"
        session.say(f"not drawn: {', '.join(lost)}; {why}")
    if not session.print_json(output):
        click.echo(output.path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        session.say(f"no browser could be started; open {path} by hand")


def _missing(content: Content) -> list[Lacking]:
    """List cells without a run, but for those that wait to be named, and figures that are not shown."""
    return [
        *(
            Lacking(
                kind="cell",
                name=each.cell.name,
                source=section.source.name,
                reason="; ".join(each.failures) or "no run yet",
                command=each.command,
            )
            for section in content.sections
            for each in section.reruns
            if not each.runs and not each.cell.on_request
        ),
        *(
            Lacking(
                kind="figure",
                name=each.figure.name,
                source=section.source.name,
                reason="; ".join(each.missing),
                command=each.command,
            )
            for section in content.sections
            for each in section.pictures
            if each.image is None
        ),
    ]


def write_page(session: Session, store: Store, content: Content, path: Path) -> None:
    """Draw the figures and write the page."""
    from thetarbm_cli import storage
    from thetarbm_cli.reporting.html.page import render_page
    from thetarbm_cli.reporting.html.pictures import draw_pictures

    with session.progress("figures") as progress:
        draw_pictures(content, store, progress)
    storage.write_bytes(path, render_page(content, datetime.now(tz=UTC).date().isoformat()).encode())


def _name(profile: str, source: str | None) -> str:
    """Name the page after profile and source where they are not the default, as tables are."""
    size = "" if profile == "paper" else f"-{profile}"
    return f"report{size}{'' if source is None else f'-{Path(source).stem}'}.html"
