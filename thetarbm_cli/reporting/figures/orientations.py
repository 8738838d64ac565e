"""Dominant orientations: images turned through the support set, each with the orientation that is estimated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing
from thetarbm_cli.reporting.figures.style import ORANGE, PAGE, SKY, look_lines, new_figure
from thetarbm_cli.reporting.figures.tiles import IMAGES, centre, show_tiles
from thetarbm_cli.reporting.figures.weights import prepared_images

if TYPE_CHECKING:
    from thetarbm_cli.imaging.orientation import OrientationEstimator

CLASSES = 6
FOLLOWS, STRAYS = "estimate turns with most of its row", "it does not"
ARROWS: dict[str, dict[str, Any]] = {
    FOLLOWS: {"color": SKY, "linestyle": "-"},
    STRAYS: {"color": ORANGE, "linestyle": (0, (1.5, 1))},
}


def draw_orientations(context: FigureContext) -> Drawing:
    """The first test image of some classes (rows) turned by every φ_s (columns), with the estimated orientation."""
    from thetarbm_cli.imaging.rotation import Rotations

    estimator = _estimator(context)
    images, labels = prepared_images(context).part("test")
    classes, first = np.unique(labels, return_index=True)
    shown = images[first[:CLASSES]]
    side, rotations = math.isqrt(shown.shape[1]), estimator.rotations
    turned = Rotations(side, rotations).rotate_all(shown)
    found = np.stack([estimator(copies) for copies in turned], axis=1)
    figure = new_figure(PAGE, (PAGE - 0.6) / rotations * len(shown) + 0.45, pictures=True)
    axes = figure.subplots()
    angles = [f"+{360 * s / rotations:g}°" for s in range(rotations)]
    rows = [f"class {label}" for label in classes[:CLASSES]]
    show_tiles(axes, turned.transpose(1, 0, 2), IMAGES, rows, angles)
    for (row, column), follows in np.ndenumerate(follows_turns(found)):
        degrees = 360.0 * int(found[row, column]) / rotations
        _arrow(axes, centre(column, side), centre(row, side), side, degrees, ARROWS[FOLLOWS if follows else STRAYS])
    figure.legend(look_lines(ARROWS.values()), ARROWS.keys(), loc="outside lower center", ncols=2)
    return Drawing(figure)


def follows_turns(found: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each estimate fits most of its row.

    An estimator that is true to turns finds s steps more on an image that was turned by φ_s; what it finds without the
    turn is then the same along the row.

    Parameters
    ----------
    found : (n, S) array of the orientations of n images, turned by φ_0, φ_1, …
    """
    rotations = found.shape[1]
    unturned = (found - np.arange(rotations)) % rotations
    usual = [np.bincount(row, minlength=rotations).argmax() for row in unturned]
    return np.asarray(unturned == np.array(usual)[:, None])


def _estimator(context: FigureContext) -> OrientationEstimator:
    """The estimator of the suite's θ-RBM."""
    from thetarbm_cli.imaging.orientation import OrientationEstimator
    from thetarbm_cli.models.catalogue import build
    from thetarbm_cli.models.images import OrientedImageRBM

    for cell in context.model_cells():
        if cell.model == "theta":
            model = build("theta", cell.settings().complete_parameters)
            assert isinstance(model, OrientedImageRBM)
            return model.orientation_estimator()
    return OrientationEstimator()


def _arrow(axes: Any, x: float, y: float, side: int, degrees: float, style: dict[str, Any]) -> None:
    """An arrow from the middle of a tile outwards; the angle counts counter-clockwise, 0° points right."""
    reach = 0.46 * side
    tip = (x + reach * math.cos(math.radians(degrees)), y - reach * math.sin(math.radians(degrees)))
    arrow = {"arrowstyle": "-|>", "linewidth": 1.3, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", xy=tip, xytext=(x, y), arrowprops=arrow).set_in_layout(False)
