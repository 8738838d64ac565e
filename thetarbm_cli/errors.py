"""The errors a user may meet: one sentence each, with the exit code that goes with it."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_RUNS_MISSING = 3
EXIT_INTERRUPTED = 130


class ThetaRBMError(Exception):
    """Something failed; the message says what, where and what to do (exit code 1)."""

    exit_code = EXIT_FAILED


class InputError(ThetaRBMError, ValueError):
    """What the user gave is wrong: an option, a file, a setting (exit code 2)."""

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
