"""Files and JSON trees that are almost right: what a fuzzer draws from a whole one."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.sampled_from([10**30, -(2**63), 0.1, -1e300, 5e-324, "", "NaN", "0", "../..", "\x00\x1b[2J\n", "é" * 300, "𝛉"])
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated_bytes(draw: st.DrawFn, whole: bytes, words: tuple[bytes, ...] = ()) -> bytes:
    """The bytes after a few cuts, flips, repetitions and insertions."""
    content = whole
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 12) | st.integers(0, len(content)))
        way = draw(st.sampled_from(["cut off", "cut out", "flip", "repeat", "insert"]))
        if way == "cut off":
            content = content[:start]
        elif way == "cut out":
            content = content[:start] + content[start + length :]
        elif way == "flip" and start < len(content):
            changed = content[start] ^ draw(st.integers(1, 255))
            content = content[:start] + bytes([changed]) + content[start + 1 :]
        elif way == "repeat":
            content = content[: start + length] + content[start:][:2000]
        elif way == "insert":
            new = draw(st.binary(max_size=8) | (st.sampled_from(words) if words else st.nothing()))
            content = content[:start] + new + content[start:]
    return content


def places_in(tree: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there is something in a JSON tree; of a long list, its first entries."""
    found = [place] if place else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += places_in(value, (*place, key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree[:3]):
            found += places_in(value, (*place, number))
    return found


@st.composite
def mutated_tree(draw: st.DrawFn, whole: dict[str, Any]) -> dict[str, Any]:
    """The tree with a few of its values replaced, taken out or joined by others."""
    tree = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        places = places_in(tree)
        if not places:
            break
        *inside, last = draw(st.sampled_from(places))
        parent = tree
        for key in inside:
            parent = parent[key]
        way = draw(st.sampled_from(["replace", "take out", "add"]))
        if way == "replace":
            parent[last] = draw(TREES)
        elif way == "take out":
            del parent[last]
        elif isinstance(parent, dict):
            parent[draw(st.text(max_size=8))] = draw(TREES)
        else:
            parent.append(draw(TREES))
    return tree
