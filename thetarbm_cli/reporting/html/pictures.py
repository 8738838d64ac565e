"""The figures of the page, as data inside it; one that cannot be drawn is named with the reason."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.followup import command_line
from thetarbm_cli.reporting.figures import FIGURES, FigureEntry, encode, make
from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.style import DPI

if TYPE_CHECKING:
    from thetarbm_cli.reporting.html.content import Content, PageSection
    from thetarbm_cli.store import Store

# The page stays below 5 MB: data in it takes 4/3 of its bytes, and text some hundred kilobytes.
LARGEST_FIGURE = 600_000
LARGEST_TOTAL = 3_000_000
# Figures are drawn at the size of print; a screen is looked at from farther away.
PIXELS_PER_INCH = 96 * 1.3
KINDS = {"svg": "image/svg+xml", "png": "image/png"}

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class Image:
    """A picture as a file has it, in one of `KINDS`, with its width and height."""

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
    missing : what it lacks, or why it cannot be drawn, with the commands that help
    drawn_before : whether it is a file of ``thetarbm figures``, as it cannot be drawn now
    command : draws it as a file
    """

    figure: FigureEntry
    image: Image | None
    missing: list[str]
    drawn_before: bool
    command: str


def draw_pictures(content: Content, store: Store, progress: Callable[[int, int], None] | None = None) -> None:
    """Draw every figure into the content, for each source of the paper's images."""
    left = LARGEST_TOTAL
    loaded: dict[Any, Any] = {} if content.universes is None else {"universes": content.universes}
    wanted: list[tuple[PageSection, FigureContext, FigureEntry]] = []
    for section in content.sections:
        section.pictures.clear()
        if section.source.is_papers:
            # Some figures show cells that no table has.
            cells = content.suite.cells(content.profile, section.results.source_option())
            results = replace(section.results, cells=cells)
            context = FigureContext(content.suite, store, content.profile, results, loaded=loaded)
            # Universes have sources of their own: they are shown once, if there are any.
            has_universes = content.universes is not None and not wanted
            wanted += [(section, context, each) for each in FIGURES if each.needs != "universes" or has_universes]
    for number, (section, context, figure) in enumerate(wanted, start=1):
        image, missing, before = _image(figure.name, context)
        size = 0 if image is None else len(image.content)
        if size > min(LARGEST_FIGURE, left):
            image, missing, size = None, [f"its {size} bytes are too many for this page"], 0
        left -= size
        command = command_line("figures", figure.name, profile=content.profile, source=context.results.source_option())
        section.pictures.append(Picture(figure, image, missing, before, command))
        if progress is not None:
            progress(number, len(wanted))


def _image(name: str, context: FigureContext) -> tuple[Image | None, list[str], bool]:
    """Draw a figure, or read it from the results folder where it cannot be drawn; what it lacks, and which it was."""
    try:
        drawing = make(name, context)
        # Vector graphics stay sharp; pixels where those are large.
        form, content = "svg", encode(name, drawing, "svg")
        if len(content) > LARGEST_FIGURE // 2:
            form, content = "png", encode(name, drawing, "png")
        image = Image(form, content, tuple(drawing.figure.get_size_inches()))
        return image, context.results.missing_lines(drawing.cells), False
    except ThetaRBMError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  what is wrong with one figure must not cost the page
        reason = f"unexpected {type(error).__name__}: {error}"
        logger.warning("figure %s: %s", name, reason)
    # A clone has the figures of the paper's profile, but no weights to draw them from.
    before = _read(context.store.results / "figures" / f"{name}{context.suffix}.png")
    return before, [reason], before is not None


def _read(path: Path) -> Image | None:
    """Read a picture that ``thetarbm figures`` has written; None if there is none."""
    import PIL.Image

    try:
        content = path.read_bytes()
        with PIL.Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            return Image("png", content, (image.width / DPI, image.height / DPI))
    except OSError:
        return None
