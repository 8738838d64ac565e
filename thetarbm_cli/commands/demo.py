"""``thetarbm demo``: the paper's comparison in a minute, beside the full-size results."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.options import UserPath, suite_option
from thetarbm_cli.commands.report import write_page
from thetarbm_cli.commands.run import make_all
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.commands.tables import print_paper_table
from thetarbm_cli.followup import call_options, command_line, repeating
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, MEASURES, variants_of
from thetarbm_cli.ui import Cell, print_table, print_text

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.store import RunContext
    from thetarbm_cli.experiments.suite import schema
    from thetarbm_cli.reporting.frame import Numbers

MODELS, SPARSITY, PROFILE, FIGURE = ("rbm", "orbm", "tirbm", "theta"), 0.3, "quick", "filters"


@click.command("demo")
@click.option("--out", type=UserPath(file_okay=False), help="Folder of runs, figure and report [default: user cache].")
@suite_option
@pass_session
def command(session: Session, out: Path | None, suite_path: Path | None) -> None:
    """Train and measure the four models at a quick size, and show them beside the full-size results and the paper's.

    Takes about a minute. The full-size results are those of --results, or those that came with the program; the report
    is of them, or of the quick runs where there are none.
    """
    from thetarbm_cli.experiments.execution.plan import make_plan, pending
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.reporting.frame import collect
    from thetarbm_cli.reporting.html.content import gather
    from thetarbm_cli.reporting.tables import make_report

    folder = out or session.data_dir / "demo"
    context = session.run_context(RunStore(folder))
    session.say(_describe_backend(session))
    suite = load_suite(suite_path, check_settings=False)
    names = [f"{model}/sparsity={SPARSITY}" for model in MODELS]
    cells = [cell for cell in suite.cells(PROFILE) if cell.name in names]
    make_all(session, context, pending(make_plan(context, cells), retry_failed=True), min(2, os.cpu_count() or 1))
    quick = max(collect(cells, context.store.load_all()), key=lambda numbers: len(numbers.records))
    report = make_report(session.results, suite, "paper", ["1", "2"])
    part = next((part for part in report.parts if part.numbers.records), report.parts[0])
    full = part.numbers
    _print_beside(quick, full)
    for table in part.tables:
        print_paper_table(table)
    figure, page = _draw(context, suite), folder / "report.html"
    options = call_options()
    # Of the runs made just now; their commands are so, too: the later of two --results counts.
    with repeating(replace(options, words=(*options.words, "--results", str(folder)))):
        quick_size = command_line("report", "--open", profile=PROFILE)
        if not full.records:
            write_page(session, context, gather(folder, suite_path, PROFILE), page)
    if full.records:
        write_page(session, session.run_context(), gather(session.results, suite_path, "paper"), page)
    click.echo(f"\nfigure  {figure}\nreport  {page.resolve()}")
    if full.records:
        click.echo(f"quick   {quick_size}")


def _describe_backend(session: Session) -> str:
    """Say what computes, and what would use a GPU that is not used."""
    backend = session.backend()
    if backend.name == "cupy":
        return f"GPU: CuPy ({backend.reason})"
    version = _driver_version()
    if version is None:
        return "no GPU: NumPy"
    return f"NumPy ({backend.reason}); pip install 'cupy-cuda{version}x[ctk]' makes it use the NVIDIA GPU"


def _driver_version() -> str | None:
    """Find the CUDA version of an NVIDIA driver that answers, as far as there is an extra for it."""
    try:
        answer = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"CUDA Version: *(\d+)", answer)
    return str(min(13, int(found[1]))) if found and int(found[1]) >= 12 else None


def _print_beside(quick: Numbers, full: Numbers) -> None:
    """Print a line for each model: now at the quick size, as recorded at full size, and as published."""
    rows: list[list[Cell]] = []
    measures = [MEASURES[ERROR], MEASURES[GAMMA_TEST]]
    for cell in quick.cells:
        recorded = next(each for each in full.cells if each.name == cell.name)
        for variant, words in variants_of(cell.model):
            row: list[Cell] = [cell.label + words]
            for numbers, shown in ((quick, cell), (full, recorded)):
                row += [each.text(numbers.value(shown, each.name, variant).mean) for each in measures]
            row += [each.text(recorded.published.get(each.name)) for each in measures]
            rows.append(row)
    print_text(f"\nThe four models at sparsity {SPARSITY}: made now, at full size, in the paper", style="bold")
    sources = [f"{each.source.dataset} {each.source.name}" for each in (quick, full)]
    recorded_on = f"on {sources[1]}, as recorded" if full.records else "no runs yet"
    print_text(f"now: on {sources[0]} at a quick size; full: {recorded_on}; γ is that of test images", style="weak")
    headings = [f"{when}\n{what}" for when in ("now:", "full:", "paper:") for what in ("error %", "γ test")]
    print_table(["", *headings], rows)


def _draw(context: RunContext, suite: schema.Suite) -> Path:
    """Draw the filters that were learned just now."""
    from thetarbm_cli import storage
    from thetarbm_cli.reporting.figures import encode, make
    from thetarbm_cli.reporting.figures.context import figure_context

    drawing = make(FIGURE, figure_context(suite, context, PROFILE))
    path = context.store.folder.parent / f"{FIGURE}.png"
    storage.write_bytes(path, encode(FIGURE, drawing, "png"))
    return path.resolve()
