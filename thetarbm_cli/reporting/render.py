r"""Tables as Markdown, LaTeX and CSV, verdicts as Markdown, and all as files.

A LaTeX file is a ``table`` with caption and label, to be taken into a document by ``\input``; it needs booktabs and
graphicx.
"""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetarbm_cli import storage
from thetarbm_cli.measures import ERROR, MEASURES, MISSING
from thetarbm_cli.reporting.claims import NO_DATA, NOT, OPEN, REPRODUCED, Verdict
from thetarbm_cli.reporting.tables import Entry, Row, Section, Table

# Headings of the rows that the paper does not have, and of their one column.
CONTROLS, CONTROLS_MEASURE = "also measured", MEASURES[ERROR].heading


@dataclass(frozen=True)
class Marks:
    """How a format writes what is not a digit."""

    plus_minus: str = " ± "
    bold: str = "**{}**"
    missing: str = MISSING
    plain: Callable[[str], str] = str


def entry_text(entry: Entry | None, marks: Marks, published_digits: int | None = None) -> str:
    """Write mean ± standard deviation, bold or starred, and the published value in brackets; empty for no entry."""
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
    published = published_text(entry, published_digits)
    return f"{text} ({published})" if published else text


def published_text(entry: Entry, digits: int | None = None) -> str:
    """Write the paper's value with its star; empty if it has none."""
    value = entry.value
    if value.published is None:
        return ""
    return f"{value.published:.{digits or MEASURES[value.measure].digits}f}{'*' if entry.published_starred else ''}"


def _texts(rows: Sequence[Row], marks: Marks, digits: int | None = None) -> list[list[str]]:
    """Write labels and entries."""
    return [[marks.plain(row.label), *(entry_text(entry, marks, digits) for entry in row.entries)] for row in rows]


def stacked(table: Table, rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Give each group of columns a line of its own, where all beside each other are too wide; with the headings."""
    axis, texts = table.axis
    width = table.groups[0][1]
    lines = [[row[0], text, *row[1 + number * width :][:width]] for row in rows for number, text in enumerate(texts)]
    return ["", axis, *table.columns[:width]], lines


def to_markdown(table: Table) -> str:
    """Write a table under its title; controls follow in a table of their own."""
    marks = Marks(plain=_plain)
    headings = ["", *(f"{group}, {column}" if group else column for group, column in table.headings)]
    rows = _texts(table.rows, marks, table.kind.published_digits)
    if table.groups and table.kind.layout == "sparsity":
        headings, rows = stacked(table, rows)
    parts = [f"## {table.title}", table.caption, markdown_grid(headings, rows)]
    if table.controls:
        parts.append(markdown_grid([CONTROLS, CONTROLS_MEASURE], _texts(table.controls, marks)))
    return "\n\n".join([*parts, *table.notes]) + "\n"


def markdown_grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write texts as a Markdown table, all but the first column to the right."""
    from tabulate import tabulate

    align = ["left", *["right"] * (len(headings) - 1)] if rows else None
    return tabulate(rows, headings, "pipe", colalign=align, disable_numparse=True)


def _plain(text: str) -> str:
    """Write text of a suite as it is, not as Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def to_csv(table: Table) -> str:
    """Write a line for each value, with full precision; what is missing is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["table", "source", "row", "column", "cell", "measure", "mean", "std", "seeds", "published"],
    )
    for rows, headings in ((table.rows, table.headings), (table.controls, [("", "")])):
        for row in rows:
            for (group, column), entry in zip(headings, row.entries, strict=True):
                if entry is not None:
                    value, heading = entry.value, f"{group}, {column}" if group else column
                    place = [table.name, table.source.name, row.label, heading, value.cell.name, value.column]
                    writer.writerow([*place, value.mean, value.deviation, len(value.values), value.published])
    return text.getvalue()


# Characters that LaTeX has no letter for, and what stands for each.
CHARACTERS = r"\&%$#_{}~^<>|" + "γΔδεθλμσφ±×·−" + "≤≥≈°²…–—‘’“”"
COMMANDS = r"""
\textbackslash{} \& \% \$ \# \_ \{ \} \textasciitilde{} \textasciicircum{} \textless{} \textgreater{} \textbar{}
$\gamma$ $\Delta$ $\delta$ $\varepsilon$ $\theta$ $\lambda$ $\mu$ $\sigma$ $\varphi$ $\pm$ $\times$ $\cdot$ $-$
$\leq$ $\geq$ $\approx$ $^\circ$ $^2$ \ldots{} -- --- ` ' `` ''
"""
SPECIAL = dict(zip(CHARACTERS, COMMANDS.split(), strict=True))
# Combining characters of Unicode and the commands for the same accents.
ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u030a": "r", "\u0327": "c"}

# A table that is wider than the text is made smaller.
FITTED = r"""\sbox8{%%
%s}
\ifdim\wd8>\linewidth\resizebox{\linewidth}{!}{\usebox8}\else\usebox8\fi"""


def to_latex(table: Table) -> str:
    """Write a table for a document of the reader's own; controls follow in a tabular of their own."""
    marks = Marks(r" $\pm$ ", r"\textbf{{{}}}", "---", _label)
    grids = []
    if table.rows or not table.controls:
        groups = [rf"\multicolumn{{{width}}}{{c}}{{{escape(text)}}}" for text, width in table.groups]
        over = [["", *groups]] if groups else []
        columns = ["", *map(escape, table.columns)]
        grids.append(_tabular([*over, columns], _texts(table.rows, marks, table.kind.published_digits)))
    if table.controls:
        grids.append(_tabular([[CONTROLS, escape(CONTROLS_MEASURE)]], _texts(table.controls, marks)))
    # The document counts its tables itself: the paper's number is no part of the caption.
    title = table.title
    if counted := re.fullmatch(r"(Table \d): ([a-z]?)(.*)", title):
        title = f"{counted[2].upper()}{counted[3]} ({counted[1]} of the paper)"
    name = _stem(table) if table.source.name == "generated" else f"{_stem(table)}-{Path(table.source.name).stem}"
    lines = [
        r"% \usepackage{booktabs,graphicx}",
        r"\begin{table}[!ht]",
        r"\centering",
        rf"\caption{{{escape(f'{title}. {table.caption}')}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9]+', '-', name)}}}",
        "\n\\par\\medskip\n".join(FITTED % grid for grid in grids),
        *(line for note in table.notes for line in (r"\par\medskip\raggedright", escape(note))),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tabular(headings: list[list[str]], rows: list[list[str]]) -> str:
    """Lay out texts that are LaTeX already; the last line of headings has all columns."""
    columns = "c" * max(1, len(headings[-1]) - 1)
    above, below = ("".join(f"{' & '.join(line)} \\\\\n" for line in lines) for lines in (headings, rows))
    begin = f"\\begin{{tabular}}{{@{{}}l{columns}@{{}}}}"
    return f"{begin}\n\\toprule\n{above}\\midrule\n{below}\\bottomrule\n\\end{{tabular}}"


def _label(text: str) -> str:
    """Write the label of a row; after the end of a line, * and [ would be taken as its options."""
    return ("{}" if text.startswith(("*", "[")) else "") + escape(text)


def escape(text: str) -> str:
    """Write plain text for LaTeX, on one line and in ASCII; what it has no letter for becomes a question mark."""
    return "".join(SPECIAL.get(letter) or _letter(letter) for letter in " ".join(text.split()))


def _letter(letter: str) -> str:
    if letter.isascii():
        return letter if letter.isprintable() else "?"
    parts = unicodedata.normalize("NFD", letter)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return rf"\{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return "?"


# The rule of verdicts in words.
RULE = (
    "A claim is a list of comparisons of numbers that are paired by their repetition. *Lower* or *higher*: the 95 % "
    "interval of the mean difference excludes 0, and the mean is beyond the smallest difference of interest; *level*: "
    f"the interval lies within it; *{OPEN}*: neither. With one repetition, the difference is beyond it or not. A claim "
    f"is *{REPRODUCED}* if every comparison holds, *{NOT}* if one is decided against it, and *{OPEN}* else; "
    f"*{NO_DATA}*: a run is missing."
)


def verdicts_table(verdicts: Sequence[Verdict], shares: Mapping[str, str] | None = None) -> str:
    """Write each claim with its verdict as a Markdown table; `shares` says in how many universes a claim holds."""
    rows = [["claim", "verdict", "comparisons that hold"], [":--"] * 3]
    rows += [[each.text, f"*{each.verdict}*", each.held] for each in verdicts]
    if shares:
        further = ["holds in universes", ":--", *(shares.get(each.claim, MISSING) for each in verdicts)]
        rows = [[*row, more] for row, more in zip(rows, further, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def verdicts_page(sections: Sequence[Section]) -> str:
    """Write the verdicts on a data set: for each of its sources a table, then each claim with its rule and numbers."""
    source = sections[0].source
    title, note = "Verdicts", ""
    if not source.is_papers:
        title, note = f"The paper's claims on {source.images}", "The paper has no numbers on these images. "
    lines = [
        f"# {title}",
        "",
        _wrapped(
            f"Computed by `thetarbm tables` from the records; none is typed by hand. {note}{RULE} Intervals are over "
            "repetitions from one MNIST, and say nothing of other digits."
        ),
    ]
    for section in sections:
        profiles = dict.fromkeys(cell.profile for cell in section.results.cells)
        heading = ", ".join([section.source.described, *(f"profile {profile}" for profile in profiles)])
        lines += ["", f"## {heading}", "", verdicts_table(section.verdicts)]
        for each in section.verdicts:
            words = _wrapped(f"**{each.verdict}** ({each.held}). Rule: {each.rule}")
            lines += ["", f"### {each.text}", "", words, ""]
            lines += [f"- {comparison.outcome}: {comparison.words}" for comparison in each.evidence]
            lines += [f"- missing: {each.missing}"] if each.missing else []
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", to_markdown),
    "latex": ("tex", to_latex),
    "csv": ("csv", to_csv),
}


def files_of(
    sections: Sequence[Section], profile: str, folder: Path, verdicts: Path, formats: Sequence[str]
) -> dict[Path, str]:
    """Lay out every file by its path: tables with any number in one folder, verdicts in another."""
    size = "" if profile == "paper" else f"-{profile}"
    contents, pages = {}, dict[str, list[Section]]()
    names = [(section.source.dataset, section.source.name) for section in sections]
    for section in sections:
        source = section.source
        # Two contents under one name are told apart by their checksum.
        twice = names.count((source.dataset, source.name)) > 1
        suffix = "" if source.name == "generated" and not twice else f"-{Path(source.name).stem}"
        suffix += f"-{source.sha256[:8]}" if twice else ""
        for table in (each for each in section.tables if not each.is_empty):
            for name in formats:
                ending, write_table = FORMATS[name]
                contents[folder / f"{_stem(table)}{size}{suffix}.{ending}"] = write_table(table)
        if section.verdicts:
            dataset = "" if source.is_papers else f"-{source.dataset.removesuffix('-rot')}"
            name = f"verdicts{size}{suffix}.md" if source.is_users else f"verdicts{dataset}{size}.md"
            pages.setdefault(name, []).append(section)
    for name, those in pages.items():
        contents[verdicts / name] = verdicts_page(those)
        judged = [each.model_dump(mode="json") for section in those for each in section.verdicts]
        numbers = Path(name.replace("verdicts", "claims", 1)).with_suffix(".json")
        contents[verdicts / numbers] = json.dumps({"claims": judged}, indent=1, ensure_ascii=False) + "\n"
    return contents


def _stem(table: Table) -> str:
    """Name its files, without what tells profiles and sources apart."""
    return f"table{table.name}" if table.name.isdigit() else table.name


def write(files: Mapping[Path, str]) -> None:
    """Write files that differ from what is there."""
    for path in outdated(files):
        storage.write_text(path, files[path])


def outdated(files: Mapping[Path, str]) -> list[Path]:
    """List the files that are missing or differ from what they should be."""

    def differs(path: Path, content: bytes) -> bool:
        try:
            with storage.open_plain(path) as stream:
                return stream.read(len(content) + 1) != content
        except OSError:
            return True

    return [path for path, text in files.items() if differs(path, text.encode())]
