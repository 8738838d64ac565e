"""Training that is ended from outside, in processes of their own, and then goes on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

from tests.experiments.runs import PATIENCE_SECONDS, finish, spawn

# Small batches: an epoch takes long enough to be hit in the middle.
LONG = ("train", "--model", "theta", "--profile", "tiny", "--epochs", "30", "--hidden", "200", "--set", "batch_size=10")


def end_after(process: subprocess.Popen[str], epoch: int, number: signal.Signals) -> str:
    """Send a signal once an epoch is shown; what stderr has said until the process ended."""
    said = ""
    for line in process.stderr:
        said += line
        shown = re.search(r"epoch +(\d+)/30", line)
        if shown and int(shown[1]) >= epoch:
            process.send_signal(number)
            break
    _, rest = process.communicate(timeout=PATIENCE_SECONDS)
    return said + rest


def files_of_the_run(results: Path) -> list[str]:
    (folder,) = (results / "runs").iterdir()
    return sorted(path.name for path in folder.iterdir())


def load_weights(results: Path) -> bytes:
    (path,) = (results / "runs").glob("*/weights.npz")
    return path.read_bytes()


def test_killed_terminated_and_interrupted_run_ends_with_equal_bytes(small_data: Path, tmp_path: Path) -> None:
    whole = spawn(small_data, tmp_path / "whole", *LONG)
    results = tmp_path / "cut"
    resumed_after = [0]
    # Early: two thirds of the epochs are left for a signal that comes late.
    for epoch, number in ((2, signal.SIGKILL), (5, signal.SIGTERM), (8, signal.SIGINT)):
        process = spawn(small_data, results, *LONG)
        said = end_after(process, epoch, number)
        assert process.returncode == (-number if number == signal.SIGKILL else 130)
        if number != signal.SIGKILL:
            assert said.splitlines()[-1] == "interrupted; the same command goes on from here"
            assert not any(name.endswith(".part") for name in files_of_the_run(results))
        assert "Traceback" not in said
        assert "run.json" not in files_of_the_run(results)
        start = re.search(r"resuming \S+ after epoch (\d+)", said)
        resumed_after.append(int(start[1]) if start else 0)
    # Each session went further than the one before.
    assert resumed_after[1] == 0
    assert resumed_after[1:] == sorted(set(resumed_after[1:]))
    last = finish(spawn(small_data, results, *LONG, "--json"))
    assert last.code == 0
    assert json.loads(last.out)["epochs"] == 30
    assert finish(whole).code == 0
    assert load_weights(results) == load_weights(tmp_path / "whole")
    assert files_of_the_run(results) == ["run.json", "run.lock", "weights.npz"]
