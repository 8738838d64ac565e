from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reporting.numbers import SUITE, table_of
from tests.suites import write_suite
from thetarbm_cli.measures import MEASURES
from thetarbm_cli.reporting.render import escape, to_latex
from thetarbm_cli.reporting.tables import build
from thetarbm_cli.results import collect
from thetarbm_cli.suite import load_suite

# What a user's suite may say, and what LaTeX would take for something else.
HOSTILE = "[3cm] 50 % of a_b & {c} \\ #1 $x$ ~ ^ <b>|*"


# The default font encoding has outlines in every installation; T1 may come as bitmaps that are made on the spot.
DOCUMENT = r"""\documentclass{article}
\usepackage[landscape,margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage[tableposition=top]{caption}
\usepackage{graphicx}
\begin{document}
%s\end{document}
"""


def hostile_tables(folder: Path) -> list[str]:
    """Table 1 of suites whose labels are chosen to break it: all kinds of rows, and controls alone."""
    grid = f"  - {{name: a, label: '{HOSTILE}', model: rbm, grid: {{sparsity: [0.3]}}, tables: ['1']}}\n"
    starred = "  - {name: b, label: '* Schölkopf’s 漢 ± 40°', model: theta, grid: {sparsity: [0.3]}, tables: ['1']}\n"
    control = (
        f"  - {{name: c, label: '{HOSTILE}', about: '{HOSTILE}', model: pixels, measures: [error], tables: ['1']}}\n"
    )
    texts = []
    for experiments in (grid + starred + control, control):
        suite = load_suite(write_suite(folder, f"format: 2\ntitle: t\nexperiments:\n{experiments}"))
        (found,) = collect(suite, "paper", [])
        texts.append(to_latex(build("1", suite.tables["1"], found)))
    return texts


def assert_well_formed(text: str) -> None:
    """What TeX would refuse, looked for without TeX: even braces, and rows with all columns."""
    assert text.isascii()
    text = re.sub("^%.*\n|(?<!\\\\)%$", "", text, flags=re.MULTILINE)
    plain = re.sub(r"\\[\\{}%&#_$]", "", text.replace("\\\\\n", "\n"))
    assert plain.count("{") == plain.count("}")
    outside = re.sub(r"\$[^$\n]*\$|\\\^\{", "", plain)
    assert not set("%#~$^_") & set(outside)
    tabulars = re.findall(r"\\begin\{tabular\}\{@\{\}(lc+)@\{\}\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tabulars) == text.count("\\begin{tabular}") > 0
    for columns, body in tabulars:
        rows = [line for line in body.splitlines() if line.endswith(" \\\\")]
        assert len(rows) >= 2
        for row in rows:
            spans = [int(width) for width in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            assert len(re.findall(r"(?<!\\)&", row)) + 1 + sum(width - 1 for width in spans) == len(columns)
            assert not row.startswith(("*", "["))


@pytest.mark.parametrize("name", SUITE.tables)
def test_tables_of_the_paper_are_well_formed(name: str) -> None:
    table = table_of(name)
    text = to_latex(table)
    assert_well_formed(text)
    assert len(re.findall(r"\\begin\{table\}|\\caption\{|\\label\{tab:[\w-]+\}|\\end\{table\}", text)) == 4
    assert "?" not in text
    assert text.count("\\begin{tabular}") == 1 + bool(table.controls)
    for value in table.values:
        assert f"{value.mean:.{MEASURES[value.measure].digits}f}" in text


def test_what_a_suite_may_say_is_well_formed(tmp_path: Path) -> None:
    for text in hostile_tables(tmp_path):
        assert_well_formed(text)


def test_escaped_characters() -> None:
    assert escape("50 % of a_b & {c} \\ #1 $x$ ~ ^ θ") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{} \#1 \$x\$ \textasciitilde{} \textasciicircum{} $\theta$"
    )
    assert escape("<b>|*") == r"\textless{}b\textgreater{}\textbar{}*"
    assert escape("Schölkopf, café, Å, ç") == r"Sch\"{o}lkopf, caf\'{e}, \r{A}, \c{c}"
    assert escape("a\n\n b 漢") == "a b ?"


@given(st.text())
def test_any_text_becomes_one_line_of_ascii_with_even_braces(text: str) -> None:
    escaped = escape(text)
    assert escaped.isascii()
    assert escaped.isprintable()
    plain = re.sub(r"\\[{}%&#_$]", "", escaped)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0


def compiled(folder: Path, text: str) -> str:
    """Compile in a document with whichever TeX there is; what it said."""
    (folder / "table.tex").write_text(DOCUMENT % text, encoding="utf-8")
    program = shutil.which("pdflatex") or shutil.which("tectonic")
    assert program is not None, "make test-latex says what to install"
    options = ["-interaction=nonstopmode", "-halt-on-error"] if program.endswith("pdflatex") else []
    done = subprocess.run(
        [program, *options, "table.tex"], cwd=folder, capture_output=True, encoding="latin-1", timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "table.pdf").read_bytes().startswith(b"%PDF")
    return done.stdout + done.stderr


@pytest.mark.latex
@pytest.mark.parametrize("name", SUITE.tables)
def test_tables_of_the_paper_compile_and_fit_on_their_page(name: str, tmp_path: Path) -> None:
    said = compiled(tmp_path, to_latex(table_of(name)))
    for word in ("Overfull", "Missing character", "Font Warning"):
        assert word not in said


@pytest.mark.latex
def test_what_a_suite_may_say_compiles(tmp_path: Path) -> None:
    for text in hostile_tables(tmp_path):
        compiled(tmp_path, text)
