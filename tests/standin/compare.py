"""Compare the stand-in with an installed CuPy: ``python -m tests.standin.compare``. It needs no device.

Every name of the stand-in must be in CuPy, and every argument of it among CuPy's arguments.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from tests.standin.functions import Ufunc
from tests.standin.modules import modules

# Their signatures in CuPy are *args and **kwargs; the arguments are in the documentation.
UNSIGNED = ("cupy.einsum", "cupy.matmul")
# Of the stand-in itself.
OWN = ("cupy.ndarray.host",)


def arguments(function: Any) -> set[str]:
    """Names of a function's arguments, from its signature or, in compiled code, from its documentation."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        first_line = (function.__doc__ or "").strip().partition("\n")[0]
        inside = first_line.partition("(")[2].rpartition(")")[0]
        return {re.split(r"[=:]", part)[0].strip(" *").split(" ")[-1] for part in inside.split(",")}


def pairs(label: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """A name of the stand-in and CuPy's thing of that name, and so on into modules and classes."""
    yield label, ours, theirs
    if inspect.ismodule(ours) or inspect.isclass(ours):
        for key, part in vars(ours).items():
            inner = f"{label}.{key}"
            if not key.startswith("_") and not inspect.ismodule(part) and inner not in OWN:
                yield from pairs(inner, part, getattr(theirs, key, None))


def differences() -> Iterator[str]:
    """What the stand-in has and CuPy has not."""
    for name, module in modules().items():
        for label, ours, theirs in pairs(name, module, importlib.import_module(name)):
            if theirs is None:
                yield f"{label} is not in CuPy"
            elif isinstance(ours, Ufunc):
                if type(theirs).__name__ != "ufunc":
                    yield f"{label} is no elementwise function in CuPy"
            elif inspect.isfunction(ours) and label not in UNSIGNED:
                extra = arguments(ours) - arguments(theirs)
                if extra:
                    yield f"{label} has no {', '.join(sorted(extra))} in CuPy"


def main() -> int:
    """Print what differs; the exit code says whether something does."""
    found = list(differences())
    print("\n".join(found) or "every name and argument of the stand-in is in CuPy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
