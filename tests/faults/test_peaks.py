"""The commands at the paper's sizes in less than 3 GB; ``make test-memory`` has all of them as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.peaks import COMMANDS, measure


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_command_stays_below_three_gigabytes(tmp_path: Path) -> None:
    peaks = list(measure(COMMANDS, tmp_path / "all"))
    assert [peak.command for peak in peaks] == list(COMMANDS)
    assert [peak for peak in peaks if not peak.is_fine] == []
