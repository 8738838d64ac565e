"""Where a run is made: processor, GPU, libraries, revision; and how much memory it will take and has taken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import thetarbm_cli
from thetarbm_cli.backend import Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import EnvironmentPart

LIBRARIES = ("numpy", "scipy", "scikit-learn", "scikit-image")


def describe_environment(backend: Backend) -> EnvironmentPart:
    """What a reader needs to judge or repeat a run's numbers and times."""
    return EnvironmentPart.model_validate(
        {
            "version": thetarbm_cli.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "processor": _processor(),
            "backend": backend.name,
            "gpu": _gpu(backend),
            "blas": _blas(),
            "libraries": {name: metadata.version(name) for name in LIBRARIES},
            "git": _revision(),
        }
    )


def peak_memory_megabytes() -> float:
    """Measure the largest resident size of this process so far."""
    if sys.platform == "win32":
        import psutil

        return round(psutil.Process().memory_info().peak_wset / 2**20, 1)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu(backend: Backend) -> str | None:
    if backend.name != "cupy":
        return None
    runtime = backend.xp.cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice())["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def _blas() -> list[dict[str, Any]]:
    from threadpoolctl import threadpool_info

    return [
        {"library": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]


def _revision() -> dict[str, Any] | None:
    """Revision of the checkout that this package runs from; None where it is not in one."""
    folder = Path(thetarbm_cli.__file__).parent
    if not (folder.parent / ".git").exists():
        return None
    try:
        revision = _git(folder, "rev-parse", "HEAD")
        # Results are written into the checkout while it runs: only a change of the code makes it dirty.
        dirty = bool(_git(folder, "status", "--porcelain", "--untracked-files=no", "--", str(folder)))
    except (OSError, subprocess.SubprocessError):
        return None
    return {"revision": revision, "dirty": dirty}


def _git(folder: Path, *arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return result.stdout.strip()


FLOAT_BYTES = 4
# What a container may use; it has the word "max" where there is no limit, and is not there on other systems.
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def svm_bytes(images: int, units: int) -> int:
    """About how much an SVM on features of so many images takes: them, and one side of its products in float64."""
    return images * units * (2 * FLOAT_BYTES + 2 * FLOAT_BYTES)


def machine_bytes() -> int:
    """Memory of this machine, or of the container that it seems to be."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.virtual_memory().total)
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(physical, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return physical


def refuse_too_large(needed: int, what: str, advice: str) -> None:
    """Refuse what needs more memory than there is."""
    there = machine_bytes()
    if needed > there:
        raise InputError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory, and this machine has {there / 1e9:,.1f} GB: {advice}"
        )
