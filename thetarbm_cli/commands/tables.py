"""``thetarbm tables``: the paper's tables, and the verdicts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.common import Session, UserPath, json_option, pass_session, profile_option, suite_option
from thetarbm_cli.commands.completion import complete_tables
from thetarbm_cli.errors import EXIT_FAILED, InputError, ReadOnlyError
from thetarbm_cli.followup import command_line
from thetarbm_cli.ui import Cell, fits, print_table, print_text, say, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.reporting.tables import Entry, Row, Section, Table


@click.command("tables")
@click.option(
    "--table",
    default="all",
    metavar="NAME",
    shell_complete=complete_tables,
    help="One table of the suite, as 1, 2, 3 or mnist; a name that is unknown lists them.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "latex", "csv"]),
    help="What to print and write [default: print for the terminal, Markdown where it is piped; write all].",
)
@click.option("--out", type=UserPath(file_okay=False), help="Folder of the files [default: RESULTS/tables].")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a file differs from its records.")
@suite_option
@profile_option
@json_option
@pass_session
def tables(
    session: Session,
    table: str,
    form: str | None,
    out: Path | None,
    check: bool,
    suite_path: Path | None,
    profile: str,
) -> int:
    """Print the paper's tables from the records, with the published numbers, and write them to files.

    Nothing is trained or measured. Verdicts on the paper's claims are written to RESULTS, or all to --out.
    """
    from thetarbm_cli.measures.theory import load_theory
    from thetarbm_cli.reporting.render import FORMATS, files_of, outdated
    from thetarbm_cli.reporting.tables import make_sections, missing_lines, tables_output
    from thetarbm_cli.suite import load_suite

    suite = load_suite(suite_path, check_settings=False)
    only = None if table == "all" else table
    sections = make_sections(suite, profile, session.store().trainings(), load_theory(session.results), only)
    shown = [each for section in sections for each in section.tables]
    if not shown:
        raise InputError(f"no experiment of the suite is in table {table}")
    folder, verdicts = out or session.results / "tables", out or session.results
    of_users, of_papers = (
        files_of(
            [section for section in sections if section.source.is_users == is_users],
            profile,
            folder,
            verdicts,
            [form] if form else [*FORMATS],
        )
        for is_users in (True, False)
    )
    if check:
        # Files of a user's own images need not be there, but those that are have to be right.
        wrong = outdated(of_papers | {path: text for path, text in of_users.items() if os.path.lexists(path)})
        words = [*(["--table", only] if only else []), *(["--out", str(out)] if out else [])]
        for path in wrong:
            say(f"{path} is not what the records give; {command_line('tables', *words, profile=profile)} writes it")
        return EXIT_FAILED if wrong else 0
    if session.as_json:
        session.print_json(tables_output(sections))
    elif form is None and sys.stdout.isatty():
        for each in shown:
            # A table without numbers says nothing of images that the paper has none on.
            if not (each.source.is_users and each.is_empty):
                print_paper_table(each)
        for section in sections:
            if section.verdicts and not only:
                _print_verdicts(section)
    else:
        _, to_text = FORMATS[form or "markdown"]
        click.echo("\n".join(to_text(each) for each in shown), nl=False)
    for line in missing_lines(sections):
        session.say(line)
    # Who only looks at the records of an installed package has no results folder, and needs none.
    if any(not section.results.is_empty for section in sections) and (out is not None or session.results.is_dir()):
        empty = [each.name for each in shown if each.is_empty]
        if empty:
            session.say(f"no file is written of what has no number yet: {', '.join(dict.fromkeys(empty))}")
        _write(session, of_papers | of_users, folder, verdicts, wanted=out is not None)
    return 0


def print_paper_table(table: Table) -> None:
    """Print a table as the paper has it, or with a row for each group of its columns, as γ of all targets is too wide.

    Where it is piped, it is Markdown.
    """
    from thetarbm_cli.reporting.render import CONTROLS, CONTROLS_MEASURE, stacked, to_markdown

    if not sys.stdout.isatty():
        click.echo(f"\n{to_markdown(table)}", nl=False)
        return
    rows = _cells(table.rows, table.kind.published_digits)
    headings = ["", *(f"{group}\n{column}" if group else column for group, column in table.headings)]
    if table.groups and (table.kind.layout == "sparsity" or not fits(headings, rows)):
        headings, rows = stacked(table, rows)
        for number, row in enumerate(rows):
            row[0] = (str(row[0]), "weak" if number % len(table.groups) else "")
    click.echo()
    print_text(table.title, style="bold")
    print_text(table.caption, style="weak")
    print_table(headings, rows)
    if table.controls:
        print_table([CONTROLS, CONTROLS_MEASURE], _cells(table.controls))
    for note in table.notes:
        print_text(note, style="weak")


def _cells(rows: list[Row], digits: int | None = None) -> list[list[Cell]]:
    """Write labels and entries; the paper's value may stand on a line of its own."""
    from thetarbm_cli.reporting.render import Marks, entry_text

    def cell(entry: Entry | None) -> Cell:
        style = "" if entry is None else "best" if entry.best else "open" if entry.starred else ""
        return entry_text(entry, Marks(bold="{}"), digits).replace(" (", "\n("), style

    return [[row.label, *map(cell, row.entries)] for row in rows]


def _print_verdicts(section: Section) -> None:
    from thetarbm_cli.reporting.claims import NO_DATA

    click.echo()
    if all(each.verdict == NO_DATA for each in section.verdicts):
        print_text(f"No verdicts yet on {section.source.described}: runs are missing", style="weak")
        return
    rows = [(each.text, state_cell(each.verdict), each.held) for each in section.verdicts]
    title = f"Verdicts on the paper's claims, {section.source.described}"
    print_table(["claim", "verdict", "comparisons that hold"], rows, title=title)


def _write(session: Session, files: dict[Path, str], folder: Path, verdicts: Path, *, wanted: bool) -> None:
    """Write the files; in a results folder of another, which can only be read, printing them is all that is done."""
    from thetarbm_cli.reporting.render import write

    try:
        write(files)
        session.say(f"files in {folder}, verdicts in {verdicts}")
    except ReadOnlyError as error:
        if wanted:
            raise
        session.say(f"printed only: {error}; --out writes the files elsewhere")
