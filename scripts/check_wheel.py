"""Check that the package works where only its wheel is: build it, install it elsewhere, and use it.

The wheel, the new environment, the prepared data and the folder in which the commands run are temporary and
outside the checkout, which is left as it was. Needs a package index; ``make test-wheel`` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MNIST = "thetarbm_cli/data/shipped/mnist.idx.xz"
SUITE = "thetarbm_cli/experiments.yaml"
PACKED = "thetarbm_cli/packed/"
SPLITS = {"train": 10_000, "valid": 2_000, "test": 50_000}
# What would lead the installed program back to the checkout, or to data that is there already.
FOREIGN = ("THETARBM_", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    """Run a command in `folder`; give its stdout, or end with all that it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds: bool, what: str) -> None:
    """Print a finding, or end with it if it does not hold."""
    if not holds:
        sys.exit(f"failed: {what}")
    print(f"ok: {what}", flush=True)


def check_contents(wheel: Path) -> None:
    """MNIST and both licence texts are in the wheel; tests are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        shipped = archive.read(MNIST) if MNIST in names else b""
    expect(shipped == (CHECKOUT / MNIST).read_bytes(), f"MNIST is inside, {len(shipped)} bytes")
    expect(names.count(SUITE) == 1, "the suite is inside, once")
    expect(any(name.startswith(PACKED) for name in names), "packed records are inside")
    for text in ("LICENSE", "NOTICE"):
        expect(any(name.endswith(f".dist-info/licenses/{text}") for name in names), f"{text} is inside")
    expect(not any(name.startswith("tests/") for name in names), "tests are not")


def check(room: Path) -> None:
    """Do all steps in the empty folder `room`."""
    wheels, environment, elsewhere = room / "wheels", room / "environment", room / "elsewhere"
    elsewhere.mkdir()
    venv.create(environment, with_pip=True)
    binaries = environment / "bin"
    python, thetarbm = binaries / "python", binaries / "thetarbm"
    run(python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, CHECKOUT, folder=room)
    (wheel,) = wheels.iterdir()
    expect(wheel.name.endswith("-py3-none-any.whl"), f"built {wheel.name}")
    check_contents(wheel)

    run(python, "-m", "pip", "install", wheel, folder=room)
    place = run(python, "-c", "import thetarbm_cli; print(thetarbm_cli.__file__)", folder=elsewhere)
    expect(Path(place.strip()).is_relative_to(environment), "installed into a new environment")

    expect("prepare-data" in run(thetarbm, "--help", folder=elsewhere), "thetarbm --help")
    info = json.loads(run(thetarbm, "info", "--json", folder=elsewhere))
    expect(info["version"] in wheel.name, f"thetarbm info --json: version {info['version']}")
    sheet = json.loads(run(thetarbm, "prepare-data", "--json", folder=elsewhere, THETARBM_DATA_DIR=str(room / "data")))
    expect(sheet["splits"] == SPLITS, f"thetarbm prepare-data --json: splits {sheet['splits']}")
    tables = json.loads(run(thetarbm, "tables", "--json", folder=elsewhere))["tables"]
    published = [row["published"] for row in tables["1"]]
    expect(10.85 in published, "thetarbm tables --json: the published numbers of the suite")
    empty = [line["cell"] for name in ("1", "2", "3") for line in tables[name] if line["mean"] is None]
    expect(not empty, "thetarbm tables --json: the recorded numbers of the paper's tables, in any folder")
    runs = json.loads(run(thetarbm, "list", "--json", folder=elsewhere))["runs"]
    expect(len(runs) > 100, f"thetarbm list --json: {len(runs)} records")
    page = room / "report.html"
    told = json.loads(run(thetarbm, "report", "--json", "--out", page, folder=elsewhere))
    expect(page.stat().st_size == told["bytes"], "thetarbm report --json: a page from the templates inside")
    expect(not list(elsewhere.iterdir()), "nothing is left in the folder of the calls")


def main() -> None:
    """Check in a temporary folder, which is removed whatever happens."""
    with tempfile.TemporaryDirectory(prefix="thetarbm-wheel-") as room:
        check(Path(room).resolve())
    print("the wheel works")


if __name__ == "__main__":
    main()
