"""The errors a user may meet: one sentence each, with the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Iterable

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_RUNS_MISSING = 3
EXIT_INTERRUPTED = 130


class ThetaRBMError(Exception):
    """Something failed; the message says what, where and what to do (exit code 1)."""

    exit_code = EXIT_FAILED


class InputError(ThetaRBMError, ValueError):
    """What the user gave is wrong: an option, a file, a setting (exit code 2).

    Who takes such a thing checks it and raises this; docstrings do not repeat it.
    """

    exit_code = EXIT_USAGE


class StorageError(ThetaRBMError):
    """A file cannot be written or locked, as on a full disk: no fault of the run that needed it."""


class ReadOnlyError(StorageError):
    """A file cannot be written because its folder can only be read."""


def format_error(error: BaseException) -> str:
    """Describe any error in one line, as a record or a report has it: our own as they are, others with their kind."""
    if isinstance(error, ThetaRBMError):
        return str(error)
    kind = "out of memory" if isinstance(error, MemoryError) else type(error).__name__
    detail = " ".join(str(error).split())
    return f"{kind}: {detail}" if detail else kind


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "choose one of {}") -> str:
    """Name what is nearest to a wrong name, or else say what there is."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else otherwise.format(", ".join(names))
