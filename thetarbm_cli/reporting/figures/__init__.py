"""Figures of what was measured and learned: each is declared here once; nothing is imported before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from thetarbm_cli.registry import Entry, Registry

if TYPE_CHECKING:
    from thetarbm_cli.reporting.figures.context import Drawing, FigureContext

FORMATS = ("png", "pdf", "svg")
_HERE = "thetarbm_cli.reporting.figures"


@dataclass(frozen=True)
class FigureEntry(Entry):
    """A figure; its label is what it shows, `about` what is to be seen and how it is drawn.

    Attributes
    ----------
    needs : what it is drawn from, beside records: also weights of models, or prepared images alone
    """

    needs: Literal["records", "weights", "images"] = "records"


FIGURES = Registry(
    "figure",
    FigureEntry(
        "filters-theta",
        f"{_HERE}.learned:draw_theta_filters",
        "Filters of the θ-RBM (Fig. 2 of the paper)",
        "Rows are hidden units, the most active ones on training images or those asked for; columns are slices W_s. "
        "Along a row, filters are rotated versions of each other. A row has one scale, on which 0 is white.",
        needs="weights",
    ),
    FigureEntry(
        "filters",
        f"{_HERE}.learned:draw_filters",
        "Filters of each model",
        "The most active units of each model on training images, or those asked for; of the θ-RBM, their filters for "
        "images of orientation 0°. Each filter has a scale of its own, on which 0 is white.",
        needs="weights",
    ),
    FigureEntry(
        "learning-curves",
        f"{_HERE}.measured:draw_learning_curves",
        "Learning curves",
        "Reconstruction error and mean activation of the hidden units over the epochs, mean over seeds, with a band "
        "from the lowest to the highest. Each model is measured on its own standardised inputs.",
    ),
    FigureEntry(
        "gamma-units",
        f"{_HERE}.measured:draw_gamma_units",
        "γ of each hidden unit",
        "Share of the live units of all seeds by their γ on test images, at the first sparsity target of the suite; "
        "dashed: the mean.",
    ),
    FigureEntry(
        "table-1",
        f"{_HERE}.measured:draw_table_1",
        "Table 1: test error of an RBF-SVM on mnist-rot",
        "Filled: ours, mean and standard deviation over seeds; hollow: the paper's. Vertical lines: the controls, "
        "an RBF-SVM on pixels.",
    ),
    FigureEntry(
        "table-2",
        f"{_HERE}.measured:draw_table_2",
        "Table 2: γ-score on mnist-rot",
        "Filled: ours, mean and standard deviation over seeds; hollow: the paper's.",
    ),
    FigureEntry(
        "table-3",
        f"{_HERE}.measured:draw_table_3",
        "Table 3: test error under perturbed orientations",
        "Mean test error in % over seeds, ours and the paper's on one scale. * above the unperturbed error, ours above "
        "ours and the paper's above the paper's.",
    ),
    FigureEntry(
        "confusion",
        f"{_HERE}.measured:draw_confusion",
        "Confusion matrices",
        "Test images by true class (rows) and class given (columns), in % of the true class, over all seeds, at the "
        "first sparsity target of the suite. The diagonal is not shaded, shares below 0.5 % are not written.",
    ),
    FigureEntry(
        "gamma-offset",
        f"{_HERE}.measured:draw_gamma_offset",
        "γ against the offset Δ",
        "γ on training images under the rotations φ_s + Δ. After a step of the support set (9 rotations: 40°) the "
        "rotations are those of 0° again.",
    ),
    FigureEntry(
        "floor",
        f"{_HERE}.measured:draw_floor",
        "Error and γ against the standardisation floor",
        "A pixel whose standard deviation is at most the floor is centred and not divided by it. At 0, only constant "
        "pixels are.",
    ),
    FigureEntry(
        "orientation-estimators",
        f"{_HERE}.measured:draw_estimators",
        "Error and γ by the estimator of the orientation",
        "The θ-RBM with several ways to estimate the dominant orientation; the one marked as taken is that of the "
        "tables.",
    ),
    FigureEntry(
        "reconstructions",
        f"{_HERE}.learned:draw_reconstructions",
        "Reconstructions",
        "The first test image of each class, and what each model makes of it in one pass up and down. The O-RBM sees "
        "and gives aligned images.",
        needs="weights",
    ),
    FigureEntry(
        "samples",
        f"{_HERE}.learned:draw_samples",
        "Samples",
        "One Gibbs chain of each model from random hidden states, of the θ-RBM at orientation 0°: the mean of the "
        "visible units after so many steps.",
        needs="weights",
    ),
    FigureEntry(
        "orientations",
        f"{_HERE}.images:draw_orientations",
        "Dominant orientations",
        "The first test image of some classes, rotated by every angle of the support set, with the dominant "
        "orientation that is estimated. Solid arrows rotate with most of their row, dashed ones do not.",
        needs="images",
    ),
)


def make(name: str, context: FigureContext) -> Drawing:
    """Draw a figure; the drawing says what it lacks.

    Raises
    ------
    InputError
        If there is no figure of this name.
    FigureMissing
        If it cannot be drawn: its records, weights or data are missing.
    """
    from thetarbm_cli.reporting.figures.style import printing

    draw_figure = FIGURES.load(name)
    with printing():
        drawing: Drawing = draw_figure(context)
    return drawing


def encode(name: str, drawing: Drawing, format: str = "png") -> bytes:
    """Make a drawn figure the content of a file: the same records give the same bytes.

    Raises
    ------
    InputError
        If there is no format of this name.
    """
    from thetarbm_cli.reporting.figures.style import render

    return render(drawing.figure, format, name, FIGURES[name].label)
