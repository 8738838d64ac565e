"""Where something is made: processor, GPU, libraries, revision; and the time and memory that it takes."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

import thetarbm_cli
from thetarbm_cli.backend import Backend
from thetarbm_cli.data.prepared import PreparedFile

LIBRARIES = ("numpy", "scipy", "scikit-learn", "scikit-image")


def describe_environment(backend: Backend) -> dict[str, Any]:
    """Tell what a reader needs to judge or repeat numbers and times."""
    from threadpoolctl import threadpool_info

    blas = [
        {"library": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {**_fixed(), "backend": backend.name, **_gpu(backend), "blas": blas}


@cache
def _fixed() -> dict[str, Any]:
    """Tell what does not change while a process runs."""
    return {
        "version": thetarbm_cli.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "git": _revision(),
    }


class Costs:
    """Wall time, processor time and peak memory of one piece of work in this process."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        # Linux forgets the peak so far: what a worker made before is not counted to what it makes now.
        self._own_peak = False
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
            self._own_peak = True

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.perf_counter() - self._wall

    @property
    def cpu_seconds(self) -> float:
        """Time of all threads on processors so far."""
        return time.process_time() - self._cpu

    @property
    def peak_megabytes(self) -> float:
        """Largest resident size so far; where the system cannot forget, of the whole process."""
        if self._own_peak:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return round(int(line.split()[1]) / 2**10, 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Linux counts in KiB, macOS in bytes.
        return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpu(backend: Backend) -> dict[str, Any]:
    """Name the GPU, if one computes, with the versions and settings that its numbers depend on."""
    if backend.name != "cupy":
        return {"gpu": None}
    runtime = backend.xp.cuda.runtime
    found = runtime.getDeviceProperties(runtime.getDevice())
    name = found["name"]
    versions = {"runtime": runtime.runtimeGetVersion(), "driver": runtime.driverGetVersion()}
    return {
        "gpu": name.decode() if isinstance(name, bytes) else str(name),
        "cuda": {
            "cupy": backend.xp.__version__,
            **{what: f"{number // 1000}.{number % 1000 // 10}" for what, number in versions.items()},
            "capability": f"{found['major']}.{found['minor']}",
            # Of CuPy's own products: those of the learning loop never use it.
            "tf32": os.environ.get("CUPY_TF32", "0"),
            "accelerators": os.environ.get("CUPY_ACCELERATORS"),
        },
    }


def _revision() -> dict[str, Any] | None:
    """Give the revision of the checkout that this package runs from; None where it is not in one."""
    folder = Path(thetarbm_cli.__file__).parent
    if not os.path.exists(folder.parent / ".git"):
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


class Info(BaseModel):
    """What ``thetarbm info --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    version: str
    backend: str
    backend_reason: str
    """Why this backend was taken."""
    blas: list[dict[str, Any]]
    """BLAS libraries in the process, as threadpoolctl describes them."""
    threads: int
    data_dir: str
    results_dir: str
    prepared: list[PreparedFile]
    versions: dict[str, str | None]
    """Python and libraries; null if one is not installed."""
