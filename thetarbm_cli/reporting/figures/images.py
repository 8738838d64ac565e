"""Pictures of images and filters: tiles with headings, orientations as arrows, and the preview of prepared data.

Weights are a cache and prepared data is not in the results folder: nothing is trained or prepared for a picture, but
what is missing is named with the command that makes it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.followup import command_line
from thetarbm_cli.reporting.figures.context import Drawing, FigureContext, FigureMissing
from thetarbm_cli.reporting.figures.style import DIVERGING, GREY, ORANGE, PAGE, SKY, SMALL_TEXT, new_figure, printing
from thetarbm_cli.store import WEIGHTS, Training

if TYPE_CHECKING:
    from thetarbm_cli.data.prepared import Prepared
    from thetarbm_cli.specs import TrainData

# Training images on which units are ranked by their mean activation, and how many units and classes are shown.
RANKED_ON, UNITS, CLASSES = 2000, 8, 6
# Pixels between two tiles.
GAP = 2
FOLLOWS, STRAYS = "estimate rotates with most of its row", "it does not"
ARROWS: dict[str, dict[str, Any]] = {
    FOLLOWS: {"color": SKY, "linestyle": "-"},
    STRAYS: {"color": ORANGE, "linestyle": (0, (1.5, 1))},
}
# Known rows of the official mnist-rot's test images: the digit's index in MNIST, and its angle in degrees.
OFFICIAL_ROWS = ((26641, 302.0083), (54480, 198.4356), (5412, 161.1541), (65178, 298.5952), (40518, 102.1708))
# The preview: at most so many tiles of about so many dots.
PREVIEW_ROWS, PREVIEW_COLUMNS, PREVIEW_DOTS, PREVIEW_DPI = 8, 12, 84, 100
PREVIEW_FIELD = "preview_sha256"


class Palette(NamedTuple):
    """Colours of pixel values, in so many steps; fewer make smaller files of noisy pictures."""

    colours: str
    low: float
    high: float
    steps: int


# White on black, as the data is.
IMAGES = Palette("gray", 0, 1, 256)
# An odd number of steps has one for 0, which is white.
FILTERS = Palette(DIVERGING, -1, 1, 33)


def show_tiles(
    axes: Any, tiles: NDArray[Any], palette: Palette, row_names: Sequence[str] = (), column_names: Sequence[str] = ()
) -> Any:
    """Show (rows, columns, V) tiles with headings at the left and above; return the image, for a colour bar."""
    import matplotlib
    from skimage.util import montage

    rows, columns, pixels = tiles.shape
    side = math.isqrt(pixels)
    sheet = montage(tiles.reshape(-1, side, side), fill=np.nan, grid_shape=(rows, columns), padding_width=GAP)
    axes.grid(False)
    axes.tick_params(length=0, labelsize=SMALL_TEXT, top=True, labeltop=True, bottom=False, labelbottom=False, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_yticks([centre(row, side) for row in range(rows)] if row_names else [], row_names)
    axes.set_xticks([centre(column, side) for column in range(columns)] if column_names else [], column_names)
    colours = matplotlib.colormaps[palette.colours].resampled(palette.steps)
    return axes.imshow(sheet[GAP:-GAP, GAP:-GAP], cmap=colours, vmin=palette.low, vmax=palette.high)


def centre(number: int, side: int) -> float:
    """Find the middle of a row or column of tiles, in pixels."""
    return number * (side + GAP) + (side - 1) / 2


def show_arrow(axes: Any, row: int, column: int, side: int, degrees: float, **style: Any) -> None:
    """Draw an arrow from the middle of a tile outwards; the angle counts counter-clockwise, 0° points right."""
    x, y, reach = centre(column, side), centre(row, side), 0.46 * side
    tip = (x + reach * math.cos(math.radians(degrees)), y - reach * math.sin(math.radians(degrees)))
    arrow = {"arrowstyle": "-|>", "linewidth": 1.3, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", xy=tip, xytext=(x, y), arrowprops=arrow).set_in_layout(False)


def draw_theta_filters(context: FigureContext) -> Drawing:
    """Show filters W_s of some units of the θ-RBM: a row for each unit, a column for each rotation φ_s."""
    from thetarbm_cli.pipeline import fitted

    cells = [each.cell for each in context.evaluations() if each.cell.model == "theta"][:1]
    # It need not be measured.
    trainings = [
        training
        for cell in cells
        for training in context.results.recorded.by_cell.get(cell.train_spec().cell_key, [])
        if training.state == "done" and context.results.source.sha256 in ("", training.images_sha256)
    ]
    if not trainings:
        raise context.nothing_measured(cells, "a trained θ-RBM")
    has_weights = (each for each in trainings if context.store.path(each.run, WEIGHTS).is_file())
    training = next(has_weights, trainings[0])
    try:
        model, sha256 = fitted(context.store, training)
    except InputError as error:
        raise FigureMissing(str(error)) from error
    tensor: NDArray[np.float32] = model.tensor_
    units = _chosen_units(context, training, model)
    filters = tensor[:, units].transpose(1, 0, 2)
    reach = np.abs(filters).max(axis=(1, 2), keepdims=True)
    filters = np.divide(filters, reach, out=np.zeros_like(filters), where=reach > 0)
    rotations = filters.shape[1]
    figure = new_figure(PAGE, (PAGE - 1.35) / rotations * len(units) + 0.2, pictures=True)
    axes = figure.subplots()
    angles = [f"φ = {360 * s / rotations:g}°" for s in range(rotations)]
    shades = show_tiles(axes, filters, FILTERS, [f"unit {unit}" for unit in units], angles)
    figure.colorbar(shades, ax=axes, label="weight / largest of the unit", ticks=[-1, 0, 1], aspect=40, pad=0.01)
    as_recorded = training is trainings[0] and sha256 == training.weights_sha256
    return Drawing(figure, recorded=as_recorded)


def _chosen_units(context: FigureContext, training: Training, model: Any) -> NDArray[np.int64]:
    """Take the units that were asked for, or different ones of the third that is most active on training images.

    Filters are compared by their spectra, for which it does not matter where in the image they are. The most active
    unit comes first, then always the one that differs most from all before it.
    """
    from thetarbm_cli.pipeline import learned_images

    hidden = model.hidden
    if context.units:
        wrong = [unit for unit in context.units if not 0 <= unit < hidden]
        if wrong:
            raise InputError(f"{training.run} has no hidden unit {wrong[0]}; its units are 0 to {hidden - 1}")
        return np.array(context.units)
    prepared = _load_prepared(context, training.spec.data, training.images_sha256)
    images, _ = learned_images(prepared, training.spec.data)
    activity = model.transform(images[:RANKED_ON]).mean(axis=0)
    active = np.argsort(-activity, kind="stable")[: max(UNITS, hidden // 3)]
    filters = model.tensor_[0][active]
    side = math.isqrt(filters.shape[1])
    spectra = np.abs(np.fft.rfft2(filters.reshape(-1, side, side))).reshape(len(active), -1)
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True).clip(min=1e-12)
    chosen, apart = [0], np.full(len(active), np.inf)
    while len(chosen) < min(UNITS, len(active)):
        apart = np.minimum(apart, np.linalg.norm(spectra - spectra[chosen[-1]], axis=1))
        chosen.append(int(apart.argmax()))
    return active[chosen]


def draw_orientations(context: FigureContext) -> Drawing:
    """Show the first test image of some classes (rows) rotated by every φ_s (columns), with its orientation."""
    from matplotlib.lines import Line2D

    from thetarbm_cli.imaging.rotation import Rotations
    from thetarbm_cli.models import build
    from thetarbm_cli.models.base import OrientedModel

    cell = next((each.cell for each in context.evaluations() if each.cell.model == "theta"), None)
    if cell is None:
        raise context.nothing_measured([], "a θ-RBM")
    spec = cell.train_spec()
    model = build("theta", spec.parameters)
    assert isinstance(model, OrientedModel)
    estimator = model.orientation_estimator()
    images, labels = _load_prepared(context, spec.data, context.results.source.sha256 or None).part("test")
    classes, first = np.unique(labels, return_index=True)
    shown, names = images[first[:CLASSES]], [f"class {label}" for label in classes[:CLASSES]]
    side, rotations = math.isqrt(shown.shape[1]), estimator.rotations
    rotated = Rotations(side, rotations).rotate_all(shown)
    found = np.stack([estimator(copies) for copies in rotated], axis=1)
    figure = new_figure(PAGE, (PAGE - 0.6) / rotations * len(shown) + 0.45, pictures=True)
    axes = figure.subplots()
    angles = [f"+{360 * s / rotations:g}°" for s in range(rotations)]
    show_tiles(axes, rotated.transpose(1, 0, 2), IMAGES, names, angles)
    for (row, column), follows in np.ndenumerate(follows_rotations(found)):
        style = ARROWS[FOLLOWS if follows else STRAYS]
        show_arrow(axes, row, column, side, 360 * int(found[row, column]) / rotations, **style)
    marks = [Line2D([], [], **style) for style in ARROWS.values()]
    figure.legend(marks, ARROWS.keys(), loc="outside lower center", ncols=2)
    return Drawing(figure)


def follows_rotations(found: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell whether each estimate fits most of its row.

    `found` is an (n, S) array of the orientations of n images, rotated by φ_0, φ_1, … An estimator that follows
    rotations finds s steps more on an image rotated by φ_s; without the rotation it is then the same along the row.
    """
    rotations = found.shape[1]
    before = (found - np.arange(rotations)) % rotations
    usual = [np.bincount(row, minlength=rotations).argmax() for row in before]
    return np.asarray(before == np.array(usual)[:, None])


def _load_prepared(context: FigureContext, data: TrainData, sha256: str | None) -> Prepared:
    """Load images that are prepared here, and are the ones that were learned or measured."""
    from thetarbm_cli.pipeline import data_checksum, load_data

    if data_checksum(context.store, data.dataset, data.source, data.seed) is None:
        words = ["--seed", str(data.seed)] if data.seed else []
        command = command_line("prepare-data", *words, source=None if data.source == "generated" else data.source)
        where = f"{data.dataset} ({data.source}) is not prepared in {context.store.data_dir}"
        raise FigureMissing(f"{where}; {command} makes it")
    try:
        return load_data(context.store, data.dataset, data.source, data.seed, sha256=sha256)
    except ThetaRBMError as error:
        raise FigureMissing(str(error)) from error


def draw_making(context: FigureContext) -> Drawing:
    """Show digits as they are in MNIST (first row), rotated as in the official mnist-rot, and bilinearly."""
    from thetarbm_cli.data.recipes import as_unit_floats
    from thetarbm_cli.data.rotated_digits import BILINEAR, GAUSSIAN, rotate_exactly
    from thetarbm_cli.data.sources.mnist import load_mnist

    sources, degrees = zip(*OFFICIAL_ROWS, strict=True)
    digits, angles = load_mnist()[0][np.array(sources, dtype=np.intp)], np.array(degrees)
    rows = [digits, *(rotate_exactly(digits, angles, kernel) for kernel in (GAUSSIAN, BILINEAR))]
    tiles = np.stack([as_unit_floats(row) for row in rows])
    figure = new_figure(PAGE, (PAGE - 0.9) / len(sources) * len(rows) + 0.3, pictures=True)
    names = ["MNIST", "as official", "bilinear"]
    show_tiles(figure.subplots(), tiles, IMAGES, names, [f"{angle:.1f}°" for angle in degrees])
    return Drawing(figure)


def find_or_write_preview(prepared: Prepared) -> Path:
    """Show the first training images of `prepared` in a PNG beside the data file, and return its path.

    The sidecar keeps the picture's checksum: a whole picture of the same data is left as it is.
    """
    from thetarbm_cli.data.prepared import UnusableError, add_to_sidecar, read_sidecar
    from thetarbm_cli.data.recipes import TRAIN, as_unit_floats
    from thetarbm_cli.imaging.orientation import OrientationEstimator

    path = prepared.path.with_suffix(".png")
    try:
        sidecar = read_sidecar(prepared.path)
    except UnusableError:
        sidecar = {"sha256": ""}
    known = sidecar.get(PREVIEW_FIELD) if sidecar["sha256"] == prepared.sha256 else None
    if known is None or not path.is_file() or known != storage.sha256_of_file(path):
        estimator = OrientationEstimator()
        images = as_unit_floats(prepared.images[prepared.split == TRAIN][: PREVIEW_ROWS * PREVIEW_COLUMNS])
        storage.write_bytes(path, preview(images, estimator(images), estimator.rotations))
        add_to_sidecar(prepared.path, prepared.sha256, PREVIEW_FIELD, storage.sha256_of_file(path))
    return path


def preview(images: NDArray[np.float32], orientations: NDArray[np.integer], rotations: int) -> bytes:
    """Draw a PNG of images, each with an arrow in its orientation φ_s = s·360°/S.

    Parameters
    ----------
    images : (n, V) array in [0, 1]
    orientations : (n,) array of indices s; the angle counts counter-clockwise, 0° points right
    rotations : S
    """
    from matplotlib.figure import Figure

    columns, side = min(len(images), PREVIEW_COLUMNS), math.isqrt(images.shape[1])
    rows = -(-len(images) // columns)
    tiles = np.full((rows * columns, side * side), np.nan, dtype=np.float32)
    tiles[: len(images)] = images
    scale = max(1, PREVIEW_DOTS // side) / PREVIEW_DPI
    content = io.BytesIO()
    with printing():
        figure = Figure(figsize=(scale * (columns * (side + GAP) - GAP), scale * (rows * (side + GAP) - GAP)))
        axes = figure.add_axes((0, 0, 1, 1), facecolor=GREY)
        show_tiles(axes, tiles.reshape(rows, columns, -1), IMAGES)
        for number, orientation in enumerate(orientations):
            degrees = 360 * int(orientation) / rotations
            show_arrow(axes, number // columns, number % columns, side, degrees, color=ORANGE)
        figure.savefig(content, format="png", dpi=PREVIEW_DPI, metadata={"Software": None})
    return content.getvalue()
