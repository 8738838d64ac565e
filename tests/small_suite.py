"""A small suite for tests."""

from __future__ import annotations

from pathlib import Path

# Two models over two targets, one more experiment that shares a training with the first, and one that is like it.
SMALL = """\
format: 2
title: small
assumptions:
  - name: floor
    reading: No floor.
    why: As the paper words it.
    choices:
      floor:
        options:
          none: {taken: true, set: {floor: 0.0}, why: The z-score.}
          tenth: {set: {floor: 0.1}, why: Borders are noise.}
profiles:
  paper: {seeds: 2}
  tiny: {set: {hidden: 20}}
multiverse:
  designs:
    all: {cells: ["rbm/*", theta], choices: [floor]}
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
  - name: other
    like: again
    set: {epochs: 2}
"""


def write_suite(folder: Path, text: str = SMALL) -> Path:
    """Write a suite into a folder."""
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return path
