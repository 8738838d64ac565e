"""The page as text: content filled into the templates, style and script inside, everything else escaped."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import thetarbm_cli
from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import MEASURES
from thetarbm_cli.reporting.claims import NO_DATA, NOT, NOT_VERIFIED, OPEN, REPRODUCED, VERIFIED
from thetarbm_cli.reporting.html.content import (
    Content,
    about_table,
    environments,
    measure_label,
    revisions,
    signed,
    universe_models,
    universe_rows,
)
from thetarbm_cli.reporting.render import RULE, published_text

PACKAGE = "thetarbm_cli.reporting.html"
# Characters of a piece of code that a line of a phone holds.
LONGEST_WHOLE = 30
# A verdict is shown by a sign and a word, never by colour alone.
LOOKS = {
    REPRODUCED: ("good", "✓"),
    VERIFIED: ("good", "✓"),
    OPEN: ("half", "≈"),
    NOT: ("bad", "✗"),
    NOT_VERIFIED: ("bad", "✗"),
    NO_DATA: ("none", "–"),
}


def render_page(content: Content, written: str = "") -> str:
    """Write the whole page; the same content gives the same text.

    Parameters
    ----------
    written : the date that it shows
    """
    trainings = list(content.trainings.values())
    style, script = _asset("report.css"), _asset("report.js")
    templates = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "words_of": words_of,
        "about_table": about_table,
        "prose": prose,
        "measure_label": measure_label,
        "signed": signed,
    }
    templates.globals |= {
        "published_text": published_text,
        "command_line": command_line,
        "measures": MEASURES,
        "seeds": {each.run: each.spec.seed for each in trainings},
        "next_number": itertools.count().__next__,
    }
    return templates.get_template("report.html.j2").render(
        policy=policy(style, script),
        style=style,
        script=script,
        version=thetarbm_cli.__version__,
        suite=content.suite,
        suite_text=content.suite_text,
        profile=content.profile,
        written=written,
        trainings=content.trainings,
        revisions=revisions(trainings),
        made_by_hand=content.made_by_hand,
        universes=content.universes,
        shares=content.shares,
        universe_models=universe_models,
        universe_rows=universe_rows,
        sections=content.sections,
        environments=environments(trainings),
        looks=LOOKS,
        rule=RULE.replace("*", ""),
    )


def policy(style: str, script: str) -> str:
    """Write the page's Content-Security-Policy: this style, this script and pictures inside it, nothing else."""
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def prose(text: str) -> Markup:
    """Escape a sentence, with words in backticks as code and the index of a symbol, as in W_s, below the line.

    Names of models, numbers with their units and short pieces of code are not broken.
    """
    return Markup("").join(
        _code(piece) if is_code % 2 else _sentence(piece) for is_code, piece in enumerate(re.split("`([^`]+)`", text))
    )


def _code(text: str) -> Markup:
    whole = Markup(' class="whole"') if len(text) <= LONGEST_WHOLE else ""
    return Markup("<code{}>{}</code>").format(whole, text)


def _sentence(text: str) -> Markup:
    text = text.replace("theta-RBM", "θ-RBM")
    text = re.sub(r"(?<=\d) (?=(?:%|px|points?)(?!\w))|(?<=\w) (?=[=±] )|(?<=[=±]) ", "\N{NO-BREAK SPACE}", text)
    text = re.sub(r"(?<=\b[A-ZΑ-Ωα-ω])_([A-Za-z0-9α-ω])\b", r"<sub>\1</sub>", str(escape(text)))
    return Markup(re.sub("((?:θ|TI|O)-RBM)", r'<span class="whole">\1</span>', text))


def words_of(name: str) -> list[str]:
    """Split a name after each mark where a line may be broken."""
    return re.findall(r"[^/,=_]+[/,=_]?|[/,=_]", name)


def _asset(name: str) -> str:
    return resources.files(PACKAGE).joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Name a text as a Content-Security-Policy does."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
