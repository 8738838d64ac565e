from __future__ import annotations

import os
import shlex
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, blocks
from tests.runs import call, finish, spawn
from thetarbm_cli.registry import MODELS
from thetarbm_cli.store import Store


@pytest.fixture
def folder(small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder but for prepared data, in which modules and plug-ins are found."""
    shutil.copytree(small_data, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(tmp_path))
    vars(MODELS).pop("_plugins", None)
    yield tmp_path
    vars(MODELS).pop("_plugins", None)


def install(folder: Path) -> None:
    """Leave what pip leaves of the project in a folder: metadata with its entry points."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in points.items())
        for group, points in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def test_the_examples_run_block_by_block(folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "example"}
    printed = []
    for language, text in blocks(DOCS / "extending.md"):
        first = text.splitlines()[0]
        if first.startswith("# ") and language != "sh":
            # The first line of a file says what it is called.
            (folder / first.removeprefix("# ")).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "extending.md", "exec"), namespace)
        else:
            assert language == "sh"
            for line in text.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                if (program, *arguments) == ("pip", "install", "."):
                    install(folder)
                    continue
                assert program == "thetarbm"
                if "averaged" in arguments:
                    outcome = finish(spawn(Path("data"), Path("results"), *arguments))
                else:
                    outcome = call(Path("data"), Path("results"), *arguments)
                assert outcome.code == 0, outcome.err
                printed.append(outcome.out)
    # Each example left what it says: a plug-in's run, some of the package's models, and a suite on the user's images.
    store = Store(folder / "results")
    models = Counter(run.rpartition("-")[0] for run in store.identifiers())
    assert models == {"averaged": 1, "rbm": 1 + 4, "theta": 1 + 4, "pixels": 1, "aligned-pixels": 1}
    gammas = {each.spec.model: each.values["gamma_test"] for each in store.trainings() if each.spec.data.train == 300}
    assert gammas["averaged"] > gammas["rbm"]
    assert "Table 1: test error of an RBF-SVM on digits.npz" in printed[-1]
    assert "features.npz: 1797 images × 50 features\n" in printed
