"""Theta-RBM, reproduced: models, data, measures and a command line for one paper.

The models are scikit-learn estimators; ``load_images`` gives a data set, ``load_run`` a recorded run as a fitted
estimator, ``load_records`` all results as one pandas DataFrame. This module imports nothing by itself, so that
``thetarbm --help`` is fast.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thetarbm_cli.data.prepare import load_images
    from thetarbm_cli.models import RBM, OrientedRBM, ThetaRBM, TransformInvariantRBM
    from thetarbm_cli.pipeline import load_run
    from thetarbm_cli.results import load_records

__all__ = [
    "RBM",
    "OrientedRBM",
    "ThetaRBM",
    "TransformInvariantRBM",
    "__version__",
    "load_images",
    "load_records",
    "load_run",
]
__version__ = "0.1.0"

# Where each name lives that is imported when it is first asked for.
_LAZY = {
    "load_images": "thetarbm_cli.data.prepare",
    "load_records": "thetarbm_cli.results",
    "load_run": "thetarbm_cli.pipeline",
    **dict.fromkeys(("RBM", "OrientedRBM", "ThetaRBM", "TransformInvariantRBM"), "thetarbm_cli.models"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
