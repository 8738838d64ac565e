"""The page as text: sections filled into the template, style and script inside, everything else escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import thetarbm_cli
from thetarbm_cli.reporting.carried import CARRIES
from thetarbm_cli.reporting.carried import NOT as NOT_CARRIED
from thetarbm_cli.reporting.frame import Numbers, Source
from thetarbm_cli.reporting.html.environments import environments
from thetarbm_cli.reporting.html.grids import Grid, every_number, grid
from thetarbm_cli.reporting.html.material import Material
from thetarbm_cli.reporting.html.numerals import Numeral
from thetarbm_cli.reporting.html.pictures import Picture
from thetarbm_cli.reporting.html.reruns import Rerun, reruns
from thetarbm_cli.reporting.verdicts import NO_DATA, NOT, PARTLY, REPRODUCED, Verdict

PACKAGE = "thetarbm_cli.reporting.html"
# A verdict is told by a sign and a word, never by colour alone.
SIGNS = {REPRODUCED: "✓", CARRIES: "✓", PARTLY: "◐", NOT: "✗", NOT_CARRIED: "✗", NO_DATA: "–"}
CLASSES = {REPRODUCED: "good", CARRIES: "good", PARTLY: "half", NOT: "bad", NOT_CARRIED: "bad", NO_DATA: "none"}


@dataclass(frozen=True)
class Part:
    """What the page shows of one source of images.

    Attributes
    ----------
    beside : whether the images are of another data set than the paper's
    """

    name: str
    source: Source
    beside: bool
    verdicts: list[Verdict]
    counts: list[tuple[str, int]]
    grids: list[Grid]
    numerals: list[Numeral]
    pictures: list[Picture]
    absent: list[Picture]
    reruns: list[Rerun]


def render_page(material: Material, pictures: Sequence[Picture]) -> str:
    """The whole page; the same material gives the same text."""
    style, script = _asset("report.css"), _asset("report.js")
    templates = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["breakable"] = breakable
    content: dict[str, Any] = {
        "policy": policy(style, script),
        # Ours, and the only text that is not escaped.
        "style": Markup(style),
        "script": Markup(script),
        "version": thetarbm_cli.__version__,
        "suite": material.suite,
        "suite_text": material.suite_text,
        "profile": material.profile,
        "records": material.records,
        "parts": [
            _part(material, numbers, verdicts, pictures, f"source{number}")
            for number, (numbers, verdicts) in enumerate([*material.report.verdicts, *material.report.carried])
        ],
        "environments": environments(material.records),
        "signs": SIGNS,
        "classes": CLASSES,
    }
    return templates.get_template("report.html.j2").render(content)


def policy(style: str, script: str) -> str:
    """The page's Content-Security-Policy: this style, this script and pictures inside it, nothing else."""
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def breakable(name: str) -> Markup:
    """A name that may be broken after each part of it."""
    return Markup("<wbr>").join(re.findall(r"[^/,=_]+[/,=_]?|[/,=_]", name))


def _part(
    material: Material, numbers: Numbers, verdicts: list[Verdict], pictures: Sequence[Picture], name: str
) -> Part:
    counted = Counter(verdict.verdict for verdict in verdicts)
    beside = any(numbers is each for each, _ in material.report.carried)
    words = (CARRIES, PARTLY, NOT_CARRIED, NO_DATA) if beside else (REPRODUCED, PARTLY, NOT, NO_DATA)
    own = [picture for picture in pictures if picture.source == numbers.source]
    return Part(
        name=name,
        source=numbers.source,
        beside=beside,
        verdicts=verdicts,
        counts=[(word, counted[word]) for word in words],
        grids=[grid(numbers, table, f"{name}-table{table.name}") for table in material.report.tables[numbers.source]],
        numerals=every_number(numbers, f"{name}-number"),
        pictures=[picture for picture in own if picture.image is not None],
        absent=[picture for picture in own if picture.image is None],
        reruns=reruns(material, numbers),
    )


def _asset(name: str) -> str:
    return resources.files(PACKAGE).joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A text as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
