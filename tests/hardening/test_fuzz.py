"""The readers of files that others may have written, fuzzed: they read, or refuse with the documented error.

A few examples of each in every run of the tests; many in the slow ones.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardening.damage import House
from tests.runs import store_of
from tests.suites import SMALL
from thetarbm_cli import documents
from thetarbm_cli.backend import Backend
from thetarbm_cli.data.sources.official import read_table
from thetarbm_cli.data.sources.user_npz import read_user_file
from thetarbm_cli.environment import Costs
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.evaluation import measure
from thetarbm_cli.pipeline import Checkpoints, checkpoint_progress
from thetarbm_cli.specs import TrainSpec
from thetarbm_cli.suite import load_suite, suite_names

YAML_WORDS = (b"&a ", b"*a", b"!!python/object/apply:os.system ", b"<<: ", b"? ", b"- ", b"{", b"[", b"|\n", b"\n\t", b"---\n", b"%TAG ! !\n", b"9e999", b".nan", b"0x", b"1:2:3", b"2001-1-1", b"\x85", b"\xef\xbb\xbf")  # noqa: E501  # fmt: skip
ROW = b"   ".join([b"%.10e" % (value / 12) for value in range(9)]) + b"   7.0\n"
AMAT_WORDS = (b"nan ", b"inf ", b"1e999 ", b"-", b" 0x10 ", b"1_0 ", b"\x00", b"\n", b"   ", b"1e-400 ")


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
    """The bytes with a few parts of them taken out, repeated or replaced."""
    content = whole
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.integers(0, 12) | st.integers(0, len(content)))
        new = draw(st.sampled_from([b"", 2 * content[start:end], *words]) | st.binary(max_size=8))
        content = content[:start] + new + content[end:]
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
    """The tree with a few of its values replaced or taken out."""
    tree = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        *inside, last = draw(st.sampled_from(places_in(tree)))
        parent = functools.reduce(operator.getitem, inside, tree)
        if draw(st.booleans()):
            parent[last] = draw(TREES)
        else:
            del parent[last]
    return tree


@contextlib.contextmanager
def kept(path: Path) -> Iterator[bytes]:
    """The bytes of a file, which has them again after the block."""
    content = path.read_bytes()
    try:
        yield content
    finally:
        path.write_bytes(content)


def refusal(error: type[Exception], function: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """What a function gives, or the sentence of its error; any other error is passed on."""
    try:
        return function(*arguments), ""
    except error as problem:
        return None, str(problem) or "without a word"


def fuzz_suite(house: House, draw: Callable[..., Any]) -> None:
    """Mutated YAML: a suite, or an error with all that is wrong; names for the shell, or none."""
    with kept(house.suite):
        house.suite.write_bytes(draw(mutated_bytes(SMALL.encode(), YAML_WORDS)))
        suite_names(house.suite)
        suite, refused = refusal(InputError, load_suite, house.suite)
    assert not refused or str(house.suite) in refused
    for profile in suite.profiles if suite else ():
        suite.cells(profile)


def fuzz_amat(house: House, draw: Callable[..., Any]) -> None:
    """Mutated text tables: pixels in [0, 1] and labels of digits, or an error with the line."""
    content = draw(mutated_bytes(ROW * 4, AMAT_WORDS))
    images, labels = np.full((4, 9), np.nan, np.float32), np.full(4, -1)
    _, refused = refusal(InputError, read_table, io.BytesIO(content), "table.amat", images, labels)
    if refused:
        assert refused.startswith("table.amat")
        assert "\n" not in refused
        return
    assert images.min() >= 0
    assert images.max() <= 1
    assert set(labels) <= set(range(10))


def fuzz_own(house: House, draw: Callable[..., Any]) -> None:
    """Mutated ``.npz`` of a user: whole data, or an error with the file."""
    with kept(house.images) as whole:
        house.images.write_bytes(draw(mutated_bytes(whole, (b"'|O'", b"(99, ", b"PK\x03\x04"))))
        _check_own(house.images)


def fuzz_own_arrays(house: House, draw: Callable[..., Any]) -> None:
    """Arrays of any type and shape where images, labels and split are to be."""
    kinds = st.sampled_from(["?", "u1", "i1", ">i2", "<i8", "f2", ">f4", "<f8", "c8", "U2", "S1", "M8[s]", "V3", "u8"])
    shapes = st.sampled_from([(), (0,), (7,), (20,), (20, 16), (20, 4, 4), (20, 4, 5), (20, 1, 1), (0, 4, 4), (20, 0)])
    numbers = st.integers(0, 3) | st.sampled_from([-1, 255, 10**6])
    arrays = {}
    for name in draw(st.lists(st.sampled_from(["images", "labels", "split"]), min_size=1, unique=True)):
        values = np.resize(np.array(draw(st.lists(numbers, min_size=1, max_size=9))), draw(shapes))
        with np.errstate(all="ignore"):
            arrays[name] = np.asarray(values.astype(draw(kinds)), order=draw(st.sampled_from("CF")))
    with kept(house.images):
        np.savez(house.images, **arrays)
        _check_own(house.images)


def _check_own(path: Path) -> None:
    arrays, refused = refusal(InputError, read_user_file, path)
    if refused:
        assert str(path) in refused
        assert "\n" not in refused
        return
    images = arrays["images"]
    assert images.dtype in (np.uint8, np.float32)
    assert images.flags.c_contiguous
    assert images.min() >= 0
    assert images.max() <= (255 if images.dtype == np.uint8 else 1)
    assert len(images) == len(arrays["labels"]) == len(arrays["split"])


def read_everywhere(house: House) -> None:
    """All that is shown of records, by every command that reads them."""
    for command in ("tables", "status", "show", "clean", "list"):
        outcome = house(command)
        assert "Traceback" not in outcome.err
        assert "unexpected" not in outcome.err


def fuzz_record_fields(house: House, draw: Callable[..., Any]) -> None:
    """Mutated fields of a record under a checksum that fits: a miss, or a record that everything can be made from."""
    path, store = house.file("record"), store_of(house.data, house.results)
    with kept(path):
        documents.write(path, draw(mutated_tree(documents.read(path))))
        training = store.load(path.parent.name)
        if training is None:
            return
        read_everywhere(house)
        refusal(ThetaRBMError, measure, store, training, [each.spec for each in training.measurements])


def fuzz_measures(house: House, draw: Callable[..., Any]) -> None:
    """Mutated measurements under checksums that fit: missing, or numbers that everything can be made from."""
    path, store = house.file("measures"), store_of(house.data, house.results)
    lines, _ = documents.read_lines(path)
    number = draw(st.integers(0, len(lines) - 1))
    with kept(path):
        lines[number] = draw(mutated_tree(lines[number]))
        path.write_text("".join(f"{documents.line_text(line)}\n" for line in lines if "checksum" not in line))
        assert store.load(path.parent.name) is not None
        read_everywhere(house)


def fuzz_theory(house: House, draw: Callable[..., Any]) -> None:
    """Mutated checks of the mathematics under a checksum that fits: a miss, or verdicts."""
    path = house.file("theory")
    with kept(path):
        documents.write(path, draw(mutated_tree(documents.read(path))))
        read_everywhere(house)


def fuzz_checkpoint(house: House, draw: Callable[..., Any]) -> None:
    """Mutated bytes of a checkpoint: the state as it was, or training starts anew."""
    path = house.file("checkpoint")
    store = store_of(house.data, house.results)
    arrays = store.load_checkpoint(path.parent.name)
    assert arrays is not None
    spec = TrainSpec.model_validate(checkpoint_progress(arrays)["spec"])
    resuming = Checkpoints(store, path.parent.name, spec, Backend(), Costs())
    whole = resuming.resume()
    assert whole is not None
    with kept(path) as content:
        path.write_bytes(draw(mutated_bytes(content, (b"'|O'", b"(99, ", b"'<f2'"))))
        found = resuming.resume()
    if found is not None:
        assert (found.epoch, found.history) == (whole.epoch, whole.history)
        for theirs, ours in ((found.parameters, whole.parameters), (found.increments, whole.increments)):
            assert theirs.keys() == ours.keys()
            for name, value in ours.items():
                np.testing.assert_array_equal(theirs[name], value)


READERS = (
    fuzz_suite, fuzz_amat, fuzz_own, fuzz_own_arrays, fuzz_record_fields, fuzz_measures, fuzz_theory, fuzz_checkpoint,
)  # fmt: skip
Reader = Callable[[House, Callable[..., Any]], None]
COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture
def quiet_house(only_house: House, reader: Reader) -> House:
    """A whole house; warnings are made to texts, though nobody reads the many of them."""
    logger = logging.getLogger("thetarbm")
    logger.handlers[:], logger.propagate = [logging.StreamHandler(io.StringIO())], False
    only_house.put_back("cut off" if reader is fuzz_checkpoint else "whole")
    return only_house


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=25, derandomize=True, **COMMON)
@given(data=st.data())
def test_read_or_refused(quiet_house: House, reader: Reader, data: st.DataObject) -> None:
    reader(quiet_house, data.draw)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=500, derandomize=False, **COMMON)
@given(data=st.data())
def test_read_or_refused_for_longer(quiet_house: House, reader: Reader, data: st.DataObject) -> None:
    reader(quiet_house, data.draw)
