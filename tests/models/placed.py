"""Parameters on the device that `select_backend` takes: NumPy's main memory, or the stand-in's."""

from typing import Any

from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend


def placed(backend: Backend, parameters: dict[str, NDArray[Any]]) -> dict[str, Array]:
    return {name: backend.asarray(value) for name, value in parameters.items()}
