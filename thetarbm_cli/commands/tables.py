"""``thetarbm tables``: the paper's tables, and the verdicts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.completion import complete_tables
from thetarbm_cli.commands.options import UserPath, json_option, profile_option, suite_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import EXIT_FAILED, InputError, ReadOnlyError
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import TABLES
from thetarbm_cli.ui import Cell, fits, print_table, print_text, say, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.outputs import Tables, TableValue, Verdict
    from thetarbm_cli.reporting.tables import Entry, Part, Report, Row, Table

# Lines on what is missing; more are made one for each source of images.
MOST_MISSING = 8


@click.command("tables")
@click.option(
    "--table",
    default="all",
    metavar="NAME",
    shell_complete=complete_tables,
    help=f"Which table: {', '.join(TABLES)}, or one of the suite's own; a name that is unknown lists them.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "latex", "csv"]),
    help="What to print and write [default: print for the terminal, Markdown where it is piped; write all].",
)
@click.option(
    "--standalone", is_flag=True, help="LaTeX as whole documents, NAME.standalone.tex, not as tables for \\input."
)
@click.option("--out", type=UserPath(file_okay=False), help="Folder of the files [default: RESULTS/tables].")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a file differs from its records.")
@suite_option
@profile_option
@json_option
@pass_session
def command(
    session: Session,
    table: str,
    form: str | None,
    standalone: bool,
    out: Path | None,
    check: bool,
    suite_path: Path | None,
    profile: str,
) -> int:
    """Print the paper's tables from the records, with the published numbers, and write them to files.

    Nothing is trained or measured. Verdicts on the paper's claims are written to RESULTS, or all to --out.
    """
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.reporting.render import FORMATS, outdated, report_files
    from thetarbm_cli.reporting.tables import make_report

    if standalone and form not in (None, "latex"):
        raise InputError(f"--standalone is for LaTeX, and --format is {form}; leave one of them out")
    form = "document" if standalone and form else form
    suite = load_suite(suite_path, check_settings=False)
    report = make_report(session.results, suite, profile, [] if table == "all" else [table])
    if not report.tables:
        raise InputError(f"no experiment of the suite is in table {table}")
    folder = out or session.results / "tables"
    written = [form] if form else ["markdown", "document" if standalone else "latex", "csv"]
    verdicts = out or session.results
    files = report_files(report, folder, verdicts, written, of_users=False)
    of_users = report_files(report, folder, verdicts, written, of_users=True)
    if check:
        # Files of a user's own images need not be there, but those that are have to be right.
        wrong = outdated(files | {path: text for path, text in of_users.items() if os.path.lexists(path)})
        words = [
            *([] if table == "all" else ["--table", table]),
            *(["--standalone"] if standalone else []),
            *([] if out is None else ["--out", str(out)]),
        ]
        what_helps = command_line("tables", *words, profile=profile)
        for path in wrong:
            say(f"{path} is not what the records give; {what_helps} writes it")
        return EXIT_FAILED if wrong else 0
    if session.as_json:
        session.print_json(_output(report))
    elif form is None and sys.stdout.isatty():
        _print_report(report, with_verdicts=table == "all")
    else:
        _, to_text = FORMATS[form or "markdown"]
        click.echo("\n".join(to_text(each) for each in report.tables), nl=False)
    missing = report.missing()
    for line in missing if len(missing) <= MOST_MISSING else report.missing_at_once():
        session.say(line)
    # Who only looks at the records of an installed package has no results folder, and needs none.
    if any(part.numbers.records for part in report.parts) and (out is not None or session.results.is_dir()):
        empty = [each.name for each in report.tables if each.is_empty]
        if empty:
            session.say(f"no file is written of what has no number yet: {', '.join(dict.fromkeys(empty))}")
        _write(session, files | of_users, folder, verdicts, wanted=out is not None)
    return 0


def print_paper_table(table: Table) -> None:
    """Print a table as the paper has it, or with a row for each group of its columns, as γ of all targets is too wide.

    Where it is piped, it is Markdown.
    """
    from thetarbm_cli.reporting.render import CONTROLS, CONTROLS_MEASURE, to_markdown

    if not sys.stdout.isatty():
        click.echo(f"\n{to_markdown(table)}", nl=False)
        return
    rows = _cells(table.rows, table.kind.published_digits)
    headings = ["", *(f"{group}\n{column}" if group else column for group, column in table.headings)]
    if table.groups and (table.kind.layout == "sparsity" or not fits(headings, rows)):
        columns = table.columns[: table.groups[0][1]]
        axis, texts = table.axis
        headings = ["", axis, *columns]
        rows = [
            [(str(row[0]), "weak" if number else ""), text, *row[1 + number * len(columns) :][: len(columns)]]
            for row in rows
            for number, text in enumerate(texts)
        ]
    print_text(f"\n{table.title}", style="bold")
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


def _print_report(report: Report, *, with_verdicts: bool) -> None:
    """Print tables, and verdicts, for a terminal."""
    for each in report.tables:
        # Of images that the paper has no numbers on, an empty table says nothing.
        if not (each.source.is_users and each.is_empty):
            print_paper_table(each)
    for part in report.parts:
        if with_verdicts and part.verdicts:
            _print_verdicts(part)


def _print_verdicts(part: Part) -> None:
    from thetarbm_cli.reporting.claims import NO_DATA

    if all(each.verdict == NO_DATA for each in part.verdicts):
        print_text(f"\nNo verdicts yet on {part.source.described}: runs are missing", style="weak")
        return
    print_text(f"\nVerdicts on the paper's claims, {part.source.described}", style="bold")
    rows = [(each.text, state_cell(each.verdict), each.held) for each in part.verdicts]
    print_table(["claim", "verdict", "comparisons that hold"], rows)


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


def _output(report: Report) -> Tables:
    """Gather every value of every table, and the verdicts."""
    from thetarbm_cli.outputs import Tables, TableValue

    tables: dict[str, list[TableValue]] = {}
    for table in report.tables:
        values = tables.setdefault(table.name, [])
        for value in table.values:
            at = {axis: value.cell.at.get(axis) for axis in ("n", "p")} if table.name == "3" else {}
            values.append(
                TableValue(
                    model=value.cell.model,
                    sparsity=value.cell.parameters.get("sparsity"),
                    column=value.column,
                    mean=value.mean,
                    std=value.deviation,
                    seeds=len(value.values),
                    published=value.published,
                    cell=value.cell.name,
                    values=list(value.values),
                    **at,
                    source=table.source.name,
                    sha256=table.source.sha256,
                )
            )
    verdicts: dict[bool, list[Verdict]] = {True: [], False: []}
    for part in report.parts:
        verdicts[part.source.is_papers] += part.verdicts
    return Tables(tables=tables, verdicts=verdicts[True], carried=verdicts[False])
