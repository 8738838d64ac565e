"""Test thetarbm on a GPU, and write what was found into one file that can be sent: ``make test-gpu``.

Three checks, times of epochs, and the tests whose files are named. Every check is carried out whatever became of those
before it. Exits with 0 if all is as it should be, with 1 if something is not, and with 2 where there is no device.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from tests.models.cases import CASES, IMAGES, digest, fitted
from tests.models.cases import images as small_images
from thetarbm_cli import storage
from thetarbm_cli.backend import Backend, cores, few_threads, select_backend
from thetarbm_cli.environment import describe_environment
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.measures.svm import RBFClassifier
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM

ROOT = Path(__file__).resolve().parent.parent
# Of the largest weight: what rounding may change in one update, and what one sampled state may that it turns round.
ROUNDING, FLIPPED = 1e-4, 1e-2
STEPS = 3
# Of the SVM, as in the paper.
C, GAMMA = 10.0, 0.02
# Settings of CuPy and CUDA that numbers and speed may depend on.
VARIABLES = (
    "CUPY_ACCELERATORS", "CUPY_TF32", "CUPY_GPU_MEMORY_LIMIT", "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
)  # fmt: skip
# Processes that share the device.
PROCESSES = 2

Images = NDArray[np.float32]
Numbers = dict[str, Any]

MODELS: dict[str, tuple[type[RBM], dict[str, Any]]] = {
    "RBM": (RBM, {}),
    "theta, tied": (ThetaRBM, {"tensor": "tied"}),
    "theta, full": (ThetaRBM, {"tensor": "full"}),
    "TI-RBM": (TransformInvariantRBM, {}),
}


@dataclass(frozen=True)
class Sizes:
    """How much is computed; `quick` is for a look, and for the emulated device."""

    images: int = 2000
    hidden: int = 500
    side: int = 28
    batches: tuple[int, ...] = (100, 200, 1000)
    epochs: int = 3
    features: int = 200
    learned: int = 1200

    @classmethod
    def quick(cls) -> Sizes:
        """Choose sizes for some seconds, also on the emulated device."""
        return cls(images=60, hidden=10, side=8, batches=(20, 30), epochs=1, features=50, learned=400)

    def make_images(self) -> Images:
        """Make images of any content."""
        return np.random.default_rng(3).random((self.images, self.side**2), dtype=np.float32)

    def make_model(self, name: str, backend: str, **settings: Any) -> tuple[RBM, NDArray[np.int64] | None]:
        """Make a model, and the orientations of its images if it takes any."""
        model, own = MODELS[name]
        made = model(**{**own, "hidden": self.hidden, "backend": backend, **settings})
        return made, np.arange(self.images) % made.rotations if isinstance(made, ThetaRBM) else None


@dataclass(frozen=True)
class Check:
    """What was found: whether it is as it should be, one line for the reader, and the numbers."""

    passed: bool
    summary: str
    numbers: Numbers


# -- checks -----------------------------------------------------------------------------------------------------------


def check_equal_fits(sizes: Sizes) -> Check:
    """Fit everything twice: both fits must have the same bits, whose digest tells other GPUs' from these."""

    def small(case: str) -> list[str]:
        return [digest(fitted(case, "cupy")) for _ in range(2)]

    def large(name: str) -> list[str]:
        model, given = sizes.make_model(name, "cupy", epochs=2)
        return [digest_weights(model.fit(sizes.make_images(), orientations=given)) for _ in range(2)]

    def judged(fit_twice: Callable[[str], list[str]], name: str) -> Numbers:
        first, second = fit_twice(name)
        return {"passed": first == second, "digests": [first, second]}

    jobs = {case: partial(judged, small, case) for case in CASES}
    jobs |= {f"{name}, {sizes.hidden} hidden": partial(judged, large, name) for name in MODELS}
    found = each_of(jobs)
    equal = sum(each["passed"] for each in found.values())
    return Check(equal == len(found), f"{equal} of {len(found)} models have the same bits in both", found)


def digest_weights(model: RBM) -> str:
    """Give one word for all bits of what a model learned."""
    found = hashlib.sha256()
    for name, values in model.to_arrays().items():
        found.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def check_steps(sizes: Sizes) -> Check:
    """Take single updates on both from the same state, with the same random numbers, and compare what they give."""
    large = sizes.make_images()[: max(sizes.batches)]

    def judged(pair: list[RBM], images: Images, given: NDArray[np.int64] | None, limit: float) -> Numbers:
        difference = compare_steps(pair, images, given)
        return {"passed": difference <= limit, "difference": difference if math.isfinite(difference) else None}

    jobs: dict[str, Callable[[], Numbers]] = {}
    for case, (model, settings) in CASES.items():
        pair = [model(**{**settings, "batch_size": IMAGES, "backend": backend}) for backend in ("numpy", "cupy")]
        jobs[case] = partial(judged, pair, small_images(), None, ROUNDING)
    for name in MODELS:
        (host, given), (device, _) = (
            sizes.make_model(name, backend, batch_size=len(large)) for backend in ("numpy", "cupy")
        )
        orientations = None if given is None else given[: len(large)]
        # Of so many states that are drawn, rounding may turn one round.
        jobs[f"{name}, {sizes.hidden} hidden"] = partial(judged, [host, device], large, orientations, FLIPPED)
    found = each_of(jobs)
    near = sum(each["passed"] for each in found.values())
    worst = max((each.get("difference") or 0.0 for name, each in found.items() if name in CASES), default=0.0)
    summary = f"{near} of {len(found)} models near enough; worst of the small ones {worst:.0e} of a weight"
    return Check(near == len(found), summary, found)


def compare_steps(pair: list[RBM], images: Images, given: NDArray[np.int64] | None) -> float:
    """Take single steps, each from the first's state; give the largest difference of a parameter by the largest weight.

    Each step is an epoch of one batch.
    """
    first, second = (model.trainer(images, orientations=given) for model in pair)
    state, other, worst = first.start(), second.start(), 0.0
    for _ in range(STEPS):
        other.restore(state.to_host(first.model.backend), second.model.backend)
        first.run(state, state.epoch + 1)
        second.run(other, state.epoch)
        expected, actual = (
            each.to_host(trainer.model.backend).parameters for each, trainer in ((state, first), (other, second))
        )
        largest = float(np.abs(expected["weights"]).max())
        gaps = [float(np.abs(actual[name] - expected[name]).max()) / largest for name in expected]
        # What is no number is no small difference.
        worst = max(worst, *(gap if math.isfinite(gap) else math.inf for gap in gaps))
    return worst


def check_svm(sizes: Sizes) -> Check:
    """Train the SVM with its products on the device, and scikit-learn's, on the same features of digits."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (pixels[order] / 16).astype(np.float32), labels[order]
    features = (
        RBM(sizes.features, epochs=10, batch_size=20, backend="cupy").fit(images[: sizes.learned]).transform(images)
    )
    learned, tested = features[: sizes.learned], features[sizes.learned :]
    ours, theirs = RBFClassifier(C, GAMMA, backend=select_backend("cupy")), SVC(C=C, gamma=GAMMA)
    began = time.perf_counter()
    given = ours.fit(learned, labels[: sizes.learned]).predict(tested)
    between = time.perf_counter()
    expected = theirs.fit(learned.astype(np.float64), labels[: sizes.learned]).predict(tested.astype(np.float64))
    ended = time.perf_counter()
    others, vectors, of_theirs = int((given != expected).sum()), len(ours.support_), len(theirs.support_)
    numbers = {
        "images": len(tested),
        "other_predictions": others,
        "right_percent": round(100 * float((given == labels[sizes.learned :]).mean()), 2),
        "support_vectors": vectors,
        "support_vectors_of_scikit_learn": of_theirs,
        "seconds": between - began,
        "seconds_of_scikit_learn": ended - between,
    }
    summary = f"{others} of {len(tested)} predictions differ; {vectors} support vectors, {of_theirs} there"
    return Check(others == 0 and vectors == of_theirs, summary, numbers)


CHECKS: dict[str, tuple[str, Callable[[Sizes], Check]]] = {
    "equal_fits": ("two fits of a seed", check_equal_fits),
    "steps": ("single updates beside NumPy's", check_steps),
    "svm": ("the SVM beside scikit-learn's", check_svm),
}


def each_of(jobs: Mapping[str, Callable[[], Numbers]]) -> dict[str, Numbers]:
    """Do all jobs; one that ends in an exception did not pass, and the others are done all the same."""
    found = {}
    for name, job in jobs.items():
        try:
            found[name] = job()
        except Exception as error:  # noqa: BLE001  whatever a device does is to be in the report
            found[name] = {"passed": False, **described(error)}
    return found


def carry_out(check: Callable[[Sizes], Check], sizes: Sizes) -> Check:
    """Carry out a check; one that ends in an exception has failed, and says with which."""
    try:
        return check(sizes)
    except Exception as error:  # noqa: BLE001  as above
        return Check(False, described(error)["error"], described(error))


def described(error: Exception) -> Numbers:
    """Tell what an exception says, and where it was raised."""
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(traceback.format_exception(error))}


# -- times ------------------------------------------------------------------------------------------------------------


def time_epochs(sizes: Sizes) -> Iterator[Numbers]:
    """Time an epoch of every model at every batch size on the device and on NumPy."""
    for name in MODELS:
        for batch in sizes.batches:
            line: Numbers = {"model": name, "batch": batch, "images": sizes.images, "hidden": sizes.hidden}
            try:
                device, host = (time_epoch(sizes, name, batch, backend) for backend in ("cupy", "numpy"))
                line |= {"seconds": device, "numpy_seconds": host, "speedup": host / device}
            except Exception as error:  # noqa: BLE001  too little memory, say
                line |= described(error)
            yield line


def time_epoch(sizes: Sizes, name: str, batch: int, backend: str) -> float:
    """Time an epoch, the median of some after a first one; it ends with a copy to the host, which waits for all."""
    model, given = sizes.make_model(name, backend, batch_size=batch)
    trainer = model.trainer(sizes.make_images(), orientations=given)
    state, seconds = trainer.start(), []
    with few_threads(batch, sizes.hidden):
        for epoch in range(1, sizes.epochs + 2):
            began = time.perf_counter()
            trainer.run(state, epoch)
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


# -- tests ------------------------------------------------------------------------------------------------------------


def run_tests(paths: tuple[str, ...]) -> Numbers:
    """Run the tests of these files on the device; give how many passed, and which did not."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(PROCESSES), "--dist", "loadfile", "--tb=line", "-rN"]
        command += ["-m", "not slow and not latex and not browser", f"--junit-xml={result}", *paths]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, "THETARBM_BACKEND": "cupy"}, check=False).returncode
        if not result.exists():
            return {"exit_code": code, "passed": 0, "skipped": 0, "failed": 0, "names_of_failed": []}
        return {"exit_code": code, **read_tests(result)}


def read_tests(result: Path) -> Numbers:
    """Read what pytest wrote: numbers, names of what failed with the last lines of why, reasons of what was skipped."""
    failed: dict[str, str] = {}
    reasons: dict[str, int] = {}
    skipped, passed = 0, 0
    for case in ElementTree.parse(result).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        wrong = [each for each in case if each.tag in ("failure", "error")]
        left = case.find("skipped")
        if wrong:
            failed[name] = "\n".join((wrong[0].text or wrong[0].get("message") or "").strip().splitlines()[-15:])
        elif left is not None:
            skipped += 1
            reason = left.get("message") or ""
            reasons[reason] = reasons.get(reason, 0) + 1
        else:
            passed += 1
    return {
        "passed": passed,
        "skipped": skipped,
        "failed": len(failed),
        "names_of_failed": sorted(failed),
        "ends_of_failed": failed,
        "reasons_of_skipped": reasons,
    }


# -- report -----------------------------------------------------------------------------------------------------------


def describe_device(device: Backend) -> Numbers:
    """Describe where this runs, as records do, and what the device has."""
    free, total = device.xp.cuda.runtime.memGetInfo()
    return {
        **describe_environment(device),
        "gpu_megabytes": total // 2**20,
        "gpu_megabytes_free": free // 2**20,
        "nvidia_driver": ask_driver(),
        # CuPy's own libraries for sums: 1 is CUB.
        "accelerators": list(device.xp._core.get_reduction_accelerators()),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "cores": cores(),
        "emulated": find_spec("cupy_device") is not None,
    }


def ask_driver() -> str | None:
    """Give the name and the version of the driver of each GPU, as nvidia-smi tells them."""
    try:
        return subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def make_report(device: Backend, sizes: Sizes, paths: tuple[str, ...], out: Path, say: Callable[[str], None]) -> bool:
    """Carry out everything, say a line about each thing and write it as soon as it is known; tell if all is well."""
    machine = describe_device(device)
    report: Numbers = {
        "format": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": False,
        "passed": False,
        "machine": machine,
        "sizes": vars(sizes),
        "checks": {},
        "times": [],
        "gpu_megabytes_taken": 0,
        "tests": None,
    }

    def save() -> None:
        storage.write_text(out, json.dumps(report, indent=1, ensure_ascii=False) + "\n")

    save()
    for line in machine_lines(machine):
        say(line)
    say("")
    for name, (title, check) in CHECKS.items():
        found = carry_out(check, sizes)
        report["checks"][name] = vars(found)
        save()
        say(f"{'ok' if found.passed else 'FAILED':<8}{title}\n        {found.summary}")
    say(f"\n{f'an epoch of {sizes.images:,} images':<24}{'batch':>7}{'GPU':>12}{'NumPy':>12}{'speed':>10}")
    for times in time_epochs(sizes):
        report["times"].append(times)
        save()
        say(timing_line(times))
    report["gpu_megabytes_taken"] = device.xp.get_default_memory_pool().total_bytes() // 2**20
    if paths:
        say(f"\nTests on the device, {PROCESSES} at a time: some minutes.")
        report["tests"] = run_tests(paths)
        say(outcome_lines(report["tests"]))
    report |= {"complete": True, "passed": all_well(report)}
    save()
    return bool(report["passed"])


def machine_lines(machine: Numbers) -> list[str]:
    """Say in a few lines where this runs."""
    cuda, git = machine["cuda"], machine["git"]
    return [
        f"{machine['gpu']}, capability {cuda['capability']}, {machine['gpu_megabytes']:,} MB",
        f"CUDA {cuda['runtime']}, driver for {cuda['driver']}, CuPy {cuda['cupy']}{', TF32' if cuda['tf32'] else ''}",
        f"{machine['processor']}, {machine['cores']} cores, NumPy {machine['libraries']['numpy']}",
        f"thetarbm {machine['version']}{', revision ' + git['revision'][:12] if git else ''}",
        *(["The device is emulated: its times say nothing."] if machine["emulated"] else []),
    ]


def timing_line(line: Numbers) -> str:
    """Format the times of a model at a batch size."""
    start = f"{line['model']:<24}{line['batch']:>7}"
    if "error" in line:
        return f"{start}  {line['error']}"
    return f"{start}{line['seconds']:>10.4f} s{line['numpy_seconds']:>10.4f} s{line['speedup']:>8.1f} ×"


def outcome_lines(tests: Numbers) -> str:
    """Format the outcome of the tests, with the names of those that failed."""
    ended = "" if tests["exit_code"] in (0, 1) else f" (pytest ended with {tests['exit_code']})"
    line = f"{tests['passed']} tests passed, {tests['failed']} failed, {tests['skipped']} skipped{ended}"
    return "\n".join([line, *(f"  failed: {name}" for name in tests["names_of_failed"])])


def all_well(report: Numbers) -> bool:
    """Say whether all checks and tests passed, and everything could be timed."""
    checks = all(each["passed"] for each in report["checks"].values())
    times = not any("error" in line for line in report["times"])
    return checks and times and (report["tests"] is None or report["tests"]["exit_code"] == 0)


def shortened(text: str, width: int = 79) -> str:
    """Cut lines that are too long for a terminal; the file has them in full."""
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in text.split("\n"))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1)
@click.option("--quick", is_flag=True, help="Small sizes: a look, and enough for the emulated device.")
@click.option("--without-tests", is_flag=True, help="Leave the tests out.")
@click.option("--images", type=click.IntRange(min=1), help="Images of an epoch that is timed [default: 2000].")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("gpu-report.json"), show_default=True,
    help="The file to write.",
)  # fmt: skip
def main(paths: tuple[str, ...], quick: bool, without_tests: bool, images: int | None, out: Path) -> None:
    """Check and time thetarbm on a GPU, run the tests of PATHS there, and write one file to send.

    It stops at once where no device answers. Exit code 0 means that all checks and tests passed.
    """
    sizes = Sizes.quick() if quick else Sizes()
    try:
        device = select_backend("cupy")
        passed = make_report(
            device,
            sizes if images is None else replace(sizes, images=images),
            () if without_tests else paths,
            out,
            lambda lines: click.echo(shortened(lines)),
        )
    except ThetaRBMError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    click.echo(f"\n{'All is well.' if passed else 'Not all is well.'}")
    click.echo(f"Everything is in {out}: please open an issue with this file.")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
