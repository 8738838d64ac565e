"""Tables in LaTeX: a whole document with booktabs, which compiles as it is."""

from __future__ import annotations

from thetarbm_cli.reporting.entries import Marks, caption, row_texts
from thetarbm_cli.reporting.tables import Row, Table

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
    "θ": r"$\theta$",
    "γ": r"$\gamma$",
    "ε": r"$\varepsilon$",
    "±": r"$\pm$",
    "…": r"\ldots{}",
}


def to_latex(table: Table) -> str:
    """A document with one table."""
    columns = len(table.columns)
    lines = [
        r"\documentclass{article}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[landscape,margin=2cm]{geometry}",
        r"\usepackage{booktabs}",
        r"\begin{document}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.title)}. {escape(_sentence(caption(table)))}}}",
        rf"\begin{{tabular}}{{@{{}}l{'c' * columns}@{{}}}}",
        r"\toprule",
        *_headings(table),
        r"\midrule",
        *(_line(row, table, columns) for row in table.rows if not row.control),
    ]
    beside = [_line(row, table, columns) for row in table.rows if row.control]
    if beside:
        lines += [r"\midrule", *beside]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", *(escape(note) + "\n" for note in table.notes)]
    return "\n".join([*lines, r"\end{document}"]) + "\n"


def escape(text: str) -> str:
    """Plain text for LaTeX; characters that its fonts may not have are left out."""
    return "".join(SPECIAL.get(letter, letter if letter.isascii() else "") for letter in text)


def _headings(table: Table) -> list[str]:
    lines = []
    if table.groups:
        heads, rules, start = [], [], 2
        for text, width in table.groups:
            heads.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(text)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
            start += width
        lines += [" & ".join(["", *heads]) + r" \\", " ".join(rules)]
    return [*lines, " & ".join(["", *map(escape, table.columns)]) + r" \\"]


def _line(row: Row, table: Table, columns: int) -> str:
    texts = row_texts(row, table, MARKS)
    if row.control:
        texts = [rf"\multicolumn{{{columns}}}{{c}}{{{texts[0]}}}"]
    return " & ".join([escape(row.label), *texts]) + r" \\"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
