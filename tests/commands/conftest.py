import shutil
from pathlib import Path

import pytest


@pytest.fixture
def results(evaluated: Path, tmp_path: Path) -> Path:
    """A copy of the measured runs, where the command looks for them."""
    return Path(shutil.copytree(evaluated, tmp_path / "results"))
