from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from skimage.io import imread

from tests.data.archives import write_folder, write_zip
from thetarbm_cli.cli import main
from thetarbm_cli.data import prepare
from thetarbm_cli.data.sources.official import TEST_FILE, TRAIN_VALID_FILE
from thetarbm_cli.reporting.figures.images import preview

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Call the command line with a data folder of the test's own: exit code, stdout, stderr."""

    def call(*arguments: str, data_dir: Path = tmp_path / "data") -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["--data-dir", str(data_dir), "prepare-data", *arguments])
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return call


def test_json_is_as_documented(run: Run, data_dir: Path) -> None:
    code, out, _ = run("--json", data_dir=data_dir)
    sheet = json.loads(out)
    assert code == 0
    assert sheet["dataset"] == "mnist-rot"
    assert sheet["source"] == "generated"
    assert Path(sheet["path"]).is_relative_to(data_dir)
    assert len(sheet["sha256"]) == 64
    assert sheet["splits"] == {"train": 10_000, "valid": 2_000, "test": 50_000}
    assert sheet["pixel_mean"] == pytest.approx(0.130, abs=0.002)
    assert sheet["pixel_std"] == pytest.approx(0.30, abs=0.015)
    assert sum(sheet["orientations"]) == pytest.approx(1)
    # Uniform turns leave no orientation out: each of nine near 1/9.
    np.testing.assert_allclose(sheet["orientations"], 1 / 9, atol=0.01)
    assert Path(sheet["preview"]).is_file()
    assert sheet["cached"] is True


def test_it_is_described_and_made_once_until_it_is_damaged_or_forced(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, out, err = run("--dataset", "mnist")
    assert code == 0
    assert out.startswith("mnist (shipped, seed 0)\n")
    for part in ("train", "valid", "test", "pixels", "orientations", "sha256", "file", "preview"):
        assert f"\n  {part} " in out
    for number in ("10000 images  0: 974", "mean 0.1314, std 0.3091", "0° 13."):
        assert number in out
    assert "mnist: done" in err
    # The second time, nothing is computed or written.
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(prepare.OrientationEstimator, "__call__", lambda *given: pytest.fail("computed again"))
        assert "cached" in run("--dataset", "mnist")[1].splitlines()[0]
        sheet = json.loads(run("--dataset", "mnist", "--json")[1])
    assert sheet["cached"] is True
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()} == before
    picture = Path(sheet["preview"])
    whole = picture.read_bytes()
    picture.write_bytes(whole[:100])
    assert json.loads(run("--dataset", "mnist", "--json")[1])["cached"] is True
    assert picture.read_bytes() == whole
    assert json.loads(run("--dataset", "mnist", "--json", "--force")[1]) == {**sheet, "cached": False}


def test_all_gives_both(run: Run, data_dir: Path) -> None:
    sheets = json.loads(run("--dataset", "all", "--json", data_dir=data_dir)[1])["datasets"]
    assert [(sheet["dataset"], sheet["source"]) for sheet in sheets] == [
        ("mnist-rot", "generated"),
        ("mnist", "shipped"),
    ]


def own_file(tmp_path: Path, **changes: Any) -> Path:
    generator = np.random.default_rng(1)
    arrays = {"images": generator.random((60, 10, 10)), "labels": np.arange(60) % 15, **changes}
    np.savez(tmp_path / "mine.npz", **arrays)
    return tmp_path / "mine.npz"


def test_own_images(run: Run, tmp_path: Path) -> None:
    path = own_file(tmp_path)
    code, out, _ = run("--source", str(path))
    assert code == 0
    assert out.startswith(f"mine ({path}, seed 0)\n")
    assert "30 images  15 classes of 2 to 2" in out
    sheet = json.loads(run("--source", str(path), "--json")[1])
    assert sheet["cached"] is True
    # 30 tiles of 80 pixels in rows of 12, with gaps of 16.
    assert imread(sheet["preview"]).shape[:2] == (3 * 96 - 16, 12 * 96 - 16)


def sentence(result: tuple[int, str, str], code: int = 2) -> str:
    """The one line that an error prints."""
    assert result[0] == code
    assert result[1] == ""
    lines = result[2].splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


ROW = b" ".join([b"0.5"] * 784) + b" 3\n"


@pytest.mark.parametrize(
    ("second_line", "facts"),
    [
        (b"0.5 3\n", ["line 2", "785"]),
        (ROW.replace(b"0.5", b"half", 1), ["line 2"]),
        (ROW.replace(b"0.5", b"nan"), ["line 2, column 1", "nan"]),
        (ROW.replace(b"0.5", b"255"), ["line 2, column 1", "255.0"]),
        (ROW.replace(b" 3\n", b" 10\n"), ["line 2", "10.0", "label"]),
        (b"", ["12000"]),
    ],
)
def test_a_bad_line_of_the_archive_is_named(run: Run, tmp_path: Path, second_line: bytes, facts: list[str]) -> None:
    folder = write_folder(tmp_path / "archive", ROW + second_line, ROW)
    zipped = write_zip(tmp_path / "archive.zip", {TRAIN_VALID_FILE: ROW + second_line, TEST_FILE: ROW})
    for archive in (folder, zipped):
        message = sentence(run("--source", "official", "--archive", str(archive)))
        assert all(fact in message for fact in ["train_valid.amat", *facts])


def test_a_missing_or_cut_off_archive_is_named(run: Run, tmp_path: Path) -> None:
    def message(archive: Path) -> str:
        return sentence(run("--source", "official", "--archive", str(archive)))

    assert "nowhere.zip is missing" in message(tmp_path / "nowhere.zip")
    (tmp_path / "empty").mkdir()
    assert "train_valid.amat is missing" in message(tmp_path / "empty")
    whole = write_zip(tmp_path / "whole.zip", {TRAIN_VALID_FILE: ROW * 2000, TEST_FILE: ROW})
    (tmp_path / "cut.zip").write_bytes(whole.read_bytes()[:-100])
    assert "cut.zip" in message(tmp_path / "cut.zip")
    without = write_zip(tmp_path / "without.zip", {TEST_FILE: ROW})
    assert re.search(r"train_valid.amat .*missing", message(without))
    bomb = write_zip(tmp_path / "bomb.zip", {f"../{TRAIN_VALID_FILE}": b" " * 400_000_000})
    assert "400000000 bytes" in message(bomb)


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--source", "nothing.npz"], "nothing.npz"),
        (["--archive", "x.zip"], "--archive"),
        (["--dataset", "mnist", "--source", "official"], "--source shipped"),
        (["--dataset", "all", "--source", "mine.npz"], "--dataset"),
    ],
)
def test_wrong_requests_exit_with_2(run: Run, arguments: list[str], fact: str) -> None:
    assert fact in sentence(run(*arguments))


def test_wrong_own_images_exit_with_2(run: Run, tmp_path: Path) -> None:
    path = own_file(tmp_path, labels=np.array(["cat", "dog"] * 30))
    assert str(path) in sentence(run("--source", str(path)))


def test_two_processes_at_once_make_one_file(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (10_000, 20, 20), dtype=np.uint8)
    own, folder = own_file(tmp_path, images=images, labels=np.arange(10_000) % 10), tmp_path / "data"
    command = [sys.executable, "-m", "thetarbm_cli", "--data-dir", str(folder), "prepare-data", "--json"]
    running = [
        subprocess.Popen([*command, "--source", str(own)], stdout=subprocess.PIPE, env=os.environ) for _ in range(2)
    ]
    sheets = [json.loads(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(sheet.pop("cached") for sheet in sheets) == [False, True]
    assert sheets[0] == sheets[1]
    stem = Path(sheets[0]["path"]).stem
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") == [
        f"{stem}.json",
        f"{stem}.npz",
        f"{stem}.png",
    ]


def test_arrows_point_counter_clockwise_from_the_right() -> None:
    # Four black images with S = 4: arrows to the right, up, left and down.
    grid = imread(io.BytesIO(preview(np.zeros((4, 28 * 28), np.float32), np.arange(4), 4)))
    assert grid.shape[:2] == (84, 4 * 84 + 3 * 6)
    expected = [(1, 0), (0, -1), (-1, 0), (0, 1)]
    for index, (x, y) in enumerate(expected):
        left = index * 90
        rows, columns = np.nonzero(grid[:, left : left + 84, 0])
        centre = np.array([columns.mean() - 41.5, rows.mean() - 41.5])
        along = centre @ (x, y)
        assert along > 10
        assert np.abs(centre - along * np.array([x, y])).max() < 1
