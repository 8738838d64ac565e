"""The figures by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thetarbm_cli.errors import InputError
from thetarbm_cli.reporting.figures.ablations import draw_estimators, draw_floor
from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.curves import draw_gamma_offset, draw_learning_curves
from thetarbm_cli.reporting.figures.dotplots import draw_table_1, draw_table_2
from thetarbm_cli.reporting.figures.drawing import Drawing
from thetarbm_cli.reporting.figures.filters import draw_filters, draw_theta_filters
from thetarbm_cli.reporting.figures.heatmaps import draw_confusion, draw_table_3
from thetarbm_cli.reporting.figures.histograms import draw_gamma_units
from thetarbm_cli.reporting.figures.orientations import draw_orientations
from thetarbm_cli.reporting.figures.pictures import draw_reconstructions, draw_samples
from thetarbm_cli.reporting.figures.style import printing, render


@dataclass(frozen=True)
class FigureKind:
    """One figure of the catalogue.

    Attributes
    ----------
    title : what it is
    caption : what is to be seen, and how it is drawn
    draw : makes it, or raises `FigureMissing`
    """

    title: str
    caption: str
    draw: Callable[[FigureContext], Drawing]


CATALOGUE: dict[str, FigureKind] = {
    "filters-theta": FigureKind(
        "Filters of the θ-RBM (Fig. 2 of the paper)",
        "Rows are hidden units, the most active ones on training images or those asked for; columns are slices W_s. "
        "Along a row, filters are turned versions of each other. A row has one scale, on which 0 is white.",
        draw_theta_filters,
    ),
    "filters": FigureKind(
        "Filters of each model",
        "The most active units of each model on training images, or those asked for; of the θ-RBM, their filters for "
        "images of orientation 0°. Each filter has a scale of its own, on which 0 is white.",
        draw_filters,
    ),
    "learning-curves": FigureKind(
        "Learning curves",
        "Reconstruction error and mean activation of the hidden units over the epochs, mean over seeds, with a band "
        "from the lowest to the highest. Each model is measured on its own standardised inputs.",
        draw_learning_curves,
    ),
    "gamma-units": FigureKind(
        "γ of each hidden unit",
        "Share of the live units of all seeds by their γ on test images, at the first sparsity target of the suite; "
        "dashed: the mean.",
        draw_gamma_units,
    ),
    "table-1": FigureKind(
        "Table 1: test error of an RBF-SVM on mnist-rot",
        "Filled: ours, mean and standard deviation over seeds; hollow: the paper's. Vertical lines: the controls, "
        "an RBF-SVM on pixels.",
        draw_table_1,
    ),
    "table-2": FigureKind(
        "Table 2: γ-score on mnist-rot",
        "Filled: ours, mean and standard deviation over seeds; hollow: the paper's.",
        draw_table_2,
    ),
    "table-3": FigureKind(
        "Table 3: test error under perturbed orientations",
        "Mean test error in % over seeds, ours and the paper's on one scale. * above the unperturbed error, ours above "
        "ours and the paper's above the paper's.",
        draw_table_3,
    ),
    "confusion": FigureKind(
        "Confusion matrices",
        "Test images by true class (rows) and class given (columns), in % of the true class, over all seeds, at the "
        "first sparsity target of the suite. The diagonal is not shaded, shares below 0.5 % are not written.",
        draw_confusion,
    ),
    "gamma-offset": FigureKind(
        "γ against the offset Δ",
        "γ on training images under the rotations φ_s + Δ. After a step of the support set (9 rotations: 40°) the "
        "rotations are those of 0° again.",
        draw_gamma_offset,
    ),
    "floor": FigureKind(
        "Error and γ against the standardisation floor",
        "A pixel whose standard deviation is at most the floor is centred and not divided by it. At 0, only constant "
        "pixels are.",
        draw_floor,
    ),
    "orientation-estimators": FigureKind(
        "Error and γ by the estimator of the orientation",
        "The θ-RBM with several ways to estimate the dominant orientation; the one marked as taken is that of the "
        "tables.",
        draw_estimators,
    ),
    "reconstructions": FigureKind(
        "Reconstructions",
        "The first test image of each class, and what each model makes of it in one pass up and down. The O-RBM sees "
        "and gives aligned images.",
        draw_reconstructions,
    ),
    "samples": FigureKind(
        "Samples",
        "One Gibbs chain of each model from random hidden states, of the θ-RBM at orientation 0°: the mean of the "
        "visible units after so many steps.",
        draw_samples,
    ),
    "orientations": FigureKind(
        "Dominant orientations",
        "The first test image of some classes, turned by every angle of the support set, with the dominant orientation "
        "that is estimated. Solid arrows turn with most of their row, dashed ones do not.",
        draw_orientations,
    ),
}


def kind_of(name: str) -> FigureKind:
    """A figure of the catalogue.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    if name not in CATALOGUE:
        raise InputError(f"there is no figure {name!r}; choose from {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def make(name: str, context: FigureContext) -> Drawing:
    """Draw a figure; the figure itself, and what it lacks.

    Raises
    ------
    InputError
        If there is no figure of this name.
    FigureMissing
        If it cannot be drawn: its records, weights or data are missing.
    """
    kind = kind_of(name)
    with printing():
        return kind.draw(context)


def encode(name: str, drawing: Drawing, format: str = "png") -> bytes:
    """A drawn figure as a file's content.

    Raises
    ------
    InputError
        If there is no format of this name.
    """
    return render(drawing.figure, format, name, kind_of(name).title)


def draw(name: str, context: FigureContext, format: str = "png") -> bytes:
    """Draw a figure as a file's content: the same records give the same bytes.

    Raises
    ------
    InputError
        If there is no figure or format of this name.
    FigureMissing
        If it cannot be drawn: its records, weights or data are missing.
    """
    return encode(name, make(name, context), format)
