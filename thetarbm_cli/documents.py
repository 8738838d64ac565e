"""JSON of ours: documents, one in a file, and lines, many in a file; read strictly, each with its own checksum.

A changed digit of a number leaves JSON as whole as before. So every document and every line holds a checksum of all
else in it, and one without is not ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from thetarbm_cli import storage
from thetarbm_cli.errors import ThetaRBMError

CHECKSUM = "checksum"
# The record of a million hidden units would take a fifth of it: what is larger is not one of our files.
LARGEST_BYTES = 1 << 28

# A list without texts, objects and lists, as an indenting writer lays it out. A text has no line break of its own in
# JSON, so that nothing inside of one can look like this.
NUMBER_LIST = re.compile(r"\[\n[^\[\]{}\"]*\]")
# A line: what the checksum is of, and the checksum.
LINE = re.compile(rb'(.*)"checksum":"([0-9a-f]{64})"}', re.DOTALL)


class NewerFormatError(ThetaRBMError):
    """A file was written by a newer version of the program: it is neither used nor overwritten."""


def write(target: Path, content: Mapping[str, Any]) -> None:
    """Write a document atomically, with its checksum; a number that is not finite is a `ValueError`."""
    storage.write_text(target, document_text(content))


def document_text(content: Mapping[str, Any]) -> str:
    """Write the text of a document, as `parse` reads it."""
    return json_text({**content, CHECKSUM: checksum_of(content)})


def read(path: Path) -> dict[str, Any]:
    """Read a document and compare its checksum, which is left out.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If it is no whole document of ours; the message says why.
    """
    try:
        return parse(_read_bytes(path).decode())
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error


def parse(text: str) -> dict[str, Any]:
    """Read the text of a document, as `read` does."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg}, line {error.lineno}, column {error.colno})") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    stated = content.pop(CHECKSUM, None)
    found = checksum_of(content)
    if stated is None:
        raise ValueError("it has no checksum, and is not one of our files")
    if stated != found:
        raise ValueError("its checksum is not that of its content: it was damaged or changed by hand")
    return content


def checksum_of(content: Mapping[str, Any]) -> str:
    """Compute the SHA-256 of what a document says, whatever its layout; as `write`."""
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return hashlib.sha256(text.encode()).hexdigest()


def json_text(value: Any) -> str:
    """Write `value` as JSON that reads well and stays small: indented, but each list of plain numbers on one line."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBER_LIST.sub(lambda found: "".join(found[0].split()), text) + "\n"


def newer_format(path: Path, known: int) -> int | None:
    """Read the format of a document that is later than `known`; None if it is not, or cannot be read."""
    try:
        found = read(path).get("format")
    except (FileNotFoundError, ValueError):
        return None
    return found if _is_newer(found, known) else None


def refuse_newer(path: Path, known: int) -> None:
    """Refuse to go on over a document of a later format than `known`, by a `NewerFormatError`."""
    found = newer_format(path, known)
    if found is not None:
        raise NewerFormatError(
            f"{path} is of format {found}, from a newer thetarbm (this one knows {known}), and is left as it is: "
            "install the newer version, or choose another folder with --results"
        )


def check_format(content: Mapping[str, Any], known: int) -> None:
    """Refuse the content of a document of another format than `known`, by a `ValueError` with both."""
    found = content.get("format")
    if _is_newer(found, known):
        raise ValueError(f"it is of format {found}, from a newer thetarbm (this one knows {known})")
    if found != known or isinstance(found, bool):
        raise ValueError(f"it is of format {found}, and this version reads {known}")


def _is_newer(found: Any, known: int) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found > known


def line_text(content: Mapping[str, Any]) -> str:
    """Write a line, without its end: JSON with a last key that has the SHA-256 of the text before it."""
    if CHECKSUM in content:
        raise ValueError(f"a line has no {CHECKSUM!r} of its own")
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    before = text[:-1] + ("," if content else "")
    return f'{before}"{CHECKSUM}":"{hashlib.sha256(before.encode()).hexdigest()}"}}'


def append_line(path: Path, content: Mapping[str, Any]) -> None:
    """Append a line to a file, which is made if it is not there; see `storage.append_line`."""
    storage.append_line(path, line_text(content).encode())


def read_lines(source: Path | bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the whole lines of a file or of bytes; a file that is not there has none.

    Returns
    -------
    lines : what each whole line says, without its checksum
    problems : what is wrong with each of the others, as "line 3 is torn"
    """
    from pydantic_core import from_json

    try:
        content = source if isinstance(source, bytes) else _read_bytes(source)
    except FileNotFoundError:
        return [], []
    except ValueError as error:
        return [], [str(error)]
    lines, problems = [], []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line:
            continue
        parts = LINE.fullmatch(line)
        if parts is None or hashlib.sha256(parts[1]).hexdigest() != parts[2].decode():
            ended = line.endswith(b"}")
            problems.append(f"line {number} {'was damaged or changed by hand' if ended else 'is torn'}")
            continue
        try:
            # Several times as fast as json, and as strict but for numbers that are too large.
            found = from_json(line, allow_inf_nan=False)
            if not _are_finite(found.values()):
                raise ValueError("a number is too large")
        except ValueError as error:
            problems.append(f"line {number} is not one of ours: {error}")
            continue
        del found[CHECKSUM]
        lines.append(found)
    return lines, problems


def _are_finite(values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, float):
            if not math.isfinite(value):
                return False
        elif isinstance(value, (dict, list)) and not _are_finite(value.values() if isinstance(value, dict) else value):
            return False
    return True


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds {text}, which is too large for a number")
    return value


def _read_bytes(path: Path) -> bytes:
    """Read a file, unless it is too large or no plain file, by a `ValueError`."""
    try:
        with storage.open_plain(path) as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES} bytes")
    return content
