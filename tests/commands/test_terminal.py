"""What people see on a terminal: nothing wider than it, colour where it means something, one line where it is piped."""

from __future__ import annotations

import io
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.commands.terminals import CONTROL, in_terminal
from tests.experiments.runs import call, run_of
from tests.experiments.suites import record_for, save, write_suite
from thetarbm_cli.commands import terminal
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite

on_unix = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")

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
@example((["=", "=", "="], [["===a", "0.0000 ± 0.0001\n(0.9000)", "100.0000 ± 0.0001\n(0.9000)"]]), 40, False)
@given(tables(), st.sampled_from([40, 80, 200]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_table_is_never_wider_than_the_terminal_and_loses_nothing(
    table: tuple[list[str], list[list[str]]], width: int, last_below: bool
) -> None:
    headings, rows = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stdout", Tty())
        terminal.print_table(headings, rows, last_below=last_below)
        text = CONTROL.sub("", sys.stdout.getvalue())
    assert all(cell_len(line) <= width for line in text.splitlines())
    shown = re.sub(r"\s", "", text)
    for row in rows:
        for cell in row:
            assert all(shown.count(letter) >= cell.count(letter) for letter in set(re.sub(r"\s", "", cell)))


def test_a_number_keeps_its_unit_its_name_and_its_spread() -> None:
    for text, whole in (
        ("it holds in 2 of 19 (3 to 31 %) of them", "31 %)"),
        ("errors of up to n = 4 leave it", "n = 4"),
        ("mean 10.15 ± 0.05 over seeds", "10.15 ± 0.05"),
        ("classes  0: 958  1: 1131  2: 960", "1: 1131"),
        ("30 of 45\n(52 to 79 %)", "(52 to 79 %)"),
    ):
        for width in range(max(map(len, [whole, *text.split()])), len(text)):
            lines = terminal.wrap(text, width)
            assert all(len(line) <= width for line in lines)
            assert any(whole in line for line in lines)
            assert " ".join(lines).split() == text.split()


def test_markdown_marks_the_best_and_keeps_strokes() -> None:
    text = terminal.to_markdown(["model", "error"], [["a|b", ("1.5\n(2.0)", "best")], ["c", "12.0"]])
    assert text.splitlines()[1].endswith("-:|")
    assert r"a\|b" in text
    assert "**1.5 (2.0)**" in text


@on_unix
def test_commands_fit_a_terminal(evaluated: Path, data_dir: Path, tmp_path: Path) -> None:
    runs = RunStore(evaluated).identifiers()
    here = ["--results", str(evaluated), "--data-dir", str(data_dir)]
    shown = {}
    for call_words in (
        ["--quiet", "tables", "--out", str(tmp_path)],
        ["multiverse"],
        ["multiverse", "--universe", "batch=500"],
        [*here, "list"],
        [*here, "compare", *runs[:2]],
        [*here, "show", run_of(evaluated, "orbm")],
        [*here, "prepare-data"],
    ):
        seen = in_terminal(*call_words, columns=40)
        assert seen.code == 0
        # A path or checksum is left to the terminal, which copies it in one piece.
        copied = (str(evaluated), str(data_dir), "sha256 ")
        assert max(cell_len(line) for line in seen.lines if not any(each in line for each in copied)) <= 40
        shown[call_words[-1]] = seen
    assert not any(line.strip().startswith("%") for line in shown["multiverse"].lines)
    # The best of a column, and a verdict.
    assert {"\x1b[1;32m", "\x1b[1;31m"} <= set(re.findall("\x1b\\[[0-9;]+m", shown[str(tmp_path)].raw))
    assert "|" not in shown[str(tmp_path)].raw
    commands = "\n".join(shown["batch=500"].lines).partition("\nthetarbm train")[2].split("\n")
    assert all(line.endswith(" \\") for line, after in pairwise(commands) if after[0] == " ")
    assert all(run in CONTROL.sub("", shown["list"].raw) for run in runs)
    # What all runs have is said once.
    assert sum("data.train=300" in line for line in shown["list"].lines) == 1


@on_unix
def test_states_have_colour_unless_it_is_not_wanted(tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    cell = load_suite(suite).cells("paper")[0]
    numbers = {"test_error_percent": 1.0, "gamma_train": 0.5, "gamma_test": 0.5}
    save(tmp_path / "results", *(record_for(cell, seed, **numbers) for seed in (0, 1)))
    words = ("status", "--suite", str(suite), "--results", str(tmp_path / "results"), "--data-dir", str(tmp_path))
    seen = in_terminal(*words)
    assert seen.code == 3
    assert re.search("\x1b\\[32mdone", seen.raw)
    assert re.search("\x1b\\[33mmissing", seen.raw)
    assert "m" not in re.findall(r"\x1b\[[\d;?]*(\w)", in_terminal(*words, NO_COLOR="1").raw)


@on_unix
@pytest.mark.parametrize("words", ["train --model nosuch", "info"])
def test_messages_are_wrapped_between_words_on_a_terminal_alone(words: str, tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path), "--results", str(tmp_path), *words.split()]
    seen = in_terminal(*arguments, columns=60)
    piped = call(tmp_path, tmp_path, *words.split())
    # A path that is longer than a line stands by itself, or beside its label.
    assert all(len(line) <= 60 or len(line[10 if words == "info" else 0 :].split()) == 1 for line in seen.lines)
    assert max(map(len, (piped.out + piped.err).splitlines())) > 60
    assert " ".join(seen.lines).split() == (piped.out + piped.err).split()
