"""A backend whose arrays refuse to meet plain NumPy arrays, as CuPy's do, for machines without a GPU."""

from types import SimpleNamespace

import numpy as np


def _refuse_host_arrays(values):
    for value in values:
        if isinstance(value, tuple | list):
            _refuse_host_arrays(value)
        elif isinstance(value, np.ndarray) and not isinstance(value, DeviceArray):
            raise TypeError("a host array meets a device array")


class DeviceArray(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **keywords):
        _refuse_host_arrays([inputs, out])
        plain = [value.view(np.ndarray) if isinstance(value, DeviceArray) else value for value in inputs]
        if out:
            keywords["out"] = tuple(value.view(np.ndarray) for value in out)
        result = getattr(ufunc, method)(*plain, **keywords)
        return out[0] if out else np.asarray(result).view(DeviceArray)

    def __array_function__(self, function, types, arguments, keywords):
        _refuse_host_arrays([arguments, list(keywords.values())])
        result = super().__array_function__(function, types, arguments, keywords)
        # einsum forgets the class of its operands.
        return result.view(DeviceArray) if isinstance(result, np.ndarray) else result

    def __getitem__(self, index):
        _refuse_host_arrays([index])
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        _refuse_host_arrays([index, value])
        super().__setitem__(index, value)


class StrictBackend:
    name = "strict"
    reason = "a test"
    # Only what the measures use; each of these is in CuPy with the same signature.
    xp = SimpleNamespace(
        empty=lambda shape, dtype: np.empty(shape, dtype=dtype).view(DeviceArray),
        einsum=np.einsum,
        exp=np.exp,
        fill_diagonal=np.fill_diagonal,
        minimum=np.minimum,
        tile=np.tile,
    )

    def asarray(self, array, dtype=None):
        return np.asarray(array, dtype=dtype).view(DeviceArray)

    def to_host(self, array):
        assert isinstance(array, DeviceArray)
        return array.view(np.ndarray)
