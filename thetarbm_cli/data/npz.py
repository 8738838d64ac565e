"""Reading a user's ``.npz`` without trusting it: sizes and types are checked before it is unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from thetarbm_cli.arrays import UnreadableArrayError, read_array
from thetarbm_cli.errors import InputError

# 512 MiB: about 680,000 images of 28×28 as uint8, or 170,000 as float32.
LARGEST_ARRAY = 1 << 29


def read_untrusted(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a ``.npz``; others in it are left alone.

    Raises
    ------
    InputError
        If the file is no ``.npz``, lacks a required array, or one is pickled, too large or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
            missing = [name for name in required if f"{name}.npy" not in present]
            if missing:
                raise InputError(f"{path} has no array {missing[0]!r}: it needs {' and '.join(required)}")
            names = [name for name in (*required, *optional) if f"{name}.npy" in present]
            return {name: read_array(archive, name, LARGEST_ARRAY) for name in names}
    except InputError:
        raise
    except UnreadableArrayError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # foreign bytes can make zipfile and NumPy raise almost anything
        raise InputError(f"{path} is not a readable .npz file ({type(error).__name__}: {error})") from error
