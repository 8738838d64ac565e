"""The examples of the README, as they stand there; percentages may differ by two from one processor to another."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

README = Path(__file__).parents[1] / "README.md"
PERCENT = re.compile(r"(\d+)%")


class Near(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        numbers = [[int(number) for number in PERCENT.findall(text)] for text in (want, got)]
        same = PERCENT.sub("%", want) == PERCENT.sub("%", got)
        return same and all(abs(a - b) <= 2 for a, b in zip(*numbers, strict=True))


def test_the_examples_of_the_readme_run(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THETARBM_DATA_DIR", str(data_dir))
    test = doctest.DocTestParser().get_doctest(README.read_text(encoding="utf-8"), {}, "README", str(README), 0)
    # scikit-learn's RBM makes small products, over which BLAS threads fight on a busy machine.
    with threadpool_limits(1):
        result = doctest.DocTestRunner(Near()).run(test)
    assert result.attempted >= 6
    assert result.failed == 0
