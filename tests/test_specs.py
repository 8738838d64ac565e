from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError

from thetarbm_cli import parameters
from thetarbm_cli.errors import InputError
from thetarbm_cli.registry import MODELS
from thetarbm_cli.specs import (
    OFFSET,
    MeasureSettings,
    MeasureSpec,
    TrainSpec,
    measure_settings,
    measure_specs,
    measuring,
    parse_assignments,
    plugin_code,
    train_settings,
    train_spec,
)

SHA = "a" * 64


# A training


@pytest.mark.parametrize("model", MODELS.own)
def test_a_description_is_complete(model: str) -> None:
    spec = train_spec(model, {})
    assert spec.parameters == parameters.defaults(model)
    assert spec.named().keys() == {*parameters.declared(model), *(name for name in train_settings() if "data." in name)}
    assert spec.differing() == {}
    assert json.loads(spec.key) == spec.model_dump(mode="json")


def test_settings_have_their_names() -> None:
    given = {"sparsity": 0.1, "data.train": 300, "data.seed": 2, "perturbation.n": 2, "perturbation.p": 0.5}
    spec = train_spec("theta", given, seed=4)
    assert spec.parameters["sparsity"] == 0.1
    assert (spec.data.train, spec.data.seed, spec.seed) == (300, 2, 4)
    usual = {"overflow": "modulo", "statistics": "after", "redrawn": "never"}
    assert dict(spec.perturbation or ()) == {"n": 2, "p": 0.5, **usual}
    assert spec.differing() == given
    # From these it is made again.
    assert train_spec("theta", spec.differing(), seed=4) == spec


def test_equal_descriptions_have_one_key() -> None:
    one = train_spec("rbm", {"sparsity": 0.1, "epochs": 5})
    other = train_spec("rbm", {"epochs": 5, "hidden": 500, "sparsity": 0.1, "weight_decay": 0.0001})
    assert one == other
    assert one.key == other.key
    assert one.run_id(SHA) == other.run_id(SHA)
    # A whole number given for a number is one.
    assert train_spec("rbm", {"floor": 0}).key == train_spec("rbm", {"floor": 0.0}).key
    again = TrainSpec.model_validate(json.loads(one.key))
    assert (again, again.key) == (one, one.key)


@pytest.mark.parametrize("change", [{"sparsity": 0.2}, {"data.seed": 1}, {"data.source": "bilinear"}, {"hidden": 499}])
def test_what_learning_sees_changes_the_key(change: dict[str, Any]) -> None:
    usual, changed = train_spec("rbm", {}), train_spec("rbm", change)
    assert usual.key != changed.key
    assert usual.cell_key != changed.cell_key
    assert usual.run_id(SHA) != changed.run_id(SHA)


def test_seeds_share_a_cell() -> None:
    one, other = (train_spec("rbm", {}, seed=seed) for seed in (0, 1))
    assert one.key != other.key
    assert one.cell_key == other.cell_key
    assert one.run_id(SHA) != one.run_id("b" * 64)


def test_ids_stay() -> None:
    """Another id means that the description of every training has changed: none would be found again."""
    assert train_spec("rbm", {}).run_id(SHA) == "rbm-ef01456c05a3"
    given = {"sparsity": 0.1, "data.learn_from": "train+valid", "perturbation.n": 1, "perturbation.p": 0.1}
    assert train_spec("theta", given, seed=2).run_id(SHA) == "theta-04dc86c6eaf2"


def test_validation_images_count_where_they_are_learned_from() -> None:
    assert train_spec("rbm", {"data.valid": 500}) == train_spec("rbm", {})
    learned = {"data.valid": 500, "data.learn_from": "train+valid"}
    assert train_spec("rbm", learned).data.valid == 500


def test_sources() -> None:
    assert train_spec("rbm", {"data.dataset": "mnist", "data.source": "bilinear"}).data.source == "shipped"
    own = train_spec("rbm", {"data.source": "/somewhere/leaves.npz"}).data
    assert (own.dataset, own.source) == ("images", "leaves.npz")
    with pytest.raises(InputError, match="fashion-rot has no source 'official'"):
        train_spec("rbm", {"data.dataset": "fashion-rot", "data.source": "official"})


@pytest.mark.parametrize(
    ("model", "named", "words"),
    [
        ("rbm", {"svm.C": 1.0}, r"svm.C is no setting of a training.*thetarbm evaluate RUN --set svm.C=1.0 measures"),
        ("orbm", {"aligned": False}, r"aligned is no setting of a training.*--set aligned=false measures with it"),
        ("theta", {"perturbation.scope": "all"}, r"thetarbm evaluate RUN --set perturbation.scope=all measures"),
        ("rbm", {"data.trian": 5}, r"there is no setting data.trian; did you mean data.train\?"),
        ("rbm", {"sparsty": 0.1}, r"model rbm has no setting 'sparsty'; did you mean sparsity\?"),
        ("rbm", {"tensor": "full"}, r"model rbm has no setting 'tensor'"),
        ("rbm", {"sparsity": 2.0}, r"sparsity must be above 0 and below 1, not 2.0"),
        ("rbm", {"data.train": 0}, r"setting data.train: input should be greater than or equal to 1 \(given: 0\)"),
        ("rbm", {"data.train": "all"}, r"setting data.train: input should be a valid integer"),
        ("rbm", {"perturbation.n": 1, "perturbation.p": 0.1}, r"model rbm sees no orientations to perturb; "),
        ("theta", {"perturbation.n": 1}, r"setting perturbation.p: field required"),
        (
            "theta",
            {"perturbation.n": 1, "perturbation.p": 0.1, "perturbation.redrawn": "epoch"},
            r"redrawn=epoch gives each epoch other orientations, .*: add perturbation.statistics=before",
        ),
        ("thta", {}, r"unknown model 'thta': did you mean theta\?"),
    ],
)
def test_what_a_training_refuses(model: str, named: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        train_spec(model, named)


def test_older_records_of_perturbed_trainings_are_completed() -> None:
    spec = train_spec("theta", {"perturbation.n": 1, "perturbation.p": 0.1})
    record = json.loads(spec.key)
    for name in ("statistics", "redrawn"):
        del record["perturbation"][name]
    del record["parameters"]["visible_biases"]
    assert TrainSpec.model_validate(record) == spec
    others = {"perturbation.statistics": "before", "perturbation.redrawn": "epoch", "visible_biases": "one"}
    other = train_spec("theta", {**spec.differing(), **others})
    assert other.differing() == {**spec.differing(), **others}
    assert other.key != spec.key


def test_controls_take_what_they_have() -> None:
    assert train_spec("pixels", {}).parameters == {}
    aligned = train_spec("aligned-pixels", {"rotations": 72, "hypotheses": 0.8})
    assert (aligned.parameters["rotations"], aligned.parameters["hypotheses"]) == (72, 0.8)
    with pytest.raises(InputError, match=r"model pixels has no setting 'epochs'; it has none"):
        train_spec("pixels", {"epochs": 3})
    with pytest.raises(InputError, match=r"model aligned-pixels has no setting 'epochs'; it has "):
        train_spec("aligned-pixels", {"epochs": 3})


def test_records_that_do_not_say_had_other_random_numbers() -> None:
    spec = train_spec("rbm", {}, seed=1)
    content = json.loads(spec.key)
    assert content.pop("random") == "philox"
    older = TrainSpec.model_validate(content)
    assert older.random == "pcg64"
    assert older != spec
    # The same cell of a table.
    assert older.cell_key == spec.cell_key


# Records that are older than a parameter


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare a parameter of the RBM that did not exist before."""
    known = parameters.RBMParameters.declared["floor"]
    added = dataclasses.replace(known, name="warmth", default=1.0, before=0.0)
    more = MappingProxyType({**parameters.RBMParameters.declared, "warmth": added})
    monkeypatch.setattr(parameters.RBMParameters, "declared", more)
    monkeypatch.setattr(parameters.RBMParameters, "warmth", 1.0, raising=False)


@pytest.mark.usefixtures("later")
def test_a_parameter_added_later_completes_an_old_record() -> None:
    content = {"model": "rbm", "parameters": {**parameters.defaults("rbm"), "sparsity": 0.2}, "data": {"source": "x"}}
    del content["parameters"]["warmth"]  # type: ignore[attr-defined]
    spec = TrainSpec.model_validate(content)
    assert spec.parameters["warmth"] == 0.0
    assert spec.parameters["sparsity"] == 0.2
    # What is trained from now on is another training.
    assert train_spec("rbm", {"sparsity": 0.2}).parameters["warmth"] == 1.0


def test_a_record_says_nothing_that_is_unknown() -> None:
    content = json.loads(train_spec("rbm", {}).key)
    for wrong in ({"colour": 1}, {"seed": -1}, {"seed": "0"}, {"data": {"dataset": "mnist-rot", "colour": 1}}):
        with pytest.raises(ValidationError):
            TrainSpec.model_validate({**content, **wrong})


# A measurement


def test_measurements_of_the_tables() -> None:
    found = measure_specs(train_spec("theta", {}), ["error", "gamma"], MeasureSettings())
    assert [(each.measure, each.part) for each in found] == [("error", "test"), ("gamma", "train"), ("gamma", "test")]
    assert [each.offset for each in found] == [None, OFFSET, OFFSET]
    assert [each.svm is None for each in found] == [False, True, True]
    assert all(each.distance == 0 for each in found)


def test_the_oriented_rbm_is_measured_twice_unless_one_is_asked_for() -> None:
    spec = train_spec("orbm", {})
    assert [each.aligned for each in measure_specs(spec, ["error"], MeasureSettings())] == [True, False]
    assert [each.aligned for each in measure_specs(spec, ["error"], measuring({"aligned": False}))] == [False]
    assert [each.aligned for each in measure_specs(spec, ["search"], MeasureSettings())] == [True]
    with pytest.raises(InputError, match="model rbm has no alignment to leave out"):
        measure_specs(train_spec("rbm", {}), ["error"], measuring({"aligned": True}))


def test_a_measure_sees_what_it_depends_on() -> None:
    spec = train_spec("theta", {"perturbation.n": 1, "perturbation.p": 0.1})
    usual, other = (
        measure_specs(spec, ["error", "gamma"], measuring(named))
        for named in ({}, {"svm.C": 1, "perturbation.scope": "rbm", "data.gamma": 5000})
    )
    assert usual[0].key != other[0].key
    assert (other[0].scope, other[0].first) == ("rbm", None)
    assert (other[1].scope, other[1].first) == (None, 5000)
    # Of γ the SVM and perturbed features are no part.
    assert usual[1].model_copy(update={"first": 5000}) == other[1]
    assert {each.scope for each in measure_specs(train_spec("theta", {}), ["error"], MeasureSettings())} == {None}


def test_readings_are_seen_where_they_make_a_difference() -> None:
    readings = {"statistics": "set", "copies": "own"}
    words = ["error", "gamma", "invariance", "search"]

    def seen(model: str, **settings: Any) -> list[tuple[Any, ...]]:
        found = measure_specs(train_spec(model, settings), words, measuring(readings))
        return [(each.measure, each.part, each.statistics, each.copies, each.order, each.grid) for each in found]

    assert seen("theta") == [
        ("error", "test", "set", None, None, None),
        # The training's statistics are those of its images.
        ("gamma", "train", "train", "own", "rotated-first", None),
        ("gamma", "test", "set", "own", "rotated-first", None),
        ("invariance", "test", "set", None, None, None),
        ("search", "test", "set", None, None, "small"),
    ]
    # Nothing is standardised.
    for model, settings in (("pixels", {}), ("aligned-pca", {}), ("rbm", {"visible": "bernoulli"})):
        spec = train_spec(model, settings)
        assert measure_specs(spec, words, measuring(readings)) == measure_specs(spec, words, measuring({}))
    assert seen("rbm", visible="bernoulli", standardise=True)[0][2] == seen("rbm", whiten=True)[0][2] == "set"


def test_a_record_that_is_older_than_a_reading_had_what_was_done() -> None:
    added = {"copies", "order", "weights", "grid"}
    for spec in measure_specs(train_spec("orbm", {}), ["error", "gamma", "invariance"], measuring({})):
        older = {name: value for name, value in json.loads(spec.key).items() if name not in added}
        assert MeasureSpec.model_validate(older).key == spec.key
        assert spec.distance == 0
    # But the search had another grid.
    (spec,) = measure_specs(train_spec("rbm", {}), ["search"], measuring({}))
    older = {name: value for name, value in json.loads(spec.key).items() if name not in added}
    assert (spec.grid, MeasureSpec.model_validate(older).grid) == ("small", "large")


@pytest.mark.parametrize(
    ("named", "unusual"),
    [
        ({"statistics": "set"}, {"statistics": "set"}),
        ({"copies": "own"}, {"copies": "own"}),
        ({"order": "standardised-first"}, {"order": "standardised-first"}),
        ({"weights": "kmeans", "svm.C": 1}, {"weights": "kmeans"}),
    ],
)
def test_another_reading_is_farther_from_the_usual_settings(named: dict[str, Any], unusual: dict[str, Any]) -> None:
    *_, spec = measure_specs(train_spec("theta", {}), ["gamma"], measuring(named))
    assert (spec.distance, spec.unusual) == (1, unusual)
    (error,) = measure_specs(train_spec("theta", {}), ["error"], measuring({"svm.C": 1, "svm.gamma": None}))
    assert (error.distance, error.unusual) == (1, {"svm.C": 1.0, "svm.gamma": None})


@pytest.mark.parametrize(
    ("model", "named", "words"),
    [
        ("rbm", {"copies": "own", "order": "standardised-first"}, "copies=own and order=standardised-first exclude"),
        ("theta-local", {"order": "standardised-first"}, "standardises fields, not images"),
        ("pixels", {"weights": "images"}, "model pixels has no learned weights to replace"),
        ("aligned-pca", {"weights": "normal"}, "model aligned-pca has no learned weights to replace"),
    ],
)
def test_readings_that_a_model_cannot_have(model: str, named: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        measure_specs(train_spec(model, {}), ["gamma"], measuring(named))


def test_keys_of_measurements_are_those_of_their_records() -> None:
    (spec,) = measure_specs(train_spec("rbm", {}), ["error"], measuring({"svm.C": 1}))
    again = MeasureSpec.model_validate(json.loads(spec.key))
    assert (again, again.key) == (spec, spec.key)
    assert spec.key == measure_specs(train_spec("rbm", {}), ["error"], measuring({"svm.C": 1.0}))[0].key
    assert spec.distance == 1


def test_other_test_images_have_the_source_that_is_asked_for() -> None:
    train = train_spec("theta", {"data.dataset": "mnist"})
    found = measure_specs(train, ["gamma"], measuring({}, "bilinear"))
    assert [(each.dataset, each.source) for each in found] == [("mnist", "shipped"), ("mnist-rot", "bilinear")]


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"sparsity": 0.1}, "sparsity is no setting of a measurement"),
        ({"data.train": 5}, "data.train is no setting of a measurement"),
        ({"svm.c": 5}, r"there is no setting svm.c; did you mean svm.C\?"),
        ({"svm.C": 0}, "setting svm.C: input should be greater than 0"),
        ({"svm.C": float("inf")}, "setting svm.C: input should be a finite number"),
        ({"offset": 360}, "setting offset: input should be less than 360"),
        ({"features": "both"}, "setting features: input should be 'probabilities' or 'states'"),
        ({"statistics": "test"}, "setting statistics: input should be 'train' or 'set'"),
        ({"weights": "random"}, "setting weights: input should be 'learned', 'normal', 'kmeans' or 'images'"),
        ({"svm.gamma": 0}, "setting svm.gamma: input should be greater than 0"),
    ],
)
def test_what_a_measurement_refuses(named: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        measuring(named)


def test_what_cannot_be_measured_of_a_training() -> None:
    states, valid = measuring({"features": "states"}), measuring({"data.part": "valid"})
    with pytest.raises(InputError, match="features of model pixels are no probabilities"):
        measure_specs(train_spec("pixels", {}), ["error"], states)
    with pytest.raises(InputError, match="images that it learned from"):
        measure_specs(train_spec("rbm", {"data.learn_from": "train+valid"}), ["error"], valid)


def test_every_setting_has_one_place_and_a_meaning() -> None:
    assert not train_settings().keys() & measure_settings().keys()
    assert all({**train_settings(), **measure_settings()}.values())
    for model in MODELS.own:
        assert not parameters.declared(model).keys() & {*train_settings(), *measure_settings()}


# --set


def test_values_of_set_are_json_or_words() -> None:
    words = ["sparsity=0.1", "epochs=3", "visible=bernoulli", "standardise=null", "sparsity=0.1", "x=None", "y=a=b"]
    assert parse_assignments(words) == {
        "sparsity": 0.1,
        "epochs": 3,
        "visible": "bernoulli",
        "standardise": None,
        "x": None,
        "y": "a=b",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epochs=3", "epochs=4"], "--set epochs is given twice, as 3 and 4: give one"),
        (["tensor=tied", "tensor=full"], "--set tensor is given twice, as tied and full: give one"),
        (["epochs"], "--set takes key=value, not 'epochs'"),
        (["=3"], "--set takes key=value, not '=3'"),
        (["floor=NaN"], "setting floor must be a finite number, not NaN"),
        (["floor=1e999"], "setting floor must be a finite number, not 1e999"),
    ],
)
def test_what_set_refuses(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_assignments(words)
    assert str(raised.value) == message


# The code of a plug-in

PLUGIN = """\
from thetarbm_cli.parameters import ModelParameters, declaration, parameter


@declaration
class Mean(ModelParameters):
    width: int = parameter(default=3, least=1, about="Of nothing.")
"""


class Plugin:
    """A distribution with a model, laid into a folder as an installer would."""

    def __init__(self, folder: Path, *, editable: bool) -> None:
        self.source = folder / "source" if editable else folder
        self.package = self.source / "meanplugin"
        self.package.mkdir(parents=True)
        (self.package / "__init__.py").write_text(PLUGIN)
        (self.package / "helper.py").write_text("VALUE = 1\n")
        (self.package / "table.txt").write_text("1\n")
        metadata = folder / "meanplugin-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: meanplugin\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[thetarbm.models]\nmean = meanplugin:Mean\n")
        own = [] if editable else [f"meanplugin/{name}" for name in ("__init__.py", "helper.py", "table.txt")]
        own += ["meanplugin.pth"] if editable else []
        lines = [*own, f"{metadata.name}/METADATA", f"{metadata.name}/entry_points.txt", f"{metadata.name}/RECORD"]
        (metadata / "RECORD").write_text("".join(f"{name},,\n" for name in lines))
        if editable:
            (folder / "meanplugin.pth").write_text(f"{self.source}\n")

    def spec(self) -> TrainSpec:
        """Describe a training as a new process would."""
        forget()
        return train_spec("mean", {})


def forget() -> None:
    """Forget what was read of plug-ins."""
    MODELS.__dict__.pop("_plugins", None)
    plugin_code.cache_clear()
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "meanplugin"]:
        del sys.modules[name]


@pytest.fixture(params=["installed", "editable"])
def plugin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Plugin(tmp_path, editable=request.param == "editable")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(made.source))
    yield made
    forget()


def test_the_code_of_a_plugin_is_part_of_a_description(plugin: Plugin) -> None:
    first = plugin.spec()
    assert first.code is not None
    assert (first.code.distribution, first.code.version) == ("meanplugin", "1.0")
    assert first.parameters == {"width": 3}
    assert plugin.spec() == first
    (plugin.package / "helper.py").write_text("VALUE = 2\n")
    changed = plugin.spec()
    assert changed.code != first.code
    assert changed.run_id(SHA) != first.run_id(SHA)
    (plugin.package / "helper.py").write_text("VALUE = 1\n")
    assert plugin.spec() == first


def test_what_python_writes_beside_the_code_is_no_part_of_it(plugin: Plugin) -> None:
    first = plugin.spec()
    cache = plugin.package / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "helper.cpython-311.pyc").write_bytes(b"\0")
    assert plugin.spec() == first


def test_the_record_of_a_plugin_is_read_as_it_is(plugin: Plugin) -> None:
    """Its parameters may be others now; so is its code then."""
    content = json.loads(plugin.spec().key)
    content["parameters"] = {"depth": 1}
    assert TrainSpec.model_validate(content).parameters == {"depth": 1}


def test_readings_of_what_a_plugin_does_are_refused(plugin: Plugin) -> None:
    spec = plugin.spec()
    with pytest.raises(InputError, match="what the plug-in's model mean does to images is its own: leave copies=own"):
        measure_specs(spec, ["gamma"], measuring({"copies": "own"}))
    with pytest.raises(InputError, match="model mean has no learned weights to replace"):
        measure_specs(spec, ["gamma"], measuring({"weights": "images"}))


def test_own_models_have_no_code() -> None:
    assert train_spec("rbm", {}).code is None
