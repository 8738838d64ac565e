"""What people see on a terminal and in a log: nothing wider than it, colour where it means something, progress."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.commands.terminals import CONTROL, in_terminal
from tests.records import save, training_for
from tests.runs import call, run_of
from tests.suites import FAILING, write_suite
from thetarbm_cli import ui
from thetarbm_cli.store import Store
from thetarbm_cli.suite import load_suite

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


def shown(show: Callable[[], None], width: int) -> str:
    """What a terminal of so many columns gets on stdout, without colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stdout", Tty())
        show()
        return CONTROL.sub("", sys.stdout.getvalue())


# A table that is exactly as wide as the terminal.
@example((["=", "=", "="], [["===a", "0.0000 ± 0.0001\n(0.9000)", "100.0000 ± 0.0001\n(0.9000)"]]), 40, False)
@example((["run", "settings"], [["a", "b" * 60]]), 40, True)
@given(tables(), st.sampled_from([40, 80, 200]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_table_is_never_wider_than_the_terminal_and_loses_nothing(
    table: tuple[list[str], list[list[str]]], width: int, last_below: bool
) -> None:
    headings, rows = table
    text = shown(lambda: ui.print_table(headings, rows, last_below=last_below), width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    letters = re.sub(r"\s", "", text)
    for row in rows:
        for cell in row:
            assert all(letters.count(letter) >= cell.count(letter) for letter in set(re.sub(r"\s", "", cell)))


def test_a_number_keeps_its_unit_its_name_and_its_spread() -> None:
    for text, whole in (
        ("it holds in 2 of 19 (3 to 31 %) of them", "31 %)"),
        ("errors of up to n = 4 leave it", "n = 4"),
        ("mean 10.15 ± 0.05 over seeds", "10.15 ± 0.05"),
        ("classes  0: 958  1: 1131  2: 960", "1: 1131"),
    ):
        for width in range(max(map(len, [whole, *text.split()])), len(text)):
            lines = shown(partial(ui.print_text, text), width).splitlines()
            assert all(len(line) <= width for line in lines)
            assert any(whole in line for line in lines)
            assert " ".join(lines).split() == text.split()
    for width in (12, 13, 20):
        lines = shown(lambda: ui.print_table(["holds in"], [["30 of 45\n(52 to 79 %)"]]), width).splitlines()
        assert lines[1:] == ["30 of 45", "(52 to 79 %)"]


def test_an_id_or_a_command_is_copied_in_one_piece() -> None:
    run, path = "theta-0123456789ab", "/a/path/that/is/longer/than/the/terminal/is/wide"
    command = f"thetarbm --results {path} train --set 'note=two words' --set sparsity=0.1"
    for width in (40, 60):
        table = shown(
            lambda: ui.print_table(["run", "why"], [[run, "a reason of many words"], [run, "x " * 40]]), width
        )
        assert table.count(run) == 2
        fields = shown(lambda: ui.print_fields([("run", run), ("path", path)]), width)
        assert [line.split() for line in fields.splitlines()] == [["run", run], ["path", path]]
        lines = shown(lambda: ui.print_command("again", command), width).removeprefix("again")
        assert all(len(line) <= width or path in line for line in lines.splitlines())
        assert shlex.split(lines.replace("\\\n", "")) == shlex.split(command)


@dataclass
class Found:
    name: str
    known: float | None
    extra: float | None = None
    parts: list[Found] = field(default_factory=list)


def test_json_leaves_out_what_is_none_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    ui.print_json(Found("γ", None, parts=[Found("b", 1.0, 2.0)]))
    text = capsys.readouterr().out
    assert "γ" in text
    inner = {"name": "b", "known": 1.0, "extra": 2.0, "parts": []}
    assert json.loads(text) == {"name": "γ", "known": None, "parts": [inner]}
    with pytest.raises(ValueError, match="JSON"):
        ui.print_json(Found("x", float("nan")))


def test_markdown_marks_the_best_and_keeps_strokes() -> None:
    text = ui.to_markdown(["model", "error"], [["a|b", ("1.5\n(2.0)", "best")], ["c", "12.0"]])
    assert text.splitlines()[1].endswith("-:|")
    assert r"a\|b" in text
    assert "**1.5 (2.0)**" in text


def test_commands_fit_a_terminal(evaluated: Path, data_dir: Path, tmp_path: Path) -> None:
    runs = Store(evaluated, shipped=False).identifiers()
    here = ["--results", str(evaluated), "--data-dir", str(data_dir)]
    shown = {}
    for call_words in (
        ["--quiet", "tables", "--out", str(tmp_path)],
        ["multiverse"],
        ["multiverse", "--universe", "batch=500"],
        [*here, "list"],
        [*here, "show", *runs[:2]],
        [*here, "show", run_of(evaluated, "orbm")],
        [*here, "prepare-data"],
    ):
        seen = in_terminal(*call_words, columns=40)
        assert seen.code == 0
        # A path or checksum is left to the terminal, which copies it in one piece.
        copied = (str(evaluated), str(data_dir), "sha256 ", "@tiny")
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


def test_states_have_colour_unless_it_is_not_wanted(tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    cell = load_suite(suite).cells("paper")[0]
    numbers = {"test_error_percent": 1.0, "gamma_train": 0.5, "gamma_test": 0.5}
    save(tmp_path / "results", *(training_for(cell, seed, **numbers) for seed in (0, 1)))
    words = ("status", "--suite", str(suite), "--results", str(tmp_path / "results"), "--data-dir", str(tmp_path))
    seen = in_terminal(*words)
    assert seen.code == 3
    assert re.search("\x1b\\[32mdone", seen.raw)
    assert re.search("\x1b\\[33mmissing", seen.raw)
    assert "m" not in re.findall(r"\x1b\[[\d;?]*(\w)", in_terminal(*words, NO_COLOR="1").raw)


@pytest.mark.parametrize("words", ["train --model nosuch", "info"])
def test_messages_are_wrapped_between_words_on_a_terminal_alone(words: str, tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path), "--results", str(tmp_path), *words.split()]
    seen = in_terminal(*arguments, columns=60)
    piped = call(tmp_path, tmp_path, *words.split())
    # A path that is longer than a line stands by itself, or beside its label.
    assert all(len(line) <= 60 or len(line[10 if words == "info" else 0 :].split()) == 1 for line in seen.lines)
    assert max(map(len, (piped.out + piped.err).splitlines())) > 60
    assert " ".join(seen.lines).split() == (piped.out + piped.err).split()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A time that moves by hand."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(ui, "time", clock)
    return clock


def test_time_left_is_that_of_the_epochs(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    with ui.TrainingDisplay("rbm", quiet=False) as display:
        clock.now += 1000
        display.preparing(1, 1)
        for epoch in (7, 8):  # a run that is resumed after epoch 6
            clock.now += 10
            display.epoch(epoch, 12, 0.5, 0.3)
    lines = capsys.readouterr().err.splitlines()
    for line, words in zip(lines, (["7/12", "50 s"], ["8/12", "40 s"]), strict=True):
        assert all(word in line for word in ["rbm", "0.5000", "0.300", *words])


def test_a_log_has_a_line_for_each_job_and_long_step_and_quiet_only_failures(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    for quiet in (False, True):
        with ui.JobsDisplay(4, quiet=quiet) as display:
            for name, seconds in (("long", 60), ("short", 0)):
                with display.step(name, "measuring") as report:
                    clock.now += seconds
                    report(1, 1)
                display.finished(name, "1.23 %")
            display.finished("bad", "no memory", failed=True)
        lines = capsys.readouterr().err.splitlines()
        ended = [["long", "measuring", "1 min"], ["1/4", "long", "1.23 %", "3 min left"], ["2/4", "short", "1.23 %"]]
        for line, words in zip(lines, [*([] if quiet else ended), ["bad", "no memory"]], strict=True):
            assert all(word in line for word in words)


def test_a_step_is_shown_if_it_is_long(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (0, 1.2 * ui.DELAY):
        monkeypatch.setattr(sys, "stderr", Tty())
        with ui.progress("planning") as report:
            report(1, 3)
            time.sleep(seconds)
            ui.say("a message")
        text = sys.stderr.getvalue()
        assert "a message\n" in CONTROL.sub("", text)
        assert ("planning" in text and "1/3" in text) == (seconds > ui.DELAY)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is shown however short the work is."""
    timer = lambda _, start: SimpleNamespace(start=start, cancel=lambda: None, join=lambda: None)  # noqa: E731
    monkeypatch.setattr(ui, "Timer", timer)


@pytest.mark.usefixtures("at_once")
def test_runs_are_shown_in_lines_that_fit_and_how_they_ended_above_them(tmp_path: Path, small_data: Path) -> None:
    folders = ["--results", str(tmp_path / "results"), "--data-dir", str(small_data)]
    words = ["run", "--suite", str(write_suite(tmp_path, FAILING)), "--profile", "tiny", "--keep-going"]
    seen = in_terminal(*folders, *words, columns=40)
    assert seen.code == 1
    assert max(map(cell_len, seen.lines)) <= 40
    assert "0/3" in next(line for line in seen.lines if line.startswith("runs "))
    assert any("first seed 0" in line and "━" in line for line in seen.lines)
    assert sum(line.startswith("failed: second seed 0: ") for line in seen.lines) == 1
    assert sum(line.startswith("[1/3] first seed 0: ") for line in seen.lines) == 1


@pytest.mark.usefixtures("at_once")
def test_something_is_shown_before_libraries_are_imported_and_all_of_it_fits(tmp_path: Path, small_data: Path) -> None:
    paths = (str(tmp_path), str(small_data))
    for words, label in (("train --model rbm --profile tiny", "rbm"), ("evaluate --all", "runs")):
        seen = in_terminal("--results", str(tmp_path), "--data-dir", str(small_data), *words.split(), columns=40)
        assert seen.code == 0
        assert seen.lines[0].split()[0] == label
        assert "━" in seen.lines[0]
        # Paths are left to the terminal, which copies them in one piece.
        assert all(cell_len(line) <= 40 or any(each in line for each in paths) for line in seen.lines)
        if label == "rbm":
            assert any("epoch" in line for line in seen.lines if "━" in line)
