from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.commands.terminals import CONTROL, in_terminal
from tests.experiments.runs import call
from tests.experiments.suites import record_for, save, write_suite
from thetarbm_cli.commands import terminal
from thetarbm_cli.experiments.suite.loader import load_suite

words = st.text("abγθ,=/ ", min_size=1, max_size=60).filter(str.strip)
numbers = st.floats(0, 1000).map(lambda value: f"{value:.4f} ± 0.0001\n(0.9000)")


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    kinds = draw(st.lists(st.sampled_from([words, numbers]), min_size=1, max_size=8))
    rows = draw(st.lists(st.tuples(*kinds).map(list), min_size=1, max_size=4))
    return draw(st.lists(words, min_size=len(kinds), max_size=len(kinds))), rows


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


# A table that is exactly as wide as the terminal.
@example((["=", "=", "="], [["===a", "0.0000 ± 0.0001\n(0.9000)", "100.0000 ± 0.0001\n(0.9000)"]]), 40)
@given(tables(), st.sampled_from([40, 80, 200]))
@settings(max_examples=60, deadline=None)
def test_a_table_is_never_wider_than_the_terminal_and_loses_nothing(
    table: tuple[list[str], list[list[str]]], width: int
) -> None:
    headings, rows = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stdout", Tty())
        terminal.print_table(headings, rows)
        text = CONTROL.sub("", sys.stdout.getvalue())
    assert all(cell_len(line) <= width for line in text.splitlines())
    shown = re.sub(r"\s", "", text)
    for row in rows:
        for cell in row:
            assert all(shown.count(letter) >= cell.count(letter) for letter in set(re.sub(r"\s", "", cell)))


def test_numbers_stay_whole_and_break_only_where_they_may() -> None:
    row = ["O-RBM, not aligned", *["10.15 ± 0.05\n(8.9)"] * 4]
    widths = terminal.fit_widths(["", "a", "b", "c", "d"], [row], 70)
    assert widths is not None
    assert sum(widths) + 4 * terminal.GAP <= 70
    assert {line for width in widths[1:] for line in terminal.wrap(row[1], width)} <= {
        "10.15 ± 0.05 (8.9)",
        "10.15 ± 0.05",
        "(8.9)",
    }
    assert terminal.fit_widths(["", "a", "b", "c", "d"], [row], 40) is None


def test_markdown_marks_the_best_and_keeps_strokes() -> None:
    text = terminal.to_markdown(["model", "error"], [["a|b", ("1.5\n(2.0)", "best")], ["c", "12.0"]])
    assert text.splitlines()[1].endswith("-:|")
    assert r"a\|b" in text
    assert "**1.5 (2.0)**" in text


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("columns", [80, 40])
def test_status_fits_a_terminal_and_has_colour_unless_told(columns: int, tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    cell = load_suite(suite).cells("paper")[0]
    numbers = {"test_error_percent": 1.0, "gamma_train": 0.5, "gamma_test": 0.5}
    save(tmp_path / "results", *(record_for(cell, seed, **numbers) for seed in (0, 1)))
    words = ("status", "--suite", str(suite), "--results", str(tmp_path / "results"), "--data-dir", str(tmp_path))
    seen = in_terminal(*words, columns=columns)
    assert seen.code == 3
    assert max(map(cell_len, seen.lines)) <= columns
    assert re.search("\x1b\\[32mdone", seen.raw)
    assert re.search("\x1b\\[33mmissing", seen.raw)
    assert "m" not in re.findall(r"\x1b\[[\d;?]*(\w)", in_terminal(*words, columns=columns, NO_COLOR="1").raw)


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("columns", [80, 40])
def test_every_table_and_verdict_fits_a_terminal(columns: int, tmp_path: Path) -> None:
    seen = in_terminal("--quiet", "tables", "--out", str(tmp_path), columns=columns)
    assert seen.code == 0
    assert max(map(cell_len, seen.lines)) <= columns
    assert "|" not in seen.raw
    # The best of a column, and a verdict.
    assert "\x1b[1;32m" in seen.raw
    assert "\x1b[1;31m" in seen.raw


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("words", ["train --model nosuch", "info", "show nosuch --threads x"])
def test_messages_are_wrapped_between_words_on_a_terminal_alone(words: str, tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path), "--results", str(tmp_path), *words.split()]
    seen = in_terminal(*arguments, columns=60)
    piped = call(tmp_path, tmp_path, *words.split())
    assert all(len(line) <= 60 or len(line.split()) == 1 for line in seen.lines)
    assert max(map(len, (piped.out + piped.err).splitlines())) > 60
    assert " ".join(seen.lines).split() == (piped.out + piped.err).split()
