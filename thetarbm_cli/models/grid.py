"""Where local filters lie on an image, and which of them are pooled together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FieldGrid:
    """Square fields at regular places of a square image.

    Parameters
    ----------
    size, field : int
        Side of the image, and of a field, in pixels.
    stride : int
        Pixels from one field to the next.
    pooling : int
        Cells along a side into which the fields are pooled.

    Examples
    --------
    >>> FieldGrid(size=3, field=2, stride=1, pooling=1).places
    array([[0, 1, 3, 4],
           [1, 2, 4, 5],
           [3, 4, 6, 7],
           [4, 5, 7, 8]])
    """

    size: int
    field: int
    stride: int
    pooling: int

    @property
    def side(self) -> int:
        """Fields along a side."""
        return (self.size - self.field) // self.stride + 1

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Pixels of each field, row by row: (side², field²) indices into a flattened image."""
        pixels = np.arange(self.size * self.size).reshape(self.size, self.size)
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (self.field, self.field))
        return windows[:: self.stride, :: self.stride].reshape(self.side**2, self.field**2)

    @cached_property
    def pool(self) -> NDArray[np.float32]:
        """The mean over the fields of each cell, as a (pooling², side²) matrix; cells are as equal as can be."""
        edges = np.round(np.linspace(0, self.side, self.pooling + 1)).astype(int)
        along = np.zeros((self.pooling, self.side))
        for cell, (start, stop) in enumerate(pairwise(edges)):
            along[cell, start:stop] = 1 / (stop - start)
        return np.kron(along, along).astype(np.float32)

    def folded(self, fields: NDArray[np.float32]) -> NDArray[np.float32]:
        """Lay fields (n, side², field²) into images (n, size²): the mean where they overlap, 0 where there is none."""
        images = np.zeros((len(fields), self.size**2), dtype=np.float32)
        covered = np.zeros(self.size**2, dtype=np.float32)
        for place, pixels in enumerate(self.places):
            images[:, pixels] += fields[:, place]
            covered[pixels] += 1
        images /= np.maximum(covered, 1)
        return images
