r"""Tables as Markdown, LaTeX and CSV, and as files.

A LaTeX file is a whole document, which compiles as it is with a small TeX installation. Who wants a table in a document
of their own copies its ``table`` environment and the lines from ``\usepackage`` to ``\newsavebox``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thetarbm_cli import storage
from thetarbm_cli.outcomes import MEASURES
from thetarbm_cli.reporting import claims
from thetarbm_cli.reporting.frame import Source
from thetarbm_cli.reporting.tables import Entry, Report, Row, Table

MISSING = "—"
CONTROLS = "also measured"
CSV = ["table", "source", "row", "column", "cell", "measure", "mean", "std", "seeds", "published"]


@dataclass(frozen=True)
class Marks:
    """How a format writes what is not a digit."""

    plus_minus: str = " ± "
    bold: str = "**{}**"
    missing: str = MISSING
    plain: Callable[[str], str] = str


def entry_text(entry: Entry | None, marks: Marks, published_digits: int | None = None) -> str:
    """Mean ± standard deviation, bold or starred, and the published value in brackets; empty for no entry."""
    if entry is None:
        return ""
    value = entry.value
    digits = MEASURES[value.measure].digits
    if value.mean is None:
        text = marks.missing
    else:
        text = f"{value.mean:.{digits}f}"
        if value.deviation is not None:
            text += f"{marks.plus_minus}{value.deviation:.{digits}f}"
        text += "*" if entry.starred else ""
        text = marks.bold.format(text) if entry.best else text
    if value.published is None:
        return text
    star = "*" if entry.published_starred else ""
    return f"{text} ({value.published:.{published_digits or digits}f}{star})"


def _texts(table: Table, rows: Sequence[Row], headings: list[Any], marks: Marks) -> pd.DataFrame:
    """Texts of rows, with their labels as index; a control has the digits of any other error."""
    return pd.DataFrame(
        [
            [entry_text(entry, marks, None if row.control else table.kind.published_digits) for entry in row.entries]
            for row in rows
        ],
        index=[marks.plain(row.label) for row in rows],
        columns=pd.Index(headings),
    )


def _heading(controls: Sequence[Row]) -> str:
    """Heading of the one column of the controls."""
    return next(MEASURES[entry.value.measure].heading for row in controls for entry in row.entries if entry)


def _split(table: Table) -> tuple[list[Row], list[Row]]:
    """The rows of the paper, and the controls."""
    return [row for row in table.rows if not row.control], [row for row in table.rows if row.control]


def to_markdown(table: Table) -> str:
    """Write a table under its title; controls follow in a table of their own."""
    rows, controls = _split(table)
    marks = Marks(plain=_plain)
    headings = [f"{group}, {column}" if group else column for group, column in table.headings]
    parts = [f"## {table.title}", table.caption, markdown_grid(_texts(table, rows, headings, marks))]
    if controls:
        parts.append(markdown_grid(_texts(table, controls, [_heading(controls)], marks).rename_axis(CONTROLS)))
    return "\n\n".join([*parts, *table.notes]) + "\n"


def markdown_grid(texts: pd.DataFrame) -> str:
    """Write texts as a Markdown table, all but the first column to the right."""
    align = ("left", *("right" for _ in texts.columns)) if len(texts) else None
    return texts.to_markdown(tablefmt="pipe", colalign=align, disable_numparse=True)


def _plain(text: str) -> str:
    """Text of a suite as it is, not as Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def to_csv(table: Table) -> str:
    """Write a line for each value, with full precision; what is missing is empty."""
    lines = [
        (
            *(table.name, table.source.name, row.label, f"{group}, {column}" if group else column),
            *(entry.value.cell.name, entry.value.column, entry.value.mean, entry.value.deviation),
            *(len(entry.value.values), entry.value.published),
        )
        for row in table.rows
        for (group, column), entry in zip([("", "")] if row.control else table.headings, row.entries, strict=True)
        if entry is not None
    ]
    return pd.DataFrame(lines, columns=CSV).to_csv(index=False, lineterminator="\n")


SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "γ": r"$\gamma$",
    "Δ": r"$\Delta$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "θ": r"$\theta$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "σ": r"$\sigma$",
    "φ": r"$\varphi$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "°": r"$^\circ$",
    "²": "$^2$",
    "…": r"\ldots{}",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
}
# Combining characters of Unicode and the commands for the same accents.
ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u030a": "r", "\u0327": "c"}

# The default font encoding has outlines in every installation; T1 may come as bitmaps that are made on the spot.
PREAMBLE = [
    r"\documentclass{article}",
    r"\usepackage[landscape,margin=2cm]{geometry}",
    r"\usepackage{booktabs}",
    r"\usepackage[tableposition=top]{caption}",
    r"\usepackage{graphicx}",
    r"\newsavebox{\wholetable}",
]
# A table that is wider than the text is made smaller.
FITTED = (
    r"\end{lrbox}",
    r"\ifdim\wd\wholetable>\linewidth\resizebox{\linewidth}{!}{\usebox{\wholetable}}\else\usebox{\wholetable}\fi",
    r"\par\medskip",
)


def to_latex(table: Table) -> str:
    """Write a document with one table; controls follow in a table of their own."""
    rows, controls = _split(table)
    marks = Marks(r" $\pm$ ", r"\textbf{{{}}}", "---", _label)
    headings = [(escape(group), escape(column)) for group, column in table.headings]
    grids = []
    if rows or not controls:
        grids.append(_texts(table, rows, headings if table.groups else [column for _, column in headings], marks))
    if controls:
        grids.append(_texts(table, controls, [escape(_heading(controls))], marks).rename_axis(CONTROLS, axis="columns"))
    # The number is the paper's, and part of the title: LaTeX must not count for itself.
    lines = [
        *PREAMBLE,
        r"\begin{document}",
        r"\begin{table}[!ht]",
        r"\centering",
        rf"\caption*{{{escape(table.title)}. {escape(table.caption)}}}",
        *(line for grid in grids for line in (r"\begin{lrbox}{\wholetable}", _tabular(grid), *FITTED)),
        *(line for note in table.notes for line in (r"\medskip\raggedright", escape(note), "")),
        r"\end{table}",
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def _tabular(texts: pd.DataFrame) -> str:
    """A tabular of texts that are LaTeX already."""
    columns = f"@{{}}l{'c' * max(1, texts.shape[1])}@{{}}"
    return texts.style.to_latex(hrules=True, column_format=columns, multicol_align="c").rstrip("\n")


def _label(text: str) -> str:
    """The label of a row; after the end of a line, * and [ would be taken as its options."""
    return ("{}" if text.startswith(("*", "[")) else "") + escape(text)


def escape(text: str) -> str:
    """Plain text for LaTeX, on one line and in ASCII; a character that it cannot write becomes a question mark."""
    return "".join(SPECIAL.get(letter) or _letter(letter) for letter in " ".join(text.split()))


def _letter(letter: str) -> str:
    if letter.isascii():
        return letter if letter.isprintable() else "?"
    parts = unicodedata.normalize("NFD", letter)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return rf"\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return "?"


FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", to_markdown),
    "latex": ("tex", to_latex),
    "csv": ("csv", to_csv),
}


def report_files(
    report: Report, folder: Path, verdicts: Path, formats: Sequence[str], *, of_users: bool = True
) -> dict[Path, str]:
    """Lay out every file of a report, by its path: tables in one folder, verdicts in another.

    Images of a user have files of their own, which are left out without `of_users`.
    """
    size = "" if report.profile == "paper" else f"-{report.profile}"
    contents = {}
    for source, tables in report.tables.items():
        if source.is_users and not of_users:
            continue
        for table in tables:
            for name in formats:
                ending, write_table = FORMATS[name]
                stem = f"table{table.name}" if table.name.isdigit() else table.name
                contents[folder / f"{stem}{size}{_suffix(report, source)}.{ending}"] = write_table(table)
    papers = [each for each in report.verdicts if not each[0].source.is_users]
    if papers:
        contents[verdicts / f"verdicts{size}.md"] = claims.to_markdown(papers, report.profile)
    for each in report.verdicts if of_users else []:
        if each[0].source.is_users:
            name = f"verdicts{size}{_suffix(report, each[0].source)}.md"
            contents[verdicts / name] = claims.to_markdown([each], report.profile)
    for dataset in dict.fromkeys(numbers.source.dataset for numbers, _ in report.carried):
        own = [each for each in report.carried if each[0].source.dataset == dataset]
        name = f"verdicts-{dataset.removesuffix('-rot')}{size}.md"
        contents[verdicts / name] = claims.to_markdown(own, report.profile)
    return contents


def _suffix(report: Report, source: Source) -> str:
    """What tells the files of a source apart; two contents under one name are told apart by their checksum."""
    same = [other for other in report.tables if (other.dataset, other.name) == (source.dataset, source.name)]
    twice = len(same) > 1
    name = "" if source.name == "generated" and not twice else f"-{Path(source.name).stem}"
    return f"{name}-{source.sha256[:8]}" if twice else name


def write(files: Mapping[Path, str]) -> None:
    """Write files that differ from what is there."""
    for path in outdated(files):
        storage.write_text(path, files[path])


def outdated(files: Mapping[Path, str]) -> list[Path]:
    """Files that are missing or differ from what they should be."""
    return [path for path, text in files.items() if not _is(path, text)]


def _is(path: Path, text: str) -> bool:
    content = text.encode()
    try:
        with storage.open_plain(path) as stream:
            return stream.read(len(content) + 1) == content
    except OSError:
        return False
