"""Small square pictures in a lattice with headings: the common ground of filters, reconstructions and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.reporting.figures.style import DIVERGING, SMALL_TEXT

# Pixels between two tiles.
GAP = 2


@dataclass(frozen=True)
class Palette:
    """Colours of pixel values, in so many steps; fewer make smaller files of noisy pictures."""

    colours: str
    low: float
    high: float
    steps: int


# White on black, as the data is.
IMAGES = Palette("gray", 0, 1, 256)
# An odd number of steps has one for 0, which is white.
FILTERS = Palette(DIVERGING, -1, 1, 33)


def lattice(tiles: NDArray[Any]) -> NDArray[np.float64]:
    """(rows, columns, V) tiles as one picture, NaN between them."""
    rows, columns, pixels = tiles.shape
    side = math.isqrt(pixels)
    sheet = np.full((rows * (side + GAP) - GAP, columns * (side + GAP) - GAP), np.nan)
    for row, column in np.ndindex(rows, columns):
        top, left = row * (side + GAP), column * (side + GAP)
        sheet[top : top + side, left : left + side] = tiles[row, column].reshape(side, side)
    return sheet


def show_tiles(
    axes: Any, tiles: NDArray[Any], palette: Palette, row_names: Sequence[str] = (), column_names: Sequence[str] = ()
) -> Any:
    """Show (rows, columns, V) tiles with headings at the left and above; the image, for a colour bar."""
    import matplotlib

    rows, columns, pixels = tiles.shape
    side = math.isqrt(pixels)
    axes.grid(False)
    axes.tick_params(length=0, labelsize=SMALL_TEXT, top=True, labeltop=True, bottom=False, labelbottom=False, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_yticks([centre(row, side) for row in range(rows)] if row_names else [], row_names)
    axes.set_xticks([centre(column, side) for column in range(columns)] if column_names else [], column_names)
    colours = matplotlib.colormaps[palette.colours].resampled(palette.steps)
    return axes.imshow(lattice(tiles), cmap=colours, vmin=palette.low, vmax=palette.high)


def centre(number: int, side: int) -> float:
    """Where the middle of a row or column of tiles is, in pixels."""
    return number * (side + GAP) + (side - 1) / 2


def scaled(filters: NDArray[np.float32], axis: tuple[int, ...] = (-1,)) -> NDArray[np.float32]:
    """Filters divided by the largest weight of either sign along the axes; what is 0 everywhere stays 0."""
    reach: NDArray[np.float32] = np.abs(filters).max(axis=axis, keepdims=True)
    return np.divide(filters, reach, out=np.zeros_like(filters), where=reach > 0)
