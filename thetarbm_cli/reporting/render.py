r"""Tables as Markdown, LaTeX and CSV, verdicts as Markdown, and all as files.

A LaTeX file is a ``table`` with caption and label, to be taken into a document by ``\input``; it needs booktabs and
graphicx. `to_document` makes a whole document of it, which compiles with a small TeX installation.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thetarbm_cli import storage
from thetarbm_cli.outcomes import ERROR, MEASURES, MISSING
from thetarbm_cli.reporting.claims import ELSEWHERE, NO_DATA, NOT, PARTLY, REPRODUCED, UNDECIDED, Verdict
from thetarbm_cli.reporting.frame import Source
from thetarbm_cli.reporting.tables import Entry, Part, Report, Row, Table

# Headings of the rows that the paper does not have, and of their one column.
CONTROLS, CONTROLS_MEASURE = "also measured", MEASURES[ERROR].heading
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
    published = published_text(entry, published_digits)
    return f"{text} ({published})" if published else text


def published_text(entry: Entry, digits: int | None = None) -> str:
    """The paper's value with its star; empty if it has none."""
    value = entry.value
    if value.published is None:
        return ""
    return f"{value.published:.{digits or MEASURES[value.measure].digits}f}{'*' if entry.published_starred else ''}"


def _texts(rows: Sequence[Row], headings: list[Any], marks: Marks, digits: int | None = None) -> pd.DataFrame:
    """Texts of rows, with their labels as index."""
    return pd.DataFrame(
        [[entry_text(entry, marks, digits) for entry in row.entries] for row in rows],
        index=[marks.plain(row.label) for row in rows],
        columns=pd.Index(headings),
    )


def to_markdown(table: Table) -> str:
    """Write a table under its title; controls follow in a table of their own.

    Several measures of each sparsity target have a line for each target, as a page has no room for all beside.
    """
    marks = Marks(plain=_plain)
    headings = [f"{group}, {column}" if group else column for group, column in table.headings]
    texts = _texts(table.rows, headings, marks, table.kind.published_digits)
    if table.groups and table.kind.layout == "sparsity":
        axis, targets = table.axis
        width = table.groups[0][1]
        lines = [
            [target, *line[number * width :][:width]]
            for line in texts.to_numpy().tolist()
            for number, target in enumerate(targets)
        ]
        index = texts.index.repeat(len(targets))
        texts = pd.DataFrame(lines, index=index, columns=pd.Index([axis, *table.columns[:width]]))
    parts = [f"## {table.title}", table.caption, markdown_grid(texts)]
    if table.controls:
        controls = _texts(table.controls, [CONTROLS_MEASURE], marks)
        parts.append(markdown_grid(controls.rename_axis(CONTROLS)))
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
        for rows, headings in ((table.rows, table.headings), (table.controls, [("", "")]))
        for row in rows
        for (group, column), entry in zip(headings, row.entries, strict=True)
        if entry is not None
    ]
    return pd.DataFrame(lines, columns=CSV).to_csv(index=False, lineterminator="\n")


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

# The default font encoding has outlines in every installation; T1 may come as bitmaps that are made on the spot.
DOCUMENT = r"""\documentclass{article}
\usepackage[landscape,margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage[tableposition=top]{caption}
\usepackage{graphicx}
\begin{document}
%s\end{document}
"""
# A table that is wider than the text is made smaller.
FITTED = r"""\sbox8{%%
%s}
\ifdim\wd8>\linewidth\resizebox{\linewidth}{!}{\usebox8}\else\usebox8\fi"""


def to_latex(table: Table) -> str:
    """Write a table for a document of the reader's own; controls follow in a tabular of their own."""
    marks = Marks(r" $\pm$ ", r"\textbf{{{}}}", "---", _label)
    headings = [(escape(group), escape(column)) for group, column in table.headings]
    grids = []
    if table.rows or not table.controls:
        over = headings if table.groups else [column for _, column in headings]
        grids.append(_texts(table.rows, over, marks, table.kind.published_digits))
    if table.controls:
        texts = _texts(table.controls, [escape(CONTROLS_MEASURE)], marks)
        grids.append(texts.rename_axis(CONTROLS, axis="columns"))
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
        "\n\\par\\medskip\n".join(FITTED % _tabular(grid) for grid in grids),
        *(line for note in table.notes for line in (r"\par\medskip\raggedright", escape(note))),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_document(table: Table) -> str:
    """Write a table as a document that compiles as it is."""
    return DOCUMENT % to_latex(table)


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


def verdicts_table(verdicts: Sequence[Verdict], shares: Mapping[str, str] | None = None) -> str:
    """Each claim with its verdict, as a Markdown table; `shares` says in how many universes a claim holds."""
    rows = [["claim", "verdict", "comparisons that hold"], [":--"] * 3]
    rows += [[each.text, f"*{each.verdict}*", each.held] for each in verdicts]
    if shares:
        further = ["holds in universes", ":--", *(shares.get(each.claim, MISSING) for each in verdicts)]
        rows = [[*row, more] for row, more in zip(rows, further, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def verdicts_page(parts: Sequence[Part], profile: str) -> str:
    """Write the verdicts on a data set: for each of its sources a table, then each claim with its rule and numbers."""
    source = parts[0].source
    title, yes, no, note = "Verdicts", f"is *{REPRODUCED}*", f"is *{NOT}*", ""
    if not source.is_papers:
        title, yes, no = f"The paper's claims on {source.dataset}", f"*{ELSEWHERE[REPRODUCED]}*", f"*{ELSEWHERE[NOT]}*"
        note = "The paper has no numbers on this data set. "
    lines = [
        f"# {title}",
        "",
        _wrapped(
            f"Computed by `thetarbm tables` from the records; none is typed by hand. {note}A claim is a list of "
            f"comparisons: it {yes} if all hold, {no} if none does, *{PARTLY}* else. A superlative, as the lowest "
            f"error, is never partly so: it {no} if one comparison comes out the other way, and is *{UNDECIDED}* "
            f"if some are too close to tell. *{NO_DATA}*: a run is missing. Numbers are means ± standard errors over "
            "seeds, or plain values where there is one seed."
        ),
    ]
    for part in parts:
        lines += ["", f"## {part.source.described}, profile {profile}", "", verdicts_table(part.verdicts)]
        for each in part.verdicts:
            words = _wrapped(f"**{each.verdict}** ({each.held}). Rule: {each.rule}")
            lines += ["", f"### {each.text}", "", words, ""]
            lines += [f"- {comparison.outcome}: {comparison.words}" for comparison in each.evidence]
            lines += [f"- missing: {each.missing}"] if each.missing else []
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


# LaTeX is a table to be taken into a document, or one by itself.
FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", to_markdown),
    "latex": ("tex", to_latex),
    "document": ("standalone.tex", to_document),
    "csv": ("csv", to_csv),
}


def report_files(
    report: Report, folder: Path, verdicts: Path, formats: Sequence[str], *, of_users: bool | None = None
) -> dict[Path, str]:
    """Lay out every file of a report, by its path: tables with any number in one folder, verdicts in another.

    Images of a user have files of their own: `of_users` takes these alone, or all others.
    """
    size = "" if report.profile == "paper" else f"-{report.profile}"
    contents = {}
    pages: dict[str, list[Part]] = {}
    for part in report.parts:
        source = part.source
        if of_users not in (None, source.is_users):
            continue
        suffix = _suffix(report, source)
        for table in (each for each in part.tables if not each.is_empty):
            for name in formats:
                ending, write_table = FORMATS[name]
                contents[folder / f"{_stem(table)}{size}{suffix}.{ending}"] = write_table(table)
        if part.verdicts:
            dataset = "" if source.is_papers else f"-{source.dataset.removesuffix('-rot')}"
            pages.setdefault(f"verdicts{dataset}{size}{suffix if source.is_users else ''}.md", []).append(part)
    return contents | {verdicts / name: verdicts_page(parts, report.profile) for name, parts in pages.items()}


def _stem(table: Table) -> str:
    """The name of its files, without what tells profiles and sources apart."""
    return f"table{table.name}" if table.name.isdigit() else table.name


def _suffix(report: Report, source: Source) -> str:
    """What tells the files of a source apart; two contents under one name are told apart by their checksum."""
    names = [(part.source.dataset, part.source.name) for part in report.parts]
    twice = names.count((source.dataset, source.name)) > 1
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
