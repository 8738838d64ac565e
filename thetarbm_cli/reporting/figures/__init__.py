"""Figures of what was measured and learned: `draw` one of the `CATALOGUE` from a `FigureContext`."""

from thetarbm_cli.reporting.figures.catalogue import CATALOGUE, FigureKind, draw, encode, kind_of, make
from thetarbm_cli.reporting.figures.context import FigureContext, figure_context
from thetarbm_cli.reporting.figures.drawing import Drawing, FigureMissing, missing_lines
from thetarbm_cli.reporting.figures.style import FORMATS

__all__ = [
    "CATALOGUE",
    "FORMATS",
    "Drawing",
    "FigureContext",
    "FigureKind",
    "FigureMissing",
    "draw",
    "encode",
    "figure_context",
    "kind_of",
    "make",
    "missing_lines",
]
