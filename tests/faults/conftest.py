from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.faults.scenes import SUITE


@pytest.fixture
def start(small_data: Path, tmp_path: Path) -> Path:
    """A folder in which nothing has been done yet: data, a suite of two runs, and a user's file of images."""
    folder = tmp_path / "start"
    shutil.copytree(small_data, folder / "data")
    (folder / "suite.yaml").write_text(SUITE.replace("[0.3, 0.1]", "[0.3]"), encoding="utf-8")
    images = np.random.default_rng(0).random((102, 5, 5), np.float32)
    np.savez(folder / "own.npz", images=images, labels=np.arange(102) % 3)
    return folder
