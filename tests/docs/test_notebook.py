"""The notebook's cells, run in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from tests.docs.pages import DOCS


def test_the_notebook_runs_and_its_numbers_are_those_it_shows(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THETARBM_DATA_DIR", str(data_dir))
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    plt.switch_backend("Agg")
    notebook = json.loads((DOCS / "gamma.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    shown = json.dumps(notebook["cells"], ensure_ascii=False)
    means = {name: score.mean for name, score in names["scores"].items()}
    assert means["θ-RBM"] > 0.8
    assert means["RBM"] < 0.4
    # The last digit depends on the processor.
    for mean in means.values():
        assert any(f"{mean + step:.2f}" in shown for step in (-0.01, 0, 0.01))
