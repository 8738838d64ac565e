"""One look for all figures: sizes for print, colours and marks that the colour-blind can tell apart, fixed bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Widths of one column and of the page of a printed paper, in inches; no text is below 7 points at these sizes.
COLUMN, PAGE = 3.5, 7.16
SMALL_TEXT = 7
DPI = 180

# The palette of Okabe and Ito, made to be told apart with any colour vision.
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILION, PURPLE = "#0072b2", "#d55e00", "#cc79a7"
OURS, PAPERS = BLUE, VERMILION
GREY, FAINT = "#666666", "#d9d9d9"
# Light is little and dark is much, so that it holds in grey print; red and blue differ for any colour vision.
SEQUENTIAL, DIVERGING = "Blues", "RdBu_r"

SETTINGS: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": SMALL_TEXT,
    "ytick.labelsize": SMALL_TEXT,
    "legend.fontsize": SMALL_TEXT,
    "legend.frameon": False,
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "image.interpolation": "nearest",
    "pdf.fonttype": 42,
    # Labels come from a user's suite: a dollar sign in them is a dollar sign.
    "text.parse_math": False,
}


@dataclass(frozen=True)
class Look:
    """How a model is drawn in every figure."""

    colour: str
    marker: str
    line: Any


LOOKS = {
    "rbm": Look(BLACK, "o", "-"),
    "orbm": Look(ORANGE, "s", (0, (5, 1.5))),
    "tirbm": Look(GREEN, "^", (0, (5, 1.5, 1, 1.5))),
    "theta": Look(BLUE, "D", (0, (2, 1))),
}


def look_of(model: str) -> Look:
    """Find the look of a model; others than the four are purple."""
    return LOOKS.get(model, Look(PURPLE, "v", "-"))


@contextmanager
def printing() -> Iterator[None]:
    """Draw with Matplotlib's own defaults and the settings above, whatever a user has set; undone at the end."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def new_figure(width: float, height: float, *, pictures: bool = False) -> Any:
    """Make an empty figure of a size in inches, outside any window system; pictures keep their sides equal."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="compressed" if pictures else "constrained")


def legend_below(figure: Any, panels: Iterable[Any], first: Sequence[str] = ()) -> None:
    """Explain each kind of mark once, below all panels; `first` are labels that come before others."""
    marks: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            marks.setdefault(label, handle)
    labels = sorted(marks, key=lambda label: first.index(label) if label in first else len(first))
    columns = len(labels) if figure.get_figwidth() > COLUMN else 2
    figure.legend([marks[label] for label in labels], labels, loc="outside lower center", ncols=columns)
