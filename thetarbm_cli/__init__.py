"""Theta-RBM, reproduced: models, data, measures and a command line for one paper.

The estimators are in :mod:`thetarbm_cli.models`; ``load_records`` gives all results as one pandas DataFrame. This
module imports nothing by itself, so that ``thetarbm --help`` is fast.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thetarbm_cli.reporting.frame import load_records

__all__ = ["__version__", "load_records"]
__version__ = "0.1.0"

# Where each name lives that is imported when it is first asked for.
_LAZY = {"load_records": "thetarbm_cli.reporting.frame"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
