"""How launches are counted; how many there are is tried on the emulated device, in tests/models/test_device.py."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import launches
from benchmarks.launches import SUBJECTS, Calls, Launches, main, table

ROOT = Path(__file__).parents[2]


def test_what_is_counted_has_its_kind_and_a_limit() -> None:
    calls = Counter({"kernel cupy_add": 4, "gemm sgemm": 2, "memset": 2, "DtoD": 2, "HtoD": 6, "sync": 2, "alloc": 8})
    each = Calls.of(calls, 2, launches=5, copies=3, syncs=1)
    assert (each.launches, each.copies, each.syncs) == (5, 3, 1)
    assert list(each.by_name) == ["DtoD", "HtoD", "gemm sgemm", "kernel cupy_add", "memset"]
    assert each.met
    for limits in ((4, 3, 1), (5, 2, 1), (5, 3, 0)):
        assert not Calls.of(calls, 2, **dict(zip(("launches", "copies", "syncs"), limits, strict=True))).met


def test_without_the_emulated_device_nothing_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launches, "find_device", lambda: None)
    result = CliRunner().invoke(main, ["--out", str(tmp_path)])
    assert (result.exit_code, result.output) == (
        2,
        "error: only the emulated device counts launches: make bench-launches\n",
    )
    assert not list(tmp_path.iterdir())


def test_the_record_has_all_models_within_their_limits() -> None:
    record = Launches.model_validate_json((ROOT / "results" / "bench" / launches.RECORD).read_text(encoding="utf-8"))
    assert [(each.name, each.batch.most_launches) for each in record.models] == [(s.name, s.most) for s in SUBJECTS]
    assert record.met
    assert len(table(record).splitlines()) == len(SUBJECTS) + 3


@pytest.mark.cupy
def test_a_count_is_written_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cupy_device", reason="a real device does not count")
    monkeypatch.setattr(launches, "SUBJECTS", SUBJECTS[:1])
    result: Any = CliRunner().invoke(main, ["--json", "--out", str(tmp_path)])
    assert result.exit_code == 0
    written = json.loads((tmp_path / launches.RECORD).read_text(encoding="utf-8"))
    # Behind it is where it was written.
    assert json.JSONDecoder().raw_decode(result.output)[0] == written
    assert written["machine"]["backend"] == "cupy"
    assert [each["name"] for each in written["models"]] == ["RBM"]
