"""Small suites that run."""

from __future__ import annotations

from pathlib import Path

# Two models over two targets, and one more experiment that shares a training with the first.
SMALL = """\
format: 2
title: small
profiles:
  paper: {seeds: 2}
  tiny:
    seeds: 1
    set: {hidden: 20, epochs: 3, data.train: 300, data.test: 300}
experiments:
  - name: rbm
    label: RBM
    model: rbm
    grid: {sparsity: [0.3, 0.1]}
    tables: ["1", "2"]
    published:
      - {at: {sparsity: 0.3}, test_error_percent: 15.41, gamma_train: 0.1746, gamma_test: 0.1775}
  - name: theta
    label: θ-RBM
    model: theta
    grid: {sparsity: [0.3, 0.1]}
    measures: [error]
    tables: ["1"]
  - name: again
    label: the same
    model: rbm
    set: {sparsity: 0.3}
    measures: [error]
"""

# The middle one of three diverges.
FAILING = """\
format: 2
title: failing
profiles:
  tiny:
    set: {hidden: 10, epochs: 2, data.train: 300, data.test: 300}
experiments:
  - {name: first, label: first, model: rbm, measures: [error]}
  - {name: second, label: second, model: rbm, measures: [error], set: {learning_rate: 1000000.0}}
  - {name: third, label: third, model: rbm, measures: [error], set: {momentum: 0.5}}
"""


def write_suite(folder: Path, text: str = SMALL) -> Path:
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return path
