"""The modules of the stand-in, put in the place of CuPy's."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.standin import functions, libraries
from tests.standin.array import LEDGER, Ledger, ndarray
from thetarbm_cli.backend import CupyBackend, RandomStream

# CuPy has NumPy's types under its own name.
TYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64, "generic": np.generic}


def _module(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = []
    for key, value in contents.items():
        setattr(module, key, value)
    return module


def modules() -> dict[str, ModuleType]:
    """CuPy's modules by name, on a machine with one device."""
    runtime = _module(
        "cupy.cuda.runtime",
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda device: {"name": b"stand-in"},
    )
    random = _module("cupy.random", Generator=libraries.Generator, Philox4x3210=libraries.Philox4x3210)
    cublas = _module("cupy.cublas", gemm=libraries.gemm)
    cuda = _module("cupy.cuda", runtime=runtime)
    cupy = _module(
        "cupy",
        __version__="0 (stand-in)",
        ndarray=ndarray,
        random=random,
        cublas=cublas,
        cuda=cuda,
        **{name: getattr(functions, name) for name in functions.__all__},
        **TYPES,
    )
    sparse = _module("cupyx.scipy.sparse", csr_matrix=libraries.csr_matrix)
    scipy = _module("cupyx.scipy", sparse=sparse)
    cupyx = _module("cupyx", scipy=scipy)
    everything = (cupy, random, cublas, cuda, runtime, cupyx, scipy, sparse)
    return {module.__name__: module for module in everything}


# The method of the real backend, whatever has been put in its place since.
random_of_backend = CupyBackend.random


def random_of_numpy(backend: CupyBackend, seed: np.random.SeedSequence) -> RandomStream:
    """The backend's stream, on the numbers that the NumPy backend draws: its PCG64 has the whole seed."""
    stream: Any = random_of_backend(backend, seed)
    stream._generator = libraries.Generator(libraries.Philox4x3210(seed))
    return stream  # type: ignore[no-any-return]


def install(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Let ``import cupy`` find the stand-in for the time of a test; returns the cleared counts of copies."""
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(CupyBackend, "random", random_of_numpy)
    LEDGER.clear()
    return LEDGER
