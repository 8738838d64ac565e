"""A page for tests: read with the standard library's parser, which must find it well-formed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from thetarbm_cli.reporting.figures import FIGURES, FigureEntry
from thetarbm_cli.reporting.figures.context import Drawing, FigureMissing
from thetarbm_cli.reporting.html.content import Content
from thetarbm_cli.reporting.html.page import render_page
from thetarbm_cli.reporting.html.pictures import draw_pictures
from thetarbm_cli.store import Store

VOID = {"meta", "link", "img", "br", "wbr", "hr", "input"}


@dataclass
class Node:
    """An element; its children are elements and text."""

    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, tag: str, **attributes: str) -> list[Node]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            node
            for node in self.walk()
            if node.tag == tag and all(node.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str, **attributes: str) -> Node:
        (found,) = self.all(tag, **attributes)
        return found


class Reader(HTMLParser):
    """Builds the tree; an end tag that does not fit, or an attribute that is there twice, is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attributes})
        assert len(node.attributes) == len(attributes), (tag, attributes)
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>, line {self.getpos()[0]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(text: str) -> Node:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def draw_dots(context: Any) -> Drawing:
    figure = Figure(figsize=(3.5, 2))
    figure.subplots().plot([1, 2], [2, 1])
    return Drawing(figure)


def draw_lost(context: Any) -> Drawing:
    raise FigureMissing("no weights are here; thetarbm train makes them")


@contextmanager
def few_figures() -> Iterator[None]:
    """Declare one figure that can be drawn and one that cannot, as the real ones take seconds."""
    entries = [
        FigureEntry("dots", "tests.reporting.pages:draw_dots", "Dots", "Two of them."),
        FigureEntry("lost", "tests.reporting.pages:draw_lost", "Lost", "Never seen."),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FIGURES, "own", {entry.name: entry for entry in entries})
        yield


@pytest.fixture
def two_figures() -> Iterator[None]:
    with few_figures():
        yield


def store_in(results: Path) -> Store:
    return Store(results, results, shipped=False)


def page_of(content: Content, results: Path) -> str:
    draw_pictures(content, store_in(results))
    return render_page(content)
