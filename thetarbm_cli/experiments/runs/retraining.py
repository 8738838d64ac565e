"""The command that makes a run again."""

from __future__ import annotations

import json
import shlex

from thetarbm_cli.experiments.runs.store import RunRecord


def retrain_command(record: RunRecord) -> str:
    """The command that makes a run again, under the same id."""
    settings = record.settings
    words = ["thetarbm", "train", "--model", settings.model, "--seed", str(record.seed)]
    data = settings.data.model_dump(exclude_defaults=True)
    for name, option in (("train_on", "--train-on"), ("source", "--source")):
        if name in data:
            words += [option, data.pop(name)]
    perturbation = settings.perturbation.model_dump() if settings.perturbation else {}
    assignments = {
        **{f"data.{name}": value for name, value in data.items()},
        **settings.parameters,
        **{f"perturbation.{name}": value for name, value in perturbation.items()},
        **{f"svm.{name}": value for name, value in settings.svm.model_dump(exclude_defaults=True).items()},
    }
    for name, value in assignments.items():
        words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)
