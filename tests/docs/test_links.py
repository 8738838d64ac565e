from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, FENCE, PAGES, ROOT, without_code

LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    # The text of a link may be code, which is cut out of the page.
    return LINK.findall(without_code(page))


def broken(page: Path) -> list[str]:
    """Links of a page to files and headings that are not there."""
    found = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.exists() and target.is_relative_to(ROOT)
        if not inside or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_readme_links_every_page_of_the_docs() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md") if ":" not in link}
    assert sorted(set(DOCS.glob("*.md")) - linked) == []
