"""Write what the docs have from code and records: ``docs/cli.md``, and the marked blocks of other pages.

``make docs`` runs it. With ``--check`` nothing is written, and the exit code is 1 if a page is not as it should be.
"""

from __future__ import annotations

import functools
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from cli_reference import reference
from evidence import Evidence

from benchmarks.launches import RECORD as LAUNCHES
from benchmarks.launches import Launches
from benchmarks.launches import table as launches_table
from thetarbm_cli import storage
from thetarbm_cli.measures.theory import load_theory
from thetarbm_cli.reporting.multiverse import (
    ON_PAPERS_DATA,
    Multiverse,
    TextTable,
    analyse,
    claim_shares,
    find_universes,
    share_text,
)
from thetarbm_cli.reporting.multiverse import summary as about_universes
from thetarbm_cli.reporting.multiverse import tables as universe_tables
from thetarbm_cli.reporting.render import outdated, to_markdown, verdicts_table
from thetarbm_cli.reporting.tables import make_sections
from thetarbm_cli.results import collect
from thetarbm_cli.store import Store, Training
from thetarbm_cli.suite import Suite, load_suite, shipped_path
from thetarbm_cli.ui import to_markdown as to_grid
from thetarbm_cli.universes import Readings

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "cli.md"
PAGES = ("reproduction", "beyond", "multiverse", "mnist-rot", "gpu")
ARCHITECTURE = ROOT / "docs" / "architecture.md"
FILLED = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in PAGES))

# Text between these comments is generated: <!-- reading: NAME --> has reading, reason and evidence of an assumption,
# <!-- table: NAME --> a table, <!-- verdicts: all --> the claims with their verdicts, <!-- multiverse: NAME --> what
# the universes of a design say, and <!-- launches: all --> what a batch launches on a GPU.
KINDS = "reading|table|verdicts|multiverse|launches"
BLOCK = re.compile(rf"(<!-- ({KINDS}): ([a-z0-9_-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def pages(results: Path = ROOT / "results") -> dict[Path, str]:
    """Give the content of every page that is generated, in whole or in part."""
    block = block_maker(results)
    return {REFERENCE: reference(), **{path: filled(path.read_text(encoding="utf-8"), block) for path in FILLED}}


def filled(text: str, block: Callable[[str, str], str]) -> str:
    """A page with new text in every marked block; `block` gives it by kind and name."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{wrapped(block(found[2], found[3]))}\n\n{found[4]}", text)


def wrapped(text: str) -> str:
    """Markdown with lines of at most 119 characters, tables and headings aside."""
    lines = (
        [line] if line.startswith(("|", "#")) else textwrap.wrap(line, 119, break_long_words=False) or [""]
        for line in text.splitlines()
    )
    return "\n".join(part for line in lines for part in line)


def block_maker(results: Path) -> Callable[[str, str], str]:
    """What stands in a block by its kind and name, from the suite and the records."""
    suite = load_suite(shipped_path(), check_settings=False)
    assumptions = {assumption.name: assumption for assumption in suite.assumptions}
    trainings, theory = Store(results).trainings(), load_theory(results)
    sections = make_sections(suite, "paper", trainings, theory)
    papers = [each for each in collect(suite, "paper", trainings, in_tables=False) if each.source.is_papers]
    evidence = Evidence(suite, papers, theory)
    over_universes = functools.cache(lambda of: universes_of(results, suite, of, trainings))

    def block(kind: str, name: str) -> str:
        if kind == "table":
            # Of several sources of the same data set, the first with a number counts.
            tables = [each for section in reversed(sections) for each in section.tables]
            built = {each.name: each for each in sorted(tables, key=lambda each: not each.is_empty)}
            if name not in built:
                return f"No records yet: `thetarbm run {name}` makes them."
            return to_markdown(built[name]).replace("## ", "### ", 1).rstrip("\n")
        if kind == "verdicts":
            designs = [find_universes(suite, results, trainings, of) for of in ON_PAPERS_DATA]
            shares = {claim: share_text(each) for claim, each in claim_shares(designs).items()}
            return verdicts_table(sections[0].verdicts, shares)
        if kind == "launches":
            return launches_of(results / "bench" / LAUNCHES)
        if kind == "multiverse":
            output, tables = over_universes(name.partition("-")[0])
            wanted = name.partition("-")[2]
            if not output.universes:
                return f"No records yet: `thetarbm multiverse --of {output.design} --universes 48` makes them."
            if not wanted:
                return about_universes(output)
            (table,) = [each for each in tables if each.name == wanted] or [None]
            return "—" if table is None else f"{to_grid(table.headings, table.rows)}\n\n{table.note}".rstrip()
        if name not in assumptions:
            sys.exit(f"a page asks for the assumption {name!r}, which the suite does not have")
        taken = assumptions[name]
        measured = f"\n\n**Measured.**{_gap(found)}{found}" if (found := evidence.of(name)) else ""
        return f"**Reading.** {taken.reading} **Why.** {taken.why}{measured}"

    return block


def universes_of(results: Path, suite: Suite, of: str, trainings: list[Training]) -> tuple[Multiverse, list[TextTable]]:
    """Give what the recorded universes of a design say, and its tables."""
    readings = Readings(suite, of)
    output = (find_universes(suite, results, trainings, of) or analyse(readings, [])).output()
    return output, universe_tables(readings, output)


def launches_of(record: Path) -> str:
    """Give the recorded launches of the models' batches as a table, with the limit of each number in brackets."""
    if not record.exists():
        return "No record yet: `make bench-launches` makes it."
    return launches_table(Launches.model_validate_json(record.read_text(encoding="utf-8")), "pipe")


def with_lines(text: str) -> str:
    """Fill the block that says how long each part is; it is not checked, as every change of the code changes it."""

    def lines(folder: str, pattern: str = "*.py") -> tuple[int, int]:
        files = [path for path in (ROOT / folder).rglob(pattern) if "shipped" not in path.parts]
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files), len(files)

    package = ROOT / "thetarbm_cli"
    folders = sorted(path.name for path in package.iterdir() if (path / "__init__.py").is_file())
    counts = {f"`{name}/`": lines(f"thetarbm_cli/{name}") for name in folders}
    whole = lines("thetarbm_cli")
    rest = [whole[number] - sum(each[number] for each in counts.values()) for number in (0, 1)]
    counts = {"**package**": whole, "its own modules": (rest[0], rest[1]), **counts, "tests": lines("tests")}
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
    suite = len(shipped_path().read_text(encoding="utf-8").splitlines())
    rows = [[name, f"{count:,} lines", f"{files}"] for name, (count, files) in counts.items()]
    rows += [["README and docs", f"{words:,} words", ""], ["`experiments.yaml`", f"{suite:,} lines", "1"]]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [["part", "size", "files"], [":--", "--:", "--:"], *rows])
    return re.sub(
        r"(<!-- lines -->\n).*?(<!-- end -->\n)", lambda each: f"{each[1]}\n{table}\n\n{each[2]}", text, flags=re.DOTALL
    )


def _gap(text: str) -> str:
    """What separates a text from the words before it: a table stands by itself."""
    return "\n\n" if text.startswith("|") else " "


def main() -> int:
    """Write the pages, or check them."""
    made = pages()
    if "--check" not in sys.argv[1:]:
        made[ARCHITECTURE] = with_lines(ARCHITECTURE.read_text(encoding="utf-8"))
    wrong = outdated(made)
    for path in wrong:
        if "--check" in sys.argv[1:]:
            print(f"{path} is not what code and records give; make docs writes it", file=sys.stderr)
        else:
            storage.write_text(path, made[path])
            print(path)
    return 1 if wrong and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
