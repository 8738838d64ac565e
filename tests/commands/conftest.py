import shutil
from pathlib import Path

import pytest

from tests.experiments.runs import evaluated, small_data, thetarbm, trained

__all__ = ["evaluated", "small_data", "thetarbm", "trained"]


@pytest.fixture
def results(evaluated: Path, tmp_path: Path) -> Path:
    """A copy of the measured runs, where the command looks for them."""
    return Path(shutil.copytree(evaluated, tmp_path / "results"))
