from __future__ import annotations

import json
import os
import re
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


def test_the_layout_of_a_document_does_not_matter_nor_that_it_is_from_before_there_were_checksums(path: Path) -> None:
    stored = json.loads(path.read_text())
    assert stored.keys() - CONTENT.keys() == {"checksum"}
    for other in (dict(reversed(stored.items())), CONTENT):
        path.write_text(json.dumps(other))
        assert documents.read(path) == CONTENT


def test_no_flipped_bit_of_a_document_changes_what_is_read(path: Path) -> None:
    whole, taken = path.read_bytes(), 0
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                found = documents.read(path)
            except ValueError:
                continue
            # The name of the checksum itself: the rest is whole, and who reads it finds a field that is not known.
            taken += 1
            assert {name: found[name] for name in CONTENT} == CONTENT
            assert len(found.keys() - CONTENT.keys()) == 1
    assert taken <= 8 * len("checksum")


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
    assert documents.read(path) == content


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
