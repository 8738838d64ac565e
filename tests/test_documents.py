from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetarbm_cli import documents
from thetarbm_cli.documents import NewerFormatError

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    PLAIN | st.text(),
    lambda inner: st.lists(inner) | st.lists(PLAIN) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_json_has_number_lists_on_one_line_and_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        documents.json_text([float("nan")])
    value = {"a": [0.1, 1e-300, -5, None], "b": ["[\n 1,\n 2\n]", "1"], "c": [[1, 2], []], "θ": {}}
    lines = documents.json_text(value).splitlines()
    assert lines[:3] == ["{", ' "a": [0.1,1e-300,-5,null],', ' "b": [']
    assert lines[7:9] == ["  [1,2],", "  []"]


CONTENT = {"format": 1, "name": "θ", "numbers": [0.1, 2, None], "part": {"on": True, "error": 10.31}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    documents.write(tmp_path / "file.json", CONTENT)
    return tmp_path / "file.json"


def test_the_layout_of_a_document_does_not_matter_but_its_checksum_does(path: Path) -> None:
    stored = json.loads(path.read_text())
    assert stored.keys() - CONTENT.keys() == {"checksum"}
    path.write_text(json.dumps(dict(reversed(stored.items()))))
    assert documents.read(path) == CONTENT
    path.write_text(json.dumps(CONTENT))
    with pytest.raises(ValueError, match="it has no checksum"):
        documents.read(path)


def test_no_flipped_bit_of_a_document_is_read(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="it "):
                documents.read(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it is not JSON (Expecting value, line 1, column 1)"),
        (b"[1]", "it is not a JSON object"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b'{"a": NaN}', "it holds NaN"),
        (b'{"a": 1e999}', "it holds 1e999, which is too large"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b'{"a": 1, "checksum": 7}', "its checksum is not that of its content"),
        (b'{"a": ' + b"[" * 100_000, "it is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_is_no_document_is_refused_with_the_reason(path: Path, text: bytes, reason: str) -> None:
    path.write_bytes(text)
    with pytest.raises(ValueError, match=re.escape(reason)) as raised:
        documents.read(path)
    assert "\n" not in str(raised.value)


def test_what_is_no_file_or_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(documents, "LARGEST_BYTES", 100)
        with pytest.raises(ValueError, match="it has more than 100 bytes"):
            documents.read(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        documents.read(path)
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"it cannot be read \(Not a plain file\)"):
        documents.read(path)


@given(st.dictionaries(st.text(), VALUES))
def test_every_document_comes_back(tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    content.pop("checksum", None)
    documents.write(path, content)
    assert documents.read(path) == documents.parse(documents.document_text(content)) == content


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode) | VALUES.map(json.dumps).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(text)
    try:
        documents.checksum_of(documents.read(path))
    except ValueError:
        return


def test_a_newer_format_is_told_and_refused(path: Path) -> None:
    documents.check_format(CONTENT, 1)
    assert documents.newer_format(path, 1) is None
    documents.refuse_newer(path, 1)
    documents.write(path, {**CONTENT, "format": 2})
    with pytest.raises(ValueError, match=r"it is of format 2, from a newer thetarbm \(this one knows 1\)"):
        documents.check_format(documents.read(path), 1)
    with pytest.raises(NewerFormatError, match=r"file\.json is of format 2, from a newer thetarbm .*--results"):
        documents.refuse_newer(path, 1)
    # What cannot be read, or is not there, is not newer.
    path.write_text('{"format": 2')
    documents.refuse_newer(path, 1)
    path.unlink()
    documents.refuse_newer(path, 1)


@pytest.mark.parametrize("other", [0, None, "2", 1.5, True])
def test_other_formats_are_refused_but_not_newer(path: Path, other: object) -> None:
    documents.write(path, {**CONTENT, "format": other})
    with pytest.raises(ValueError, match="and this version reads 1"):
        documents.check_format(documents.read(path), 1)
    documents.refuse_newer(path, 1)


OBJECTS = st.dictionaries(st.text().filter(lambda name: name != "checksum"), VALUES, max_size=5)


@given(st.lists(OBJECTS, max_size=5))
def test_every_line_comes_back(tmp_path_factory: pytest.TempPathFactory, contents: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.unlink(missing_ok=True)
    for content in contents:
        documents.append_line(path, content)
    assert documents.read_lines(path) == (contents, [])
    text = "".join(f"{documents.line_text(content)}\n" for content in contents)
    assert documents.read_lines(text.encode()) == (contents, [])
    assert [json.loads(line).keys() - {"checksum"} for line in text.split("\n") if line] == [set(c) for c in contents]


LINES = [{"run": 1, "name": "θ"}, {}, {"numbers": [0.25, None], "part": {"a": "}"}}]
TEXT = "".join(f"{documents.line_text(line)}\n" for line in LINES).encode()


def test_a_file_that_is_cut_off_anywhere_loses_its_last_line_alone_and_goes_on_after_it(tmp_path: Path) -> None:
    path, ends = tmp_path / "lines", [place for place, byte in enumerate(TEXT) if byte == ord("\n")]
    for length in range(len(TEXT) + 1):
        path.write_bytes(TEXT[:length])
        whole = sum(end <= length for end in ends)
        torn = length not in (0, *ends, *(end + 1 for end in ends))
        found, problems = documents.read_lines(path)
        assert found == LINES[:whole]
        assert len(problems) == torn
        assert not torn or problems[0] in (
            f"line {whole + 1} is torn",
            f"line {whole + 1} was damaged or changed by hand",
        )
        documents.append_line(path, {"next": length})
        assert documents.read_lines(path) == ([*LINES[:whole], {"next": length}], problems)


def test_no_flipped_bit_of_a_line_changes_what_is_read() -> None:
    for place in range(len(TEXT)):
        for bit in range(8):
            damaged = bytearray(TEXT)
            damaged[place] ^= 1 << bit
            found, problems = documents.read_lines(bytes(damaged))
            kept = iter(LINES)
            assert all(line in kept for line in found)
            # The last end of a line may go: all before it is whole.
            assert problems
            assert len(found) >= len(LINES) - 2


@given(st.binary(max_size=300), st.integers(0, len(TEXT)))
def test_any_bytes_between_lines_are_named_and_never_read(noise: bytes, place: int) -> None:
    found, _ = documents.read_lines(TEXT[:place] + noise + TEXT[place:])
    kept = iter(LINES)
    assert all(line in kept for line in found)


def forged(text: str) -> bytes:
    """A line of any text with the right checksum."""
    return f'{text}"checksum":"{hashlib.sha256(text.encode()).hexdigest()}"}}\n'.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a":NaN,', "expected value"),
        ('{"a":[{"b":-1e999}],', "a number is too large"),
        ('{"a":1' + "0" * 400 + ".5,", "a number is too large"),
        ('{"a":' + "9" * 5000 + ",", "out of range"),
        ('{"a":' + "[" * 1000 + "]" * 1000 + ",", "recursion"),
        ('{"a":"\\ud800",', "escape"),
        ('{"a":', "expected"),
        ("[", "expected"),
    ],
    ids=lambda value: value[:20],
)
def test_lines_are_read_strictly(text: str, reason: str) -> None:
    found, (problem,) = documents.read_lines(forged(text) + TEXT)
    assert found == LINES
    assert problem.startswith("line 1 is not one of ours: ")
    assert reason in problem


def test_lines_say_what_is_wrong_with_a_file_and_take_no_checksum_or_nan(tmp_path: Path) -> None:
    assert documents.read_lines(tmp_path / "none") == ([], [])
    assert documents.read_lines(tmp_path) == ([], ["it cannot be read (Not a plain file)"])
    changed = TEXT.replace(b'"run":1', b'"run":2')
    assert documents.read_lines(changed) == (LINES[1:], ["line 1 was damaged or changed by hand"])
    for content in ({"checksum": ""}, {"a": float("nan")}, {"a": "\ud800"}):
        with pytest.raises(ValueError):  # noqa: PT011
            documents.append_line(tmp_path / "none", content)
    assert not (tmp_path / "none").exists()


def test_six_thousand_lines_are_read_at_once() -> None:
    content = {"run": "theta", "values": [number / 7 for number in range(30)], "settings": {"name": "x" * 300}}
    text = f"{documents.line_text(content)}\n".encode() * 6000
    took = []
    for _ in range(3):
        start = time.perf_counter()
        assert len(documents.read_lines(text)[0]) == 6000
        took.append(time.perf_counter() - start)
    # A tenth of a second where nothing else runs.
    assert min(took) < 0.5
