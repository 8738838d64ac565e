"""Files of every kind, damaged in every way, under every command that reads them.

What is damaged is never used: it is made again, or named in one sentence. The numbers are those of before in any case.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hardening.damage import DAMAGES, PRECIOUS, House, precious
from tests.runs import Outcome, lasting, store_of
from thetarbm_cli import documents

# The commands that read a kind of file and do not need it whole: their exit codes after damage.
# 0 and, for status, 3 are what an undisturbed house without that file gives.
READERS: dict[str, dict[str, int]] = {
    "data": {"prepare-data": 0, "train": 0, "evaluate again": 1, "features": 1, "info": 0},
    "sidecar": {"prepare-data": 0, "train": 0, "evaluate again": 2, "features": 2, "info": 0},
    "record": {
        "train": 0,
        "run": 0,
        "evaluate": 2,
        "evaluate all": 1,
        "show": 2,
        "status": 3,
        "tables": 0,
        "check": 1,
        "clean": 0,
    },
    "measures": {"evaluate": 0, "run": 0, "status": 3, "show": 0, "tables": 0, "check": 1, "clean": 0},
    "weights": {"train": 0, "evaluate": 0, "evaluate again": 2, "features": 2, "show": 0, "run": 0, "status": 0},
    "checkpoint": {"train": 0, "run": 0, "status": 3, "clean": 0},
    "table": {"tables": 0, "check": 1},
    "verdicts": {"tables": 0, "check": 1},
    "theory": {"run": 0, "status": 3, "tables": 0, "check": 0},
}
# The commands that make it again, after which all is as before. A folder in its place they cannot replace, unless they
# put it aside.
MAKERS = {
    "data": ("prepare-data", "train"),
    "sidecar": ("prepare-data", "train"),
    "record": ("train", "run"),
    "measures": ("evaluate", "run"),
    "weights": ("train",),
    "checkpoint": ("train", "run"),
    "table": ("tables",),
    "verdicts": ("tables",),
    "theory": ("run",),
}
# Commands that end without a look at the file, or with a sentence on it: a record does not know where the user's own
# images are, and cannot prepare them again.
QUIET = {
    ("data", "evaluate again"),
    ("data", "features"),
    ("sidecar", "evaluate again"),
    ("sidecar", "features"),
    ("data", "info"),
    ("sidecar", "info"),
    ("weights", "evaluate"),
    ("weights", "show"),
    ("weights", "run"),
    ("weights", "status"),
    ("checkpoint", "status"),
    ("checkpoint", "clean"),
}
PUT_ASIDE = ("record", "measures")
# Links that lead nowhere are as good as no file: nothing is wrong with what is not there.
NOT_THERE = ("dangling link", "link to itself")
# All of these together make everything again that is missing or damaged.
REPAIR = ("prepare-data", "train", "run", "tables")


def assert_sober(outcome: Outcome) -> None:
    """No traceback, no unknown error, and at most one error, in one line at the end."""
    assert "Traceback" not in outcome.err
    assert "unexpected" not in outcome.err
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert errors == outcome.err.splitlines()[-1:] if outcome.code == 2 else len(errors) <= 1


def content(house: House) -> dict[str, Any]:
    """All that a house holds: data, weights and tables, and records without times."""
    found: dict[str, Any] = {}
    for path in sorted([*house.data.iterdir(), *house.results.rglob("*")]):
        name = str(path.relative_to(house.base))
        # A damaged record is kept, and of measurements a damaged line.
        if path.name.startswith(("precious", "damaged", "run.json", "measures")) or path.suffix == ".lock":
            continue
        # What the tables write has no checksum of its own.
        if path.suffix == ".json" and not path.name.startswith("claims"):
            found[name] = documents.read(path)
            found[name].pop("seconds", None)
        elif path.is_file() and "orientations" not in path.parts:
            found[name] = path.read_bytes()
    for training in store_of(house.data, house.results).trainings():
        lines = {key: each.values for key, each in training.by_key.items()}
        found[training.run] = lasting(training) | {"measurements": lines, "made_for": None}
    return found


def spoil(request: pytest.FixtureRequest, kind: str, damage: str) -> tuple[House, Path]:
    """A house with one damaged file."""
    house: House = request.getfixturevalue("cut_house" if kind == "checkpoint" else "house")
    path = house.file(kind)
    DAMAGES[damage](path)
    return house, path


# One of each kind of end: wrong content, what cannot be replaced, what is not there. All are tried below.
@pytest.mark.parametrize("damage", ["flip", "folder", "dangling link"])
@pytest.mark.parametrize(
    ("kind", "command"), [(kind, command) for kind, commands in READERS.items() for command in commands]
)
def test_damage_is_made_good_or_named(kind: str, command: str, damage: str, request: pytest.FixtureRequest) -> None:
    house, path = spoil(request, kind, damage)
    outcome = house(command)
    assert_sober(outcome)
    if damage == "folder" and command in MAKERS[kind] and kind not in PUT_ASIDE:
        assert outcome.code == 1
        assert str(path) in outcome.err
    else:
        # What is not there is not among all runs.
        code = 0 if command == "evaluate all" and damage in NOT_THERE else READERS[kind][command]
        assert outcome.code == code, outcome.err
        if kind in ("data", "sidecar") and code:
            assert path.stem in outcome.err or house.images.name in outcome.err
    if kind not in ("table", "verdicts") and (kind, command) not in QUIET and damage not in NOT_THERE:
        assert any(line.startswith("warning: ") and path.stem in line for line in outcome.err.splitlines())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", READERS)
def test_everything_is_as_before_when_it_is_made_again(
    kind: str, damage: str, only_house: House, request: pytest.FixtureRequest
) -> None:
    only_house.put_back("whole")
    expected = content(only_house)
    house, path = spoil(request, kind, damage)
    if damage == "folder" and kind not in PUT_ASIDE:
        assert any(house(command).code == 1 for command in REPAIR)
        path.rmdir()
    if damage == "link to another" and kind == "measures":
        # Nobody appends to what is another's.
        assert house("run").code == 1
        assert precious(path).read_bytes() == PRECIOUS
        path.unlink()
    outcomes = {command: house(command) for command in REPAIR}
    assert {command: outcome.code for command, outcome in outcomes.items()} == dict.fromkeys(REPAIR, 0)
    assert content(house) == expected
    if damage == "link to another":
        assert not path.is_symlink()
        assert precious(path).read_bytes() == PRECIOUS
