from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import thetarbm_cli
from tests.experiments.suites import record_for, save
from tests.reporting.numbers import CELLS
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import MetricsPart
from thetarbm_cli.outcomes import MEASURES, VARIANTS
from thetarbm_cli.reporting.frame import collect

BY_NAME = {cell.name: cell for cell in CELLS}


def test_a_line_per_run_variant_and_measure(tmp_path: Path) -> None:
    cell = BY_NAME["orbm/sparsity=0.2"]
    save(tmp_path, record_for(cell, 1, test_error_percent=9.0, gamma_test=0.75, test_error_percent_unaligned=21.0))
    frame = thetarbm_cli.load_records(tmp_path)
    lines = frame.set_index(["variant", "measure"])["value"].to_dict()
    assert lines == {
        ("default", "test_error_percent"): 9.0,
        ("default", "gamma_test"): 0.75,
        ("default", "dead_units_test"): 0.0,
        ("not aligned", "test_error_percent"): 21.0,
        ("default", "train_seconds"): 1.0,
        ("default", "peak_memory_megabytes"): 1.0,
    }
    (line,) = frame[frame["measure"] == "gamma_test"].to_dict("records")
    assert (line["model"], line["seed"], line["sparsity"], line["offset"]) == ("orbm", 1, 0.2, 20.0)
    assert (line["dataset"], line["source"], line["sha256"]) == ("mnist-rot", "generated", "a" * 64)
    assert (line["data.protocol"], line["svm.C"], line["cells"]) == ("paper", 10.0, ("orbm/sparsity=0.2@paper",))
    with pytest.raises(InputError, match="none"):
        thetarbm_cli.load_records(tmp_path / "none")
    (tmp_path / "none").mkdir()
    empty = thetarbm_cli.load_records(tmp_path / "none")
    assert empty.empty
    assert {"run", "model", "sparsity", "data.protocol", "variant", "measure", "value"} <= set(empty.columns)


def test_every_number_of_a_record_is_a_declared_measure() -> None:
    score = {"mean": 0.5, "ratio_of_sums": 0.4, "dead_units": 2}
    measured = {
        "svm": {"test_error_percent": 1.0},
        "gamma": {"offset": 20.0, "train": score, "test": score},
        "gamma_offsets": [{"offset": 40.0, "train": score}],
    }
    search = {"C": 1.0, "gamma": 0.1, "validation_error_percent": 2.0, "test_error_percent": 3.0, "grid": []}
    numbers = list(MetricsPart.model_validate({**measured, "grid_search": search, "unaligned": measured}).numbers())
    assert {number.measure for number in numbers} <= set(MEASURES)
    assert {number.variant for number in numbers} == set(VARIANTS)
    assert len(numbers) == len({(number.measure, number.variant) for number in numbers}) == 8 + 3 + 8


def test_mean_and_deviation_over_the_seeds_of_a_cell() -> None:
    cell = BY_NAME["theta/sparsity=0.3"]
    records = [record_for(cell, seed, test_error_percent=error) for seed, error in ((2, 12.0), (0, 10.0), (1, 11.0))]
    (numbers,) = collect(CELLS, records)
    value = numbers.value(cell, "test_error_percent")
    assert (value.values, value.mean, value.deviation) == ((10.0, 11.0, 12.0), 11.0, 1.0)
    assert [record.seed for record in value.runs] == [0, 1, 2]
    assert numbers.value(cell, "gamma_test").mean is None
    # A run that fits several cells has its lines in each.
    assert numbers.frame.groupby("cell")["run"].nunique().gt(1).sum() > 1


def test_importing_the_package_imports_nothing() -> None:
    script = "import sys, thetarbm_cli; print(sorted({'pandas', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'load_record'"):
        thetarbm_cli.load_record  # type: ignore[attr-defined]  # noqa: B018
