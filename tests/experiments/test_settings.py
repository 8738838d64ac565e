from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.runs import MODELS
from tests.experiments.suites import record_for
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs import settings as settings_module
from thetarbm_cli.experiments.runs.settings import (
    ALGORITHM,
    BASELINE,
    DataSettings,
    Perturbation,
    RunSettings,
    SVMSettings,
    by_section,
    lay_over,
    parse_assignments,
    resolve,
    run_id,
)
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.models import RBM, model_class
from thetarbm_cli.models.base import estimator, parameter
from thetarbm_cli.registry import MODELS as REGISTRY
from thetarbm_cli.registry import ModelEntry

LEARNING = settings_module.CHANGED_DEFAULTS["rbm"]
CHECKSUMS = {"train": "a" * 64, "test": "b" * 64}


def identity(settings: RunSettings, checksums: dict[str, str] = CHECKSUMS, seed: int = 0) -> str:
    return run_id(settings, checksums, seed)


def other(value: Any) -> Any:
    """A value of the same type that is not this one."""
    match value:
        case None:
            return 0.5
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"not {value}"
    raise AssertionError(value)


def with_default(monkeypatch: pytest.MonkeyPatch, model: str, name: str, value: Any) -> None:
    """Change a default in the signature of a model."""
    declared = dict(model_class(model).declared)
    declared[name] = dataclasses.replace(declared[name], default=value)
    monkeypatch.setattr(model_class(model), "declared", declared)


@pytest.mark.parametrize("model", REGISTRY.own)
def test_defaults_are_the_baseline_but_for_those_that_are_said_to_have_changed(model: str) -> None:
    # A changed default is noted in CHANGED_DEFAULTS; a new setting goes into the baseline with what was done before.
    defaults, frozen = model_class(model).default_settings(), BASELINE
    assert defaults.keys() <= frozen.keys()
    changed = {name: value for name, value in defaults.items() if value != frozen[name]}
    assert changed == settings_module.CHANGED_DEFAULTS.get(model, {})


def test_a_changed_default_changes_no_id_of_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    as_before, explicit = resolve("theta"), resolve("theta", parameters={"learning_rate": 0.5})
    before = [(identity(each), each.complete_parameters) for each in (as_before, explicit)]
    with_default(monkeypatch, "theta", "learning_rate", 0.5)
    # What is recorded stays what it was, and what the new default makes is the run of the same explicit settings.
    assert resolve("theta") == explicit
    assert [(identity(each), each.complete_parameters) for each in (as_before, explicit)] == before
    assert resolve("theta", parameters={"learning_rate": 0.01}) == as_before


def test_a_cell_and_a_list_know_a_changed_default_without_models(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = load_suite().cells("tiny")[0]
    old = record_for(cell)
    assert cell.fits(old)
    assert "whiten" not in old.settings.differing_parameters
    with_default(monkeypatch, cell.model, "whiten", True)
    monkeypatch.setitem(settings_module.CHANGED_DEFAULTS, cell.model, {"whiten": True})
    new = record_for(cell)
    assert (cell.fits(old), cell.fits(new)) == (False, True)
    assert old.settings.differing_parameters["whiten"] is False
    assert "whiten" not in new.settings.differing_parameters


@estimator
class PlugIn(RBM):
    hidden: int = parameter(default=7, least=1, about="Units.", kw_only=False)


def test_what_a_plug_in_declares_is_its_own_and_what_it_inherits_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY._plugins, "mine", ModelEntry("mine", f"{__name__}:PlugIn", "mine"))
    with_default(monkeypatch, "mine", "learning_rate", 0.5)
    recorded = RunSettings(model="mine").complete_parameters
    assert (recorded["hidden"], recorded["learning_rate"]) == (7, 0.01)
    assert resolve("mine").parameters == {**LEARNING, "learning_rate": 0.5}
    assert resolve("mine").differing_parameters == {}
    assert RunSettings(model="gone", parameters={"hidden": 3}).differing_parameters == {"hidden": 3}


def test_later_settings_win_over_preset_and_profile() -> None:
    settings = resolve("tirbm", preset="reference", profile="tiny", parameters={"batch_size": 7, "hidden": 9})
    reference = REGISTRY["tirbm"].preset("reference")
    assert settings.complete_parameters == {
        **model_class("tirbm").default_settings(),
        **reference,
        "epochs": 3,
        "hidden": 9,
        "batch_size": 7,
    }


@pytest.mark.parametrize("model", MODELS)
def test_every_setting_of_a_model_changes_the_id(model: str) -> None:
    ids = [identity(RunSettings(model=model))]
    for name, value in model_class(model).default_settings().items():
        ids.append(identity(RunSettings(model=model, parameters={name: other(value)})))
    assert len(set(ids)) == len(ids)


def test_model_data_perturbation_seed_and_algorithm_change_the_id(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"n": 1, "p": 0.1}
    given: list[dict[str, Any]] = [
        {},
        *({"data": {name: 7}} for name in ("train", "valid", "test", "gamma")),
        *({"data": {"protocol": name}} for name in ("choice", "final")),
        {"perturbation": wrong},
        *({"perturbation": {**wrong, **each}} for each in ({"n": 2}, {"p": 0.2}, {"scope": "rbm"}, {"scope": "all"})),
        *({"perturbation": {**wrong, **each}} for each in ({"draws": "one"}, {"overflow": "clip"})),
        *({"svm": each} for each in ({"scaled": True}, {"C": 1}, {"gamma": 0.05})),
        {"features": "states"},
    ]
    ids = [identity(RunSettings(model=model)) for model in MODELS if model != "theta"]
    ids += [identity(RunSettings.model_validate({"model": "theta", **each})) for each in given]
    plain = RunSettings(model="theta")
    ids += [identity(plain, seed=1), *(identity(plain, {**CHECKSUMS, role: "c"}) for role in CHECKSUMS)]
    monkeypatch.setattr(settings_module, "ALGORITHM", ALGORITHM + 1)
    ids.append(identity(plain))
    assert len(set(ids)) == len(ids)


def test_an_option_that_is_as_by_default_changes_no_id() -> None:
    explicit = RunSettings(
        model="theta",
        parameters=model_class("theta").default_settings(),
        svm=SVMSettings(C=10, gamma=0.02),
        data=DataSettings(protocol="paper"),
    )
    assert identity(explicit) == identity(resolve("theta"))


def test_where_the_images_come_from_changes_no_id() -> None:
    # Their checksums are in the id.
    ids = {
        identity(RunSettings(model="rbm", data=DataSettings(source=source, train_on=train_on, seed=seed)))
        for source, train_on, seed in [("generated", "mnist-rot", 0), ("/home/me/own.npz", "mnist", 3)]
    }
    assert len(ids) == 1


@given(st.permutations(sorted(model_class("theta").default_settings())))
def test_order_of_settings_changes_no_id(names: list[str]) -> None:
    changed = {name: other(value) for name, value in model_class("theta").default_settings().items()}
    shuffled = RunSettings(model="theta", parameters={name: changed[name] for name in names})
    assert identity(shuffled) == identity(RunSettings(model="theta", parameters=changed))


def test_id_starts_with_the_model_and_is_stable() -> None:
    # A stored run is found by this name: it must not depend on the process, the machine or the library's version.
    settings = RunSettings(model="theta", parameters={"hidden": 40}, perturbation=Perturbation(n=1, p=0.1))
    content = {
        "algorithm": ALGORITHM,
        "data": CHECKSUMS,
        "seed": 3,
        "settings": {
            "data": {},
            "model": "theta",
            "parameters": {"hidden": 40},
            "perturbation": {"n": 1, "p": 0.1, "scope": "train"},
        },
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    assert identity(settings, seed=3) == "theta-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def test_assignments_are_json_or_plain_words() -> None:
    words = "hidden=7 learning_rate=1e-3 standardise=true sparsity=None initial_momentum=null visible=bernoulli"
    words += ' rotation="nearest" hidden=8 data.train=50 perturbation.p=0.1 svm.scaled=true features=states'
    numbers = {"hidden": 8, "learning_rate": 0.001, "standardise": True, "sparsity": None, "initial_momentum": None}
    assert by_section(parse_assignments(tuple(words.split()))) == {
        "parameters": {**numbers, "visible": "bernoulli", "rotation": "nearest"},
        "data": {"train": 50},
        "perturbation": {"p": 0.1},
        "svm": {"scaled": True},
        "features": "states",
    }


def test_later_settings_lie_over_earlier_ones_section_by_section() -> None:
    first = {"data": {"train": 5, "test": 7}, "perturbation": None, "features": "states"}
    second = {"data": {"train": None}, "perturbation": {"n": 1}, "svm": {"C": 3}}
    assert lay_over(first, second, {"features": None}) == {**first, **second, "data": {"train": None, "test": 7}}
    assert first["data"] == {"train": 5, "test": 7}


@pytest.mark.parametrize("pair", ["hidden", "=5", ""])
def test_assignment_without_name_or_value_is_refused(pair: str) -> None:
    with pytest.raises(InputError, match="key=value"):
        parse_assignments((pair,))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_number_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="learning_rate must be a finite number"):
        parse_assignments((f"learning_rate={text}",))


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("cnn", {}, "unknown model 'cnn'"),
        ("rbm", {"profile": "huge"}, "unknown profile 'huge'"),
        ("rbm", {"preset": "reference"}, "model rbm has no preset 'reference'"),
        ("rbm", {"parameters": {"rotations": 9}}, "model rbm has no setting 'rotations'"),
        ("theta", {"parameters": {"hidden": 4.5}}, "hidden must be a whole number, not 4.5"),
        ("theta", {"data": {"train": 0}}, "setting data.train: .* greater than or equal to 1 .*0"),
        ("theta", {"svm": {"width": 1}}, "no setting svm.width"),
        ("pixels", {"features": "states"}, "features of model pixels are no probabilities"),
        ("theta-local", {"features": "states"}, "features of model theta-local are no probabilities"),
        ("theta", {"perturbation": {"n": 1}}, "setting perturbation.p: field required"),
        ("rbm", {"perturbation": {"n": 1, "p": 0.5}}, "model rbm sees no orientations"),
    ],
)
def test_wrong_settings_are_named(model: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        resolve(model, **arguments)
    assert "\n" not in str(raised.value)
