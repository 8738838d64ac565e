"""A stand-in for CuPy on machines without a GPU: as strict as CuPy about where arrays are and how they lie."""

from types import SimpleNamespace

import numpy as np
import scipy.sparse


class DeviceArray(np.ndarray):
    def __getitem__(self, index):
        refuse_host(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        refuse_host(index)
        refuse_host(value)
        super().__setitem__(index, value)


def refuse_host(value):
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, np.ndarray) and not isinstance(part, DeviceArray):
            raise TypeError("a host array meets a device array")


class DeviceMatrix:
    """A sparse matrix that, as cupyx's, multiplies and returns column-major arrays of its device."""

    def __init__(self, matrix):
        assert isinstance(matrix, scipy.sparse.csr_matrix)
        assert matrix.has_canonical_format
        assert matrix.dtype == np.float32
        self.matrix = matrix

    def __matmul__(self, columns):
        if not isinstance(columns, DeviceArray):
            raise TypeError("a device matrix times a host array")
        assert columns.flags.f_contiguous
        return np.asfortranarray(self.matrix @ columns.view(np.ndarray)).view(DeviceArray)


class StandInDevice:
    name = "stand-in"
    reason = "a test"
    xp = SimpleNamespace(empty=lambda shape, dtype: np.empty(shape, dtype=dtype).view(DeviceArray))

    def asarray(self, array, dtype=None):
        return np.array(array, dtype=dtype).view(DeviceArray)

    def to_host(self, array):
        assert isinstance(array, DeviceArray)
        return np.array(array.view(np.ndarray))

    def sparse(self, matrix):
        return DeviceMatrix(matrix)
