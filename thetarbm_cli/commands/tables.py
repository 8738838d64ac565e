"""``thetarbm tables``: the paper's tables, and the verdicts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.options import UserPath, json_option, profile_option, suite_option
from thetarbm_cli.commands.session import Session, emit_json, pass_session
from thetarbm_cli.errors import EXIT_FAILED, InputError, ReadOnlyError
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import TABLES

if TYPE_CHECKING:
    from thetarbm_cli.outputs import Tables, TableValue, Verdict
    from thetarbm_cli.reporting import claims
    from thetarbm_cli.reporting.frame import Numbers
    from thetarbm_cli.reporting.tables import Report


@click.command("tables")
@click.option(
    "--table",
    type=click.Choice([*TABLES, "all"]),
    default="all",
    show_default=True,
    help="Which table.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "latex", "csv"]),
    help="What to print and write [default: print Markdown, write all].",
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
    out: Path | None,
    check: bool,
    suite_path: Path | None,
    profile: str,
    as_json: bool,
) -> int:
    """Print the paper's tables from the records, with the published numbers, and write them to files.

    Nothing is trained or measured. Verdicts on the paper's claims are written next to the folder of the tables.
    """
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.reporting.render import FORMATS, outdated, report_files
    from thetarbm_cli.reporting.tables import make_report

    suite = load_suite(suite_path, check_settings=False)
    report = make_report(session.results, suite, profile, list(TABLES) if table == "all" else [table])
    if not any(report.tables.values()):
        raise InputError(f"no experiment of the suite is in table {table}")
    folder = out or session.results / "tables"
    verdicts, formats = out or session.results, [form] if form else list(FORMATS)
    files = report_files(report, folder, verdicts, formats)
    if check:
        # Files of a user's own images need not be there, but those that are have to be right.
        needed = report_files(report, folder, verdicts, formats, of_users=False)
        wrong = outdated({path: text for path, text in files.items() if path in needed or os.path.lexists(path)})
        words = [*([] if table == "all" else ["--table", table]), *([] if out is None else ["--out", str(out)])]
        for path in wrong:
            what_helps = command_line("tables", *words, profile=profile)
            click.echo(f"{path} is not what the records give; {what_helps} writes it", err=True)
        return EXIT_FAILED if wrong else 0
    if as_json:
        emit_json(_output(report))
    else:
        _, to_text = FORMATS[form or "markdown"]
        click.echo("\n".join(to_text(each) for tables in report.tables.values() for each in tables), nl=False)
    for line in report.missing():
        session.say(line)
    if any(numbers.records for numbers in report.numbers):
        _write(session, files, folder, verdicts, wanted=out is not None)
    return 0


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
    for source, built in report.tables.items():
        for table in built:
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
                        source=source.name,
                        sha256=source.sha256,
                    )
                )
    return Tables(tables=tables, verdicts=_verdicts(report.verdicts), carried=_verdicts(report.carried))


def _verdicts(evaluated: list[tuple[Numbers, list[claims.Verdict]]]) -> list[Verdict]:
    from thetarbm_cli.outputs import Comparison, Verdict

    return [
        Verdict(
            source=numbers.source.name,
            claim=each.claim.name,
            text=each.claim.text,
            rule=each.rule,
            verdict=each.verdict,
            holds=sum(part.holds for part in each.parts),
            comparisons=len(each.parts),
            evidence=[
                Comparison(holds=part.holds, words=part.words, contradicted=part.contradicted) for part in each.parts
            ],
            missing=each.missing,
        )
        for numbers, verdicts in evaluated
        for each in verdicts
    ]
