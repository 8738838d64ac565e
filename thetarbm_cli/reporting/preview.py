"""A picture of prepared data: a grid of digits, each with its dominant orientation as an arrow."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.data.prepared import Prepared
from thetarbm_cli.data.sidecar import UnusableError, add_to_sidecar, read_sidecar
from thetarbm_cli.data.splits import TRAIN
from thetarbm_cli.data.summary import as_unit_floats
from thetarbm_cli.imaging.orientation import OrientationEstimator

FIELD = "preview_sha256"
ROWS, COLUMNS = 8, 12
TILE = 84  # pixels a digit takes, about
GAP = 4
ARROW = (255, 140, 0)
BACKGROUND = (48, 48, 56)

Points = NDArray[np.float64]


def find_or_write_preview(prepared: Prepared) -> Path:
    """Show the first training images of `prepared` in a PNG beside the data file.

    The sidecar keeps the picture's checksum: a whole picture of the same data is left as it is.

    Returns
    -------
    the path of the PNG
    """
    path = prepared.path.with_suffix(".png")
    if path.is_file() and _kept_checksum(prepared) == storage.sha256_of_file(path):
        return path
    estimator = OrientationEstimator()
    images = prepared.images[prepared.split == TRAIN][: ROWS * COLUMNS]
    preview_image(images, estimator(as_unit_floats(images)), path, support=estimator.rotations)
    add_to_sidecar(prepared.path, prepared.sha256, FIELD, storage.sha256_of_file(path))
    return path


def _kept_checksum(prepared: Prepared) -> str | None:
    try:
        sidecar = read_sidecar(prepared.path)
    except UnusableError:
        return None
    return sidecar.get(FIELD) if sidecar["sha256"] == prepared.sha256 else None


def preview_image(images: NDArray[np.generic], orientations: NDArray[np.integer], path: Path, support: int = 9) -> None:
    """Write a PNG of up to 96 images, each with an arrow in its orientation φ_s = s·360°/S.

    Parameters
    ----------
    images : (n, h, h) array, uint8 or float32 in [0, 1]
    orientations : (n,) integer array of indices s; the angle counts counter-clockwise, 0° points right
    path : the PNG, written atomically
    support : S
    """
    from PIL import Image
    from skimage.util import montage

    tiles = [
        _tile(image, 360.0 / support * index)
        for image, index in zip(images[: ROWS * COLUMNS], orientations, strict=False)
    ]
    grid = montage(
        np.stack(tiles),
        fill=BACKGROUND,
        grid_shape=(-(-len(tiles) // COLUMNS), min(len(tiles), COLUMNS)),
        padding_width=GAP,
        channel_axis=-1,
    )
    content = io.BytesIO()
    Image.fromarray(grid).save(content, "PNG")
    storage.write_bytes(path, content.getvalue())


def _tile(image: NDArray[np.generic], degrees: float) -> NDArray[np.uint8]:
    """Enlarge one image and draw its arrow: (t, t, 3) uint8 array."""
    from skimage.draw import polygon

    grey = np.rint(as_unit_floats(image[None]) * 255).astype(np.uint8).reshape(image.shape)
    times = max(1, TILE // len(grey))
    tile = np.repeat(np.repeat(grey, times, axis=0), times, axis=1)[:, :, None].repeat(3, axis=2)
    for points in _arrow(len(tile), degrees):
        rows, columns = polygon(points[:, 1], points[:, 0], shape=tile.shape[:2])
        tile[rows, columns] = ARROW
    return tile


def _arrow(side: int, degrees: float) -> tuple[Points, Points]:
    """Shaft and head of an arrow from the middle of a square outwards: polygons of (x, y), y downwards."""
    radians = np.deg2rad(degrees)
    along = np.array([np.cos(radians), -np.sin(radians)])
    across = np.array([-along[1], along[0]])
    middle = np.full(2, (side - 1) / 2)
    thick, reach = 0.02 * side, 0.46 * side
    neck, barb = middle + (reach - 0.14 * side) * along, 0.075 * side * across
    shaft = np.stack([middle + thick * across, neck + thick * across, neck - thick * across, middle - thick * across])
    head = np.stack([neck + barb, middle + reach * along, neck - barb])
    return shaft, head
