"""The figures of the page, as data inside it; one that cannot be drawn is named with the reason."""

from __future__ import annotations

import base64
import logging
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.runs.training import Workplace
from thetarbm_cli.reporting.figures import CATALOGUE, Drawing, FigureContext, encode, make, missing_lines
from thetarbm_cli.reporting.figures.style import DPI
from thetarbm_cli.reporting.frame import Source
from thetarbm_cli.reporting.html.material import Material
from thetarbm_cli.reporting.html.reruns import choice_of

# The page stays below 5 MB: data in it takes 4/3 of its bytes, and text some hundred kilobytes.
LARGEST_FIGURE = 600_000
LARGEST_TOTAL = 3_000_000
# Figures are drawn at the size of print; a screen is looked at from farther away.
PIXELS_PER_INCH = 96 * 1.3
KINDS = {"svg": "image/svg+xml", "png": "image/png"}
PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class Image:
    """A picture as a file has it.

    Attributes
    ----------
    form : one of `KINDS`
    inches : width and height
    """

    form: str
    content: bytes
    inches: tuple[float, float]

    @property
    def uri(self) -> str:
        """The picture as a ``data:`` address."""
        return f"data:{KINDS[self.form]};base64,{base64.b64encode(self.content).decode()}"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the screen, in CSS pixels."""
        width, height = self.inches
        return round(width * PIXELS_PER_INCH), round(height * PIXELS_PER_INCH)


@dataclass(frozen=True)
class Picture:
    """A figure, or why there is none.

    Attributes
    ----------
    image : None if it cannot be shown
    gaps : what it lacks, or why it cannot be drawn, with the commands that help
    command : draws it as a file
    """

    name: str
    source: Source
    title: str
    caption: str
    image: Image | None
    gaps: list[str]
    command: str


def draw_pictures(
    material: Material, place: Workplace, progress: Callable[[int, int], None] | None = None
) -> list[Picture]:
    """Every figure of the catalogue, for each source of the paper's images."""
    pictures: list[Picture] = []
    left = LARGEST_TOTAL
    total = len(material.report.verdicts) * len(CATALOGUE)
    for numbers, _ in material.report.verdicts:
        choice = choice_of(material, numbers.source)
        context = FigureContext(material.suite, place, material.profile, choice.source, numbers)
        for name, kind in CATALOGUE.items():
            image, gaps = _image(name, context)
            taken = 0 if image is None else len(image.content)
            if taken > min(LARGEST_FIGURE, left):
                image, gaps, taken = None, [f"its {taken} bytes are too many for this page"], 0
            left -= taken
            command = shlex.join(["thetarbm", "figures", name, *choice.options()])
            pictures.append(Picture(name, numbers.source, kind.title, kind.caption, image, gaps, command))
            if progress is not None:
                progress(len(pictures), total)
    return pictures


def _image(name: str, context: FigureContext) -> tuple[Image | None, list[str]]:
    """A figure drawn now, or as it lies in the results folder where that cannot be, and what it lacks."""
    try:
        drawing = make(name, context)
        return _encoded(name, drawing), missing_lines(context, [drawing])
    except ThetaRBMError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  what is wrong with one figure must not cost the page
        reason = f"unexpected {type(error).__name__}: {error}"
        logger.warning("figure %s: %s", name, reason)
    # A clone has the figures of the paper's profile, but no weights to draw them from.
    path = context.place.store.folder.parent / "figures" / f"{name}{context.suffix}.png"
    image = _read(path)
    return image, [reason] if image is None else [f"drawn before, from {path.name}: {reason}"]


def _encoded(name: str, drawing: Drawing) -> Image:
    """Vector graphics, which stay sharp; pixels where those are large."""
    width, height = drawing.figure.get_size_inches()
    image = Image("svg", encode(name, drawing, "svg"), (width, height))
    if len(image.content) <= LARGEST_FIGURE // 2:
        return image
    return Image("png", encode(name, drawing, "png"), (width, height))


def _read(path: Path) -> Image | None:
    """A picture as ``thetarbm figures`` writes it; None if there is none."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if not content.startswith(PNG_START):
        return None
    # The first part of every PNG says how many pixels there are, in four bytes each.
    start = len(PNG_START)
    width, height = (int.from_bytes(content[at : at + 4], "big") / DPI for at in (start, start + 4))
    return Image("png", content, (width, height))
