"""Packed records: read like folders, below them; written the same for the same records; damaged, they are missing."""

from __future__ import annotations

import logging
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.runs import Command, run_of
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs import packing
from thetarbm_cli.experiments.runs.packing import pack_records, read_pack
from thetarbm_cli.experiments.runs.record import LEFT_OUT
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite_file import packed_identifiers


@pytest.fixture
def folders(evaluated: Path, tmp_path: Path) -> RunStore:
    """Measured runs, a folder each."""
    shutil.copytree(evaluated, tmp_path / "folders")
    return RunStore(tmp_path / "folders")


@pytest.fixture
def packed(folders: RunStore, tmp_path: Path) -> RunStore:
    """The same runs in one file, and no folder."""
    pack_records(folders, tmp_path / "results" / "packed" / "all.records.xz", folders.identifiers(), slim=False)
    return RunStore(tmp_path / "results")


def names_in(value: Any) -> set[str]:
    """Every name of a JSON document, at whatever depth."""
    if isinstance(value, dict):
        return {*value, *(name for each in value.values() for name in names_in(each))}
    return {name for each in value for name in names_in(each)} if isinstance(value, list) else set()


def test_packed_records_are_those_of_the_folders(folders: RunStore, packed: RunStore) -> None:
    assert not packed.folder.exists()
    assert packed.identifiers() == folders.identifiers()
    assert packed.load_all() == folders.load_all()
    run = folders.identifiers()[0]
    assert packed.load(run) == folders.load(run)
    assert packed.find(run[:-3]) == run
    assert packed_identifiers(packed.packed) == packed.identifiers(), "as completion has them"


def test_same_records_give_the_same_bytes_also_from_a_pack(folders: RunStore, packed: RunStore, tmp_path: Path) -> None:
    again = tmp_path / "again.records.xz"
    pack_records(packed, again, reversed(packed.identifiers()), slim=False)
    assert again.read_bytes() == (packed.packed / "all.records.xz").read_bytes()


def test_slim_leaves_out_lists_and_no_number(folders: RunStore, tmp_path: Path) -> None:
    pack_records(folders, tmp_path / "slim" / "packed" / "a.records.xz", folders.identifiers())
    for record in RunStore(tmp_path / "slim").load_all():
        whole = folders.load(record.run)
        assert list(record.metrics.numbers()) == list(whole.metrics.numbers())
        assert not names_in(record.document()) & set(LEFT_OUT)
        assert record.model_copy(update={"metrics": None}) == whole.model_copy(update={"metrics": None})


def test_a_folder_hides_the_packed_record_and_whole_records_hide_slim_ones(folders: RunStore, packed: RunStore) -> None:
    run = run_of(packed.folder.parent, "theta")
    pack_records(folders, packed.packed / "a-slim.records.xz", [run])
    record = packed.load(run)
    assert "per_unit" in names_in(record.document())
    packed.save(record.model_copy(update={"seed": 7}))
    assert [each.seed for each in packed.load_all() if each.run == run] == [7]
    assert packed.load(run) == record.model_copy(update={"seed": 7})


@pytest.mark.parametrize("damage", ["cut", "flip", "newer", "text", "checksum", "bomb"])
def test_damaged_pack_is_named_and_the_rest_stays(
    packed: RunStore,
    folders: RunStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    monkeypatch.setattr(packing, "LARGEST_BYTES", 1 << 27)
    caplog.set_level(logging.WARNING, "thetarbm")
    good = run_of(folders.folder.parent, "theta")
    pack_records(folders, packed.packed / "good.records.xz", [good])
    path = packed.packed / "all.records.xz"
    content = path.read_bytes()
    text = lzma.decompress(content)
    damages = {
        "cut": lambda: content[:-40],
        "flip": lambda: content[:400] + bytes([content[400] ^ 1]) + content[401:],
        "newer": lambda: lzma.compress(text.replace(b'"format":1', b'"format":2', 1)),
        "text": lambda: b"no pack",
        "checksum": lambda: lzma.compress(text.replace(b'"seed":0', b'"seed":1', 1)),
        "bomb": lambda: lzma.compress(bytes((1 << 27) + 1), preset=0),
    }
    path.write_bytes(damages[damage]())
    assert [record.run for record in packed.load_all()] == [good]
    assert [str(path) in message for message in caplog.messages] == [True]


def test_one_bad_record_of_a_whole_pack_is_missing_alone(
    packed: RunStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "thetarbm")
    pack = read_pack(packed.packed / "all.records.xz")
    bad, *others = packed.identifiers()
    for line in (b"[]", b'{"record":{}}', b'{"record":{"format":1}}', b'{"x":1e999}', pack.lines[others[0]], b"nul"):
        changed = pack.__class__(pack.path, pack.contents, {**pack.lines, bad: line})
        monkeypatch.setattr("thetarbm_cli.experiments.runs.store.find_packs", lambda *folders, it=changed: [it])
        assert [record.run for record in packed.load_all()] == others
        assert bad in caplog.messages[-1]


def test_only_usable_runs_and_names_that_are_found_are_packed(packed: RunStore, tmp_path: Path) -> None:
    for path, runs in ((tmp_path / "x.records.xz", ["theta-0"]), (tmp_path / "x.xz", packed.identifiers())):
        with pytest.raises(InputError):
            pack_records(packed, path, runs)
        assert not path.exists()


def test_later_measures_and_weights_of_a_packed_run(thetarbm: Command, packed: RunStore) -> None:
    results, run = packed.folder.parent, run_of(packed.folder.parent, "theta")
    before = packed.load(run)
    assert thetarbm("evaluate", run).code == 0
    assert thetarbm("evaluate", run, "--offset", "10").code == 2, "its weights are missing"
    again = thetarbm("train", "--model", "theta", "--profile", "tiny", "--json").json
    assert (again["run"], again["cached"]) == (run, False)
    assert thetarbm("train", "--model", "theta", "--profile", "tiny", "--json").json["cached"]
    assert packed.load(run) == before
    assert thetarbm("evaluate", run, "--offset", "10").code == 0
    assert not (results / "runs" / run / "run.json").exists()
    found = packed.load(run)
    assert found.metrics.score(10.0, "train") is not None
    shown = thetarbm("show", run, "--json").json
    assert shown["path"].endswith("all.records.xz")
    assert shown["weights"] == "there"
    assert thetarbm("features", run, "--out", str(results / "x.npz")).code == 0
    assert run in thetarbm("clean", "--weights", "--yes").out
    assert thetarbm("show", run, "--json").json["weights"] == "missing"
    # What was measured later is packed and read with the rest.
    pack_records(packed, results / "packed" / "all.records.xz", packed.identifiers())
    shutil.rmtree(packed.folder)
    record = packed.load(run)
    assert record.metrics.score(10.0, "train") is not None


def test_packs_with_the_same_run_lose_no_measure(thetarbm: Command, folders: RunStore, tmp_path: Path) -> None:
    results, run = tmp_path / "results", run_of(folders.folder.parent, "rbm")
    measures = (("a", None), ("b", "10"), ("c", "30"))
    for name, offset in measures:
        copied = RunStore(tmp_path / name)
        shutil.copytree(folders.folder, copied.folder)
        if offset:
            assert thetarbm("evaluate", run, "--offset", offset, results=tmp_path / name).code == 0
        pack_records(copied, results / "packed" / f"{name}.records.xz", [run], slim=name == "b")
    whole = RunStore(tmp_path / "c").load_parts(run)
    assert thetarbm("pack", run, "--out", str(results / "packed" / "a.records.xz")).code == 0
    for name in ("b", "c"):
        (results / "packed" / f"{name}.records.xz").unlink()
    found = RunStore(results).load_parts(run)
    # Each measurement once, the record's own numbers as they were.
    assert [later.metrics.gamma_offsets[0].offset for later in found.measurements] == [30, 10]
    assert found.record == whole.record
    assert found.measurements[0] == whole.measurements[0]
    # A record that failed or was not measured hides none that was.
    bare = whole.record.model_copy(update={"metrics": None})
    RunStore(tmp_path / "d").save(bare)
    pack_records(RunStore(tmp_path / "d"), results / "packed" / "0.records.xz", [run], slim=False)
    assert RunStore(results).load_parts(run) == found


def test_forced_record_hides_the_packed_one_and_keeps_its_measures(thetarbm: Command, packed: RunStore) -> None:
    run = run_of(packed.folder.parent, "theta")
    assert thetarbm("train", "--model", "theta", "--profile", "tiny").code == 0
    assert thetarbm("evaluate", run, "--offset", "10").code == 0
    assert thetarbm("evaluate", run, "--force").code == 0
    assert packed.record_path(run).is_file()
    assert (packed.path(run) / "previous" / "measures-1.json").is_file()


def test_records_of_the_package_are_below_the_users_own(
    packed: RunStore, folders: RunStore, thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an installation from a wheel: any folder has the runs of the package; nothing is written for them."""
    monkeypatch.setattr("thetarbm_cli.experiments.runs.store.shipped_packs", lambda: packed.packed)
    elsewhere = tmp_path / "elsewhere"
    listed = thetarbm("list", "--json", results=elsewhere).json["runs"]
    assert [run["run"] for run in listed] == folders.identifiers()
    theta = run_of(elsewhere, "theta")
    assert thetarbm("evaluate", theta, "--json", results=elsewhere).json["runs"][0]["cached"]
    assert thetarbm("show", theta, results=elsewhere).code == 0
    tables = thetarbm("tables", "--profile", "tiny", "--json", results=elsewhere).json["tables"]
    assert any(line["mean"] is not None for line in tables["1"])
    assert not elsewhere.exists()
    own = RunStore(elsewhere)
    record = own.load(theta)
    own.save(record.model_copy(update={"seed": 7}))
    assert [each.seed for each in own.load_all() if each.run == theta] == [7]
    # A pack of the same name is the same pack: it is read once.
    pack_records(folders, own.packed / "all.records.xz", [theta])
    assert own.identifiers() == [theta]
    assert not RunStore(tmp_path / "none", shipped=False).identifiers()
