"""Files from elsewhere: nothing in them is executed, followed or unpacked without bounds; what is wrong is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hardening.damage import DAMAGES, House
from tests.runs import Command, files_in
from tests.suites import SMALL
from tests.test_arrays import Trap
from thetarbm_cli import documents, storage
from thetarbm_cli.suite import suite_names


def test_pickled_objects_of_a_user_are_refused_and_not_executed(thetarbm: Command, tmp_path: Path) -> None:
    path, trap = tmp_path / "mine.npz", tmp_path / "executed"
    np.savez(path, images=np.zeros((40, 6, 6), np.uint8), labels=np.array([Trap(trap)] * 40, dtype=object))
    thetarbm("train", "--model", "theta", "--source", str(path)).assert_refused("'labels'", "pickled")
    assert not trap.exists()


# -- files in a results folder -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["weights", "checkpoint"])
def test_pickled_objects_in_results_are_a_miss_and_not_executed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    house: House = request.getfixturevalue("house" if kind == "weights" else "cut_house")
    path, trap = house.file(kind), tmp_path / "executed"
    np.savez(path, weights=np.array([Trap(trap)], dtype=object), progress=np.array([Trap(trap)], dtype=object))
    if kind == "weights":
        # As if the one who wrote it had seen to the checksum, too.
        record = documents.read(house.file("record"))
        documents.write(house.file("record"), {**record, "weights_sha256": storage.sha256_of_file(path)})
        house("evaluate again").assert_refused("train it again: thetarbm ")
    outcome = house("train")
    assert outcome.code == 0
    assert "pickled" in outcome.err
    assert not trap.exists()


def test_bomb_in_the_place_of_a_checkpoint_is_a_miss(cut_house: House) -> None:
    np.savez_compressed(cut_house.file("checkpoint"), progress=np.zeros(50_000_000, np.uint8))
    outcome = cut_house("train")
    assert outcome.code == 0
    assert "'progress' unpacks to 50000128" in outcome.err


@pytest.mark.parametrize(
    ("name", "value"), [("images_sha256", "../../../elsewhere"), ("run", "../../elsewhere"), ("weights_sha256", "../x")]
)
def test_text_of_a_record_cannot_become_a_path(house: House, name: str, value: str) -> None:
    documents.write(house.file("record"), {**documents.read(house.file("record")), name: value})
    before = set(files_in(house.base.parent))
    outcome = house("tables")
    assert outcome.code == 0
    assert name in outcome.err
    assert set(files_in(house.base.parent)) == before


# -- suites --------------------------------------------------------------------------------------------------

LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    + ["experiments: [{name: a, about: *a11, grid: {b: *a11}}]", "profiles: {tiny: {about: *a11}}"]
)
AXIS = ", ".join(str(number) for number in range(1, 100))
EVIL = {
    "executed": ("title: !!python/object/apply:pathlib.Path.touch [executed]\n" + SMALL, "tag tag:yaml.org"),
    "laughs": (LAUGHS, "is not allowed"),
    "itself": ("a: &a [*a]\n" + SMALL, "alias *a is not allowed"),
    "deep": ("[" * 200_000, "deeper than 20 levels"),
    "deep blocks": ("".join(" " * n + "a:\n" for n in range(600)), "deeper than 20 levels"),
    "large": ("# " + "x" * 1_000_001, "is larger than 1000000 bytes"),
    "grid": (
        SMALL.replace(
            "{sparsity: [0.3, 0.1]}\n    measures",
            f"{{{', '.join(f'{axis}: [{AXIS}]' for axis in ('epochs', 'hidden', 'batch_size', 'rotations'))}}}\n    m",
        ).replace("    m: ", "    measures: "),
        "profiles, 10000 may be",
    ),
    "seeds": (SMALL.replace("{seeds: 2}", "{seeds: 1000000000000}"), "less than or equal to 1000"),
    "many problems": (SMALL + "".join(f"  - {number}\n" for number in range(2000)), "of which the first 50 are"),
    "number": (SMALL.replace("seeds: 1\n", f"seeds: {'9' * 5000}\n"), "profiles.tiny.seeds"),
    "merge": (SMALL + "<<: {format: 2}\n", "<<: unknown key"),
    "two documents": (SMALL + "---\n" + SMALL, "problem"),
}


@pytest.mark.parametrize("name", EVIL)
def test_a_suite_cannot_execute_grow_or_hang(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, words = EVIL[name]
    (tmp_path / "experiments.yaml").write_text(text, encoding="utf-8")
    outcome = thetarbm("status", "--profile", "tiny")
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    assert len(outcome.err) < 40_000
    # What a shell asks when a key is pressed: it may find no names, and may not die of it.
    names = suite_names()
    assert all(len(cells) <= 10_000 for cells in [names["cells"]])
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("damage", ["folder", "pipe", "endless", "link to itself", "dangling link"])
def test_what_is_no_file_is_no_suite(thetarbm: Command, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "suite.yaml"
    path.touch()
    DAMAGES[damage](path)
    thetarbm("status", "--suite", str(path)).assert_refused("suite.yaml")
    assert suite_names(path)["experiments"] == {}


def test_too_many_seeds_are_refused(thetarbm: Command, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(SMALL, encoding="utf-8")
    for command in ("run", "status"):
        thetarbm(command, "--suite", str(path), "--seeds", "1000000000000").assert_refused("at most 1000")
