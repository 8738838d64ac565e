"""Figures of what was measured and learned: each is declared here once; nothing is imported before it is drawn."""

from __future__ import annotations

import io
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
    needs : what it is drawn from: records alone, also weights of models, prepared images alone, or the runs of
        ``thetarbm multiverse``
    """

    needs: Literal["records", "weights", "images", "universes"] = "records"

    @property
    def is_chart(self) -> bool:
        """Whether it shows lines and marks, not images."""
        return self.needs in ("records", "universes")


FIGURES = Registry(
    "figure",
    FigureEntry(
        "filters-theta",
        f"{_HERE}.images:draw_theta_filters",
        "Filters of the θ-RBM (Fig. 2 of the paper)",
        "Rows are hidden units, columns are slices W_s. Of the third of the units that is most active on training "
        "images, those are shown that differ most from one another, or those asked for. Along a row, filters are "
        "rotated versions of each other. A row has one scale, on which 0 is white.",
        needs="weights",
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
        "Blue: ours, mean and standard deviation over seeds; orange: the paper's. Vertical lines: the controls, an "
        "RBF-SVM on pixels.",
    ),
    FigureEntry(
        "table-3",
        f"{_HERE}.measured:draw_table_3",
        "Table 3: test error under perturbed orientations",
        "Mean test error in % over seeds, ours and the paper's on one scale. * above the unperturbed error, ours above "
        "ours and the paper's above the paper's.",
    ),
    FigureEntry(
        "gamma-offset",
        f"{_HERE}.measured:draw_gamma_offset",
        "γ against the offset Δ",
        "γ on training images under the rotations φ_s + Δ. After a step of the support set (9 rotations: 40°) the "
        "rotations are those of 0° again. Where no value lies, the scale is broken.",
    ),
    FigureEntry(
        "years",
        f"{_HERE}.measured:draw_years",
        "Test error on mnist-rot over the years",
        "Published errors by the kind of model, on the official images; the line is the best θ-RBM of this project, on "
        "images made as those were, mean over seeds. CNNs learn their features from labels, the others without.",
    ),
    FigureEntry(
        "orientations",
        f"{_HERE}.images:draw_orientations",
        "Dominant orientations",
        "The first test image of some classes, rotated by every angle of the support set, with the dominant "
        "orientation that is estimated. Solid arrows rotate with most of their row, dashed ones do not.",
        needs="images",
    ),
    FigureEntry(
        "making",
        f"{_HERE}.images:draw_making",
        "The making of mnist-rot",
        "Digits of MNIST, and the same rotated as in the official mnist-rot (source generated) and bilinearly (source "
        "bilinear). Digits and angles are those of known rows of the official test images.",
        needs="images",
    ),
    FigureEntry(
        "universes-error",
        f"{_HERE}.universes:draw_errors",
        "Readings: the θ-RBM's test error against each rival's",
        "A universe is one option of every choice that the paper leaves open. Above, the difference in each sampled "
        "universe, sorted, the mean over sparsity targets; left out are universes in which one of the two models is "
        "broken: a training diverged, or an error is above 25 %. Below, the options of the choices that move it most, "
        "a stroke for each universe that has them. Titles count differences of any size; claims ask for more.",
        needs="universes",
    ),
    FigureEntry(
        "universes-gamma",
        f"{_HERE}.universes:draw_gammas",
        "Readings: the θ-RBM's γ against each rival's",
        "As before, for γ on test images.",
        needs="universes",
    ),
    FigureEntry(
        "universes-influence",
        f"{_HERE}.universes:draw_influence",
        "Readings: what moves each number",
        "Share of the variance over sampled universes that each choice explains by itself, the mean over sparsity "
        "targets, those of broken models left out. Written are shares above what the largest one of all choices "
        "reaches by chance (95 %). Grey: the choice does not concern the model.",
        needs="universes",
    ),
    FigureEntry(
        "universes-clouds",
        f"{_HERE}.universes:draw_clouds",
        "Readings: error and γ of every universe",
        "Small marks: universes; filled: the options as the suite takes them; hollow: the paper's numbers. Errors "
        "above 25 % are not shown.",
        needs="universes",
    ),
)


def make(name: str, context: FigureContext) -> Drawing:
    """Draw a figure; the drawing says what it lacks.

    Raises
    ------
    FigureMissing
        If it cannot be drawn: its records, weights or data are missing.
    """
    from thetarbm_cli.reporting.figures.style import printing

    draw_figure = FIGURES.load(name)
    with printing():
        drawing: Drawing = draw_figure(context)
    return drawing


def encode(name: str, drawing: Drawing, form: str = "png") -> bytes:
    """Make a drawn figure the content of a file, in one of `FORMATS`: the same records give the same bytes."""
    import matplotlib

    from thetarbm_cli.reporting.figures.style import DPI, printing

    # Without these, files tell the time and the version.
    nameless = {"png": ["Software"], "svg": ["Date", "Creator"], "pdf": ["CreationDate", "Creator", "Producer"]}
    metadata = {"Title": FIGURES[name].label, **dict.fromkeys(nameless[form])}
    packed = {"pil_kwargs": {"optimize": True}} if form == "png" else {}
    stream = io.BytesIO()
    with printing():
        # Ids in an SVG follow from the name instead of being random.
        matplotlib.rcParams["svg.hashsalt"] = f"thetarbm-{name}"
        drawing.figure.savefig(stream, format=form, dpi=DPI, metadata=metadata, **packed)
    return stream.getvalue()
