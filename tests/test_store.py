"""The store: what is found, what is never written over, and packs."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.runs import MODELS, files_in, measured, record_of, rewrite, run_of, store_of, tiny, train, wanted
from thetarbm_cli import documents, evaluation, pipeline, store
from thetarbm_cli.errors import InputError, StorageError
from thetarbm_cli.store import MEASUREMENTS, RECORD, WEIGHTS, Store, Training, read_pack


@pytest.fixture
def folders(evaluated: Path, small_data: Path, tmp_path: Path) -> Store:
    """Measured runs, a folder each."""
    shutil.copytree(evaluated, tmp_path / "folders")
    return store_of(small_data, tmp_path / "folders")


@pytest.fixture
def packed(folders: Store, small_data: Path, tmp_path: Path) -> Store:
    """The same runs in one file, and no folder."""
    folders.pack(tmp_path / "results" / "packed" / "all.jsonl.xz", folders.identifiers())
    return store_of(small_data, tmp_path / "results")


@pytest.fixture
def theta(folders: Store) -> str:
    return run_of(folders.results, "theta")


def contents(trainings: list[Training]) -> list[tuple[Any, ...]]:
    return [(each, each.measurements) for each in trainings]


# Records


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 0}, "format 0, and this version reads 2"),
        ({"format": None}, "format None"),
        ({"run": "theta-000000000000"}, "belongs to run theta-000000000000"),
        ({"run": "../theta"}, "run: String should match"),
        ({"future": 1}, "future: Extra inputs"),
        ({"state": "lost"}, "state"),
        ({"weights_sha256": "../../elsewhere"}, "weights_sha256"),
        ({"history": [{"epoch": 1}]}, "history"),
        ({"spec": {"model": "theta"}}, "spec.parameters"),
        ({"seconds": None}, "seconds"),
    ],
)
def test_a_foreign_record_is_a_miss_with_the_reason(
    folders: Store, theta: str, changes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    rewrite(folders.results, theta, changes)
    assert folders.load(theta) is None
    assert [message for message in caplog.messages if reason in message and RECORD in message]
    assert len(folders.trainings()) == len(MODELS) - 1


def test_a_record_needs_its_required_fields_and_no_others(folders: Store, theta: str) -> None:
    whole, path = record_of(folders.results, theta), folders.path(theta, RECORD)
    required = {name for name, field in Training.model_fields.items() if field.is_required()} | {"format"}
    documents.write(path, {name: whole[name] for name in required})
    assert folders.load(theta) is not None
    for name in required:
        documents.write(path, {key: value for key, value in whole.items() if key != name})
        assert folders.load(theta) is None, name


def test_a_training_is_never_written_over_and_a_damaged_record_is_kept(
    folders: Store, theta: str, small_data: Path
) -> None:
    path, training = folders.path(theta, RECORD), folders.require(theta)
    whole, weights = path.read_bytes(), folders.path(theta, WEIGHTS).read_bytes()
    with pytest.raises(StorageError, match="written over"):
        folders.save(training)
    for number in (1, 2):
        damaged = whole[: -20 * number]
        path.write_bytes(damaged)
        again = train(small_data, folders.results, "theta")
        # Under the same name, with the same weights, and what was measured counts.
        assert (again.run, again.weights_sha256) == (theta, training.weights_sha256)
        assert folders.path(theta, f"damaged-{number}.json").read_bytes() == damaged
        assert folders.require(theta).by_key.keys() == training.by_key.keys()
    assert folders.path(theta, WEIGHTS).read_bytes() == weights
    assert len(folders.identifiers()) == len(MODELS)


def test_a_record_of_a_newer_version_is_refused_before_anything_is_made(
    folders: Store, theta: str, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(folders.results, theta, {"format": 3})
    before = files_in(folders.results)
    monkeypatch.setattr(pipeline, "_fit", lambda *_: pytest.fail("it is trained"))
    for use in (lambda: train(small_data, folders.results, "theta"), lambda: folders.require(theta)):
        with pytest.raises(documents.NewerFormatError, match="format 3"):
            use()
    assert files_in(folders.results) == before


def test_force_makes_another_beside_and_the_newest_counts(
    folders: Store, theta: str, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: content for name, content in files_in(folders.results).items() if theta in name}
    spec = tiny("theta")
    for number in (2, 3):
        assert train(small_data, folders.results, spec, force=True).run == f"{theta}-{number}"
    assert {name: content for name, content in files_in(folders.results).items() if f"{theta}/" in name} == before
    newest = folders.find(spec)
    assert newest is not None
    assert (newest.run, newest.number) == (f"{theta}-3", 3)
    # One that diverged hides none that is done.
    rewrite(folders.results, newest.run, {"state": "diverged", "error": "no", "weights_sha256": None})
    assert train(small_data, folders.results, spec).run == f"{theta}-2"


def test_runs_are_found_by_id_beginning_or_path(folders: Store, theta: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folders.path(theta)
    for name in (theta, theta[:-3], str(path), f"{path}/", str(path / RECORD), str(path / WEIGHTS)):
        assert folders.find_run(name) == theta
    # An id wins over longer ones that begin with it.
    shutil.copytree(path, folders.path(f"{theta}-2"))
    rewrite(folders.results, f"{theta}-2", {"run": f"{theta}-2"})
    assert folders.find_run(theta) == theta
    with pytest.raises(InputError, match="write more of the id") as ambiguous:
        folders.find_run(theta[:-1])
    assert f"{theta}-2" in str(ambiguous.value)
    monkeypatch.chdir(folders.results)
    assert Store(Path(), shipped=False).find_run(f"runs/{theta}") == theta
    for name in ("", "*", "theta-zzz"):
        with pytest.raises(InputError, match="there is no run") as refused:
            folders.find_run(name)
        assert str(folders.folder) in str(refused.value)
    with pytest.raises(InputError, match="--results"):
        folders.find_run(f"/elsewhere/runs/{theta}")


# Measurements


def test_a_torn_line_is_named_and_measured_again_and_no_other(
    folders: Store, theta: str, small_data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folders.path(theta, MEASUREMENTS)
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in ([*lines[:-1], lines[-1][:-30]], [lines[0], lines[1].replace(b"0.", b"1.", 1), *lines[2:]]):
        path.write_bytes(b"".join(damaged))
        caplog.clear()
        spec = tiny("theta")
        (lost,) = folders.require(theta).lacking(wanted(spec))
        assert [message for message in caplog.messages if MEASUREMENTS in message and "line" in message]
        training = measured(small_data, folders.results, spec)
        assert training.lacking(wanted(spec)) == []
        kept = [line for line in damaged if line in lines]
        now = path.read_bytes().splitlines(keepends=True)
        assert [line for line in now if line in kept] == kept
        assert training.measurements[-1].spec == lost
        assert len(now) == len(damaged) + 1
        path.write_bytes(b"".join(lines))


def test_numbers_of_the_recorded_weights_stand(folders: Store, theta: str) -> None:
    first = folders.require(theta).measurements[0]
    others = first.model_copy(update={"weights_sha256": "0" * 64, "values": {"gamma_train": 0.25}})
    path = folders.path(theta, MEASUREMENTS)
    rest = path.read_bytes()
    path.write_bytes(documents.line_text(others.model_dump(mode="json")).encode() + b"\n" + rest)
    assert folders.require(theta).by_key[first.spec.key] == first
    rewrite(folders.results, theta, {"weights_sha256": "0" * 64})
    assert folders.require(theta).by_key[first.spec.key] == others


# Packs


def test_packed_records_are_those_of_the_folders(folders: Store, packed: Store) -> None:
    assert not packed.folder.exists()
    assert packed.identifiers() == folders.identifiers() == sorted(store.run_identifiers(packed.results))
    assert contents(packed.trainings()) == contents(folders.trainings())
    run = folders.identifiers()[0]
    assert packed.load(run) == folders.load(run)
    assert packed.find(packed.require(run).spec) == folders.load(run)
    assert packed.find_run(run[:-3]) == run
    assert packed.packs_of(run) == [packed.results / "packed" / "all.jsonl.xz"]


def test_the_same_records_give_the_same_bytes(folders: Store, packed: Store, tmp_path: Path) -> None:
    path, again = packed.results / "packed" / "all.jsonl.xz", tmp_path / "again.jsonl.xz"
    packed.pack(again, reversed(packed.identifiers()))
    assert again.read_bytes() == path.read_bytes()
    # What the pack has stays in it, wherever it lies.
    assert store_of(folders.data_dir, tmp_path / "empty").pack(again, []) == len(MODELS)
    assert again.read_bytes() == path.read_bytes()


def test_a_slim_pack_leaves_out_details_and_no_number(folders: Store, small_data: Path, tmp_path: Path) -> None:
    folders.pack(tmp_path / "slim" / "packed" / "a.jsonl.xz", folders.identifiers(), slim=True)
    for slim in store_of(small_data, tmp_path / "slim").trainings():
        whole = folders.require(slim.run)
        assert {each.spec.key: each.values for each in slim.measurements} == {
            each.spec.key: each.values for each in whole.measurements
        }
        assert not any(each.details for each in slim.measurements)
        assert slim.model_dump() == whole.model_dump()


def test_what_the_user_made_comes_before_what_is_packed(
    folders: Store, packed: Store, theta: str, small_data: Path
) -> None:
    record = packed.require(theta)
    own = record.measurements[0].model_copy(update={"values": {"gamma_train": 0.125}})
    packed.add(own)
    assert packed.require(theta).by_key[own.spec.key] == own
    shutil.copytree(folders.path(theta), packed.path(theta), dirs_exist_ok=True)
    rewrite(packed.results, theta, {"seconds": 1234.5})
    assert packed.require(theta).seconds == 1234.5
    # A damaged record of one's own leaves the packed one.
    packed.path(theta, RECORD).write_bytes(b"{")
    assert packed.require(theta) == record.model_copy(update={"measurements": packed.require(theta).measurements})
    assert train(small_data, packed.results, "theta").run == theta


def test_weights_and_measurements_of_a_packed_run(packed: Store, theta: str, small_data: Path) -> None:
    before = packed.require(theta)
    with pytest.raises(InputError, match="weights"):
        measure_gamma(packed, before, offset=10.0)
    assert pipeline.train(packed, before.spec)[1] is False
    assert pipeline.train(packed, before.spec)[1] is True
    found = measure_gamma(packed, before, offset=10.0)
    assert not packed.path(theta, RECORD).exists()
    assert len(found.by_key) == len(before.by_key) + 2
    packed.pack(packed.results / "packed" / "all.jsonl.xz", [theta])
    shutil.rmtree(packed.folder)
    assert packed.require(theta).by_key == found.by_key


def measure_gamma(store: Store, training: Training, **settings: Any) -> Training:
    return evaluation.measure(store, training, wanted(training.spec, ["gamma"], **settings))[0]


def test_only_what_a_pack_has_is_removed(
    folders: Store, theta: str, small_data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folders.results / "packed" / "all.jsonl.xz"
    folders.pack(path, folders.identifiers())
    before = {each.run: (each.model_dump(), each.by_key) for each in folders.trainings()}
    # Measured since, with another number, held by another process: these stay.
    later, changed, held = theta, run_of(folders.results, "rbm"), run_of(folders.results, "tirbm")
    measured(small_data, folders.results, "theta", ["gamma"], offset=10.0)
    lines, _ = documents.read_lines(folders.path(changed, MEASUREMENTS))
    lines[0]["values"]["gamma_train"] = 0.5
    folders.path(changed, MEASUREMENTS).write_text("".join(f"{documents.line_text(line)}\n" for line in lines))
    with folders.locked(held):
        removed = folders.remove_packed(path)
    assert set(removed) == set(folders.identifiers()) - {later, changed, held}
    assert [run for run in (later, changed, held) if folders.path(run, RECORD).is_file()] == [later, changed, held]
    assert all(any(run in message for message in caplog.messages) for run in (later, changed, held))
    for run in removed:
        assert not folders.path(run, RECORD).exists()
        assert folders.path(run, WEIGHTS).is_file()
        assert (folders.require(run).model_dump(), folders.require(run).by_key) == before[run]


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "empty", "twice", "bomb", "folder"])
def test_a_damaged_pack_is_named_and_the_rest_stays(
    packed: Store,
    folders: Store,
    theta: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    monkeypatch.setattr(store, "LARGEST_PACK", 1 << 27)
    folders.pack(packed.results / "packed" / "good.jsonl.xz", [theta])
    path = packed.results / "packed" / "all.jsonl.xz"
    content = path.read_bytes()
    damages = {
        "cut": lambda: content[:-40],
        "flip": lambda: content[:400] + bytes([content[400] ^ 1]) + content[401:],
        "text": lambda: b"no pack",
        "empty": lambda: b"",
        "twice": lambda: content + content,
        "bomb": lambda: lzma.compress(bytes((1 << 27) + 1), preset=0),
    }
    path.unlink()
    path.mkdir() if damage == "folder" else path.write_bytes(damages[damage]())
    assert [training.run for training in packed.trainings()] == [theta]
    assert [message for message in caplog.messages if str(path) in message]
    # Nothing is written over what somebody may still mend.
    before = files_in(packed.results)
    with pytest.raises(InputError, match="move it away"):
        packed.pack(path, [theta])
    assert files_in(packed.results) == before


@pytest.mark.parametrize(
    "line",
    [
        {"format": 2},
        {"format": 2, "spec": "x"},
        {"format": 3, "spec": {}},
        {"spec": {}},
        {"format": 2, "run": "../../escape", "spec": {"seed": 0}},
        {},
    ],
)
def test_bad_lines_of_a_whole_pack_are_missing_alone(packed: Store, theta: str, line: dict[str, Any]) -> None:
    path = packed.results / "packed" / "all.jsonl.xz"
    lines = [each for run in read_pack(path).values() for each in run if each["run"] != theta or "format" not in each]
    for run in (theta, line.get("run", theta)):
        bad = documents.line_text({**line, "run": run})
        text = "\n".join([bad, *map(documents.line_text, lines), "{}", ""])
        path.write_bytes(lzma.compress(text.encode()))
        assert {training.run for training in packed.trainings()} == set(folders_without(packed, theta))
        assert packed.find(tiny("theta")) is None
        assert packed.find(tiny("rbm")) is not None
        assert packed.remove_packed(path) == []


def folders_without(store: Store, run: str) -> list[str]:
    return [each for each in store.identifiers() if each != run and "/" not in each]


def test_only_usable_runs_and_names_that_are_found_are_packed(packed: Store, tmp_path: Path) -> None:
    for path, runs in ((tmp_path / "x.jsonl.xz", ["theta-0"]), (tmp_path / "x.xz", packed.identifiers())):
        with pytest.raises(InputError):
            packed.pack(path, runs)
        assert not path.exists()


def test_packs_of_the_package_are_below_the_users_own(
    packed: Store, folders: Store, theta: str, small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an installation from a wheel: any folder has the runs of the package; nothing is written for them."""
    monkeypatch.setattr(store, "shipped_packs", lambda: packed.results / "packed")
    own = Store(tmp_path / "elsewhere", small_data)
    assert own.identifiers() == folders.identifiers()
    assert own.require(theta).lacking(wanted(tiny("theta"))) == []
    assert not own.results.exists()
    # A pack of the same name is the same pack: it is read once.
    folders.pack(own.results / "packed" / "all.jsonl.xz", [theta])
    assert own.identifiers() == [theta]
    assert store_of(small_data, tmp_path / "none").identifiers() == []
