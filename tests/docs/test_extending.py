from __future__ import annotations

import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.docs.pages import DOCS, blocks
from tests.experiments.runs import call
from thetarbm_cli.commands.train import command as train_command
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Model
from thetarbm_cli.models import catalogue


@pytest.fixture
def folder(small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder but for prepared data, in which the page's code may add to the catalogue."""
    shutil.copytree(small_data, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "MODELS", dict(catalogue.MODELS))
    return tmp_path


def test_the_examples_run_block_by_block(folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "example"}
    printed = []
    for language, text in blocks(DOCS / "extending.md"):
        if language == "python":
            exec(compile(text, "extending.md", "exec"), namespace)
        elif language == "yaml":
            # The first line of a file says what it is called.
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
        else:
            assert language == "sh"
            for line in text.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "thetarbm"
                outcome = call(Path("data"), Path("results"), *arguments)
                assert outcome.code == 0, outcome.err
                printed.append(outcome.out)
    # Each example left what it says: two runs of the catalogue's models, one on own images, and a suite on them.
    models = Counter(run.rpartition("-")[0] for run in RunStore(folder / "results").identifiers())
    assert models == {"averaged": 1, "rbm": 1 + 4, "theta": 1 + 4, "pixels": 1, "aligned-pixels": 1}
    assert "digits" in printed[0]
    assert "test error" in printed[2]
    assert "Table 1: test error of an RBF-SVM on digits.npz" in printed[-1]
    assert printed[4] == "features.npz: 1797 images × 50 features\n"


def test_a_model_has_its_name_in_all_three_places() -> None:
    (option,) = (parameter for parameter in train_command.params if parameter.name == "model")
    assert list(option.type.choices) == list(catalogue.MODELS) == list(get_args(Model))
