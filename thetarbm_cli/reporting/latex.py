r"""Tables in LaTeX: a whole document each, which compiles as it is with a small TeX installation.

Who wants a table in a document of their own copies its ``table`` environment and the lines from ``\usepackage`` to
``\newsavebox``.
"""

from __future__ import annotations

import unicodedata

from thetarbm_cli.reporting.entries import Marks, caption, row_texts
from thetarbm_cli.reporting.layout import Row, Table

MARKS = Marks(plus_minus=r" $\pm$ ", bold=r"\textbf{{{}}}", missing="---")
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
FITTED = r"\ifdim\wd\wholetable>\linewidth\resizebox{\linewidth}{!}{\usebox{\wholetable}}\else\usebox{\wholetable}\fi"


def to_latex(table: Table) -> str:
    """A document with one table."""
    # The number is the paper's, and part of the title: LaTeX must not count for itself.
    title = f"{escape(table.title)}. {escape(_sentence(caption(table)))}"
    columns = max(1, len(table.columns))
    models = [_line(row, table, columns) for row in table.rows if not row.control]
    beside = [_line(row, table, columns) for row in table.rows if row.control]
    lines = [
        *PREAMBLE,
        r"\begin{document}",
        r"\begin{table}[!ht]",
        r"\centering",
        rf"\caption*{{{title}}}",
        r"\begin{lrbox}{\wholetable}",
        rf"\begin{{tabular}}{{@{{}}l{'c' * columns}@{{}}}}",
        r"\toprule",
        *_headings(table),
        r"\midrule",
        *models,
        *([r"\midrule"] if models and beside else []),
        *beside,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{lrbox}",
        FITTED,
        *(line for note in table.notes for line in ("", r"\medskip\raggedright", escape(note))),
        r"\end{table}",
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


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


def _headings(table: Table) -> list[str]:
    lines = []
    if table.groups:
        heads, rules, start = [], [], 2
        for text, width in table.groups:
            heads.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(text)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
            start += width
        lines += [" & ".join(["", *heads]) + r" \\", " ".join(rules)]
    return [*lines, " & ".join(["", *(map(escape, table.columns or [""]))]) + r" \\"]


def _line(row: Row, table: Table, columns: int) -> str:
    texts = row_texts(row, table, MARKS)
    if row.control:
        texts = [rf"\multicolumn{{{columns}}}{{c}}{{{texts[0]}}}"]
    label = escape(row.label)
    # After the end of a line, * and [ would be taken as its options.
    guard = "{}" if label.startswith(("*", "[")) else ""
    return " & ".join([guard + label, *texts]) + r" \\"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
