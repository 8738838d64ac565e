from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from skimage.io import imread

from tests.data.archives import write_own
from tests.runs import Command, files_in, finish, spawn
from thetarbm_cli.data import prepare
from thetarbm_cli.reporting.figures.images import preview


def test_mnist_rot_is_as_the_paper_describes_it(thetarbm: Command, data_dir: Path) -> None:
    made = thetarbm("prepare-data", "--dataset", "all", "--json", data_dir=data_dir).json["datasets"]
    rotated, upright = made
    assert (upright["dataset"], upright["source"]) == ("mnist", "shipped")
    assert (rotated["dataset"], rotated["source"], rotated["cached"]) == ("mnist-rot", "generated", True)
    assert Path(rotated["path"]).is_relative_to(data_dir)
    assert rotated["splits"] == {"train": 10_000, "valid": 2_000, "test": 50_000}
    # Uniform turns leave no orientation out: each of nine near 1/9.
    np.testing.assert_allclose(rotated["orientations"], 1 / 9, atol=0.01)
    assert Path(rotated["preview"]).is_file()
    text = thetarbm("prepare-data", data_dir=data_dir).out
    assert f"mean {rotated['pixel_mean']:.4f}, std {rotated['pixel_std']:.4f}" in text
    assert re.search(r"^  train +10000 images  0: \d+ ", text, re.MULTILINE)


def test_it_is_described_and_made_once_until_it_is_damaged_or_forced(
    thetarbm: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, data = write_own(tmp_path / "mine.npz", side=10, labels=np.arange(60) % 15), tmp_path / "data"

    def prepared(*options: str) -> dict[str, Any]:
        return thetarbm("prepare-data", "--source", str(own), "--json", *options, data_dir=data).json

    first = thetarbm("prepare-data", "--source", str(own), data_dir=data)
    assert first.code == 0
    assert first.out.startswith(f"mine ({own}, seed 0)\n")
    assert "30 images  15 classes of 2 to 2" in first.out
    # The second time, nothing is computed or written.
    before = files_in(data)
    with monkeypatch.context() as patched:
        patched.setattr(prepare.OrientationEstimator, "__call__", lambda *given: pytest.fail("computed again"))
        sheet = prepared()
    assert sheet["cached"] is True
    assert files_in(data) == before
    picture = Path(sheet["preview"])
    # 30 tiles of 80 pixels in rows of 12, with gaps of 16.
    assert imread(picture).shape[:2] == (3 * 96 - 16, 12 * 96 - 16)
    whole = picture.read_bytes()
    picture.write_bytes(whole[:100])
    assert prepared()["cached"] is True
    assert picture.read_bytes() == whole
    assert prepared("--force") == {**sheet, "cached": False}


def test_two_processes_at_once_make_one_file(tmp_path: Path) -> None:
    own, folder = write_own(tmp_path / "mine.npz", 2_000, side=20), tmp_path / "data"
    running = [spawn(folder, tmp_path, "prepare-data", "--json", "--source", str(own)) for _ in range(2)]
    sheets = [finish(process).json for process in running]
    assert sorted(sheet.pop("cached") for sheet in sheets) == [False, True]
    assert sheets[0] == sheets[1]
    stem = Path(sheets[0]["path"]).stem
    names = sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")
    assert names == [f"{stem}.json", f"{stem}.npz", f"{stem}.png"]


def test_arrows_of_the_preview_point_counter_clockwise_from_the_right() -> None:
    # Four black images with S = 4: arrows to the right, up, left and down.
    grid = imread(io.BytesIO(preview(np.zeros((4, 28 * 28), np.float32), np.arange(4), 4)))
    assert grid.shape[:2] == (84, 4 * 84 + 3 * 6)
    for index, (x, y) in enumerate([(1, 0), (0, -1), (-1, 0), (0, 1)]):
        rows, columns = np.nonzero(grid[:, 90 * index : 90 * index + 84, 0])
        centre = np.array([columns.mean() - 41.5, rows.mean() - 41.5])
        along = centre @ (x, y)
        assert along > 10
        assert np.abs(centre - along * np.array([x, y])).max() < 1
