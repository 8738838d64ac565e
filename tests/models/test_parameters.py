from typing import Any

import numpy as np
import pytest

from thetarbm_cli.errors import InputError
from thetarbm_cli.models import RBM, build, model_class
from thetarbm_cli.registry import MODELS


@pytest.mark.no_device("settings only")
@pytest.mark.parametrize("model", MODELS.own)
def test_every_model_is_built_from_its_own_settings(model: str) -> None:
    defaults = model_class(model).default_settings()
    apart = {"random_state": 3, "backend": "numpy", "verbose": False}
    assert not apart.keys() & defaults.keys()
    built = build(model, defaults, seed=3, backend="numpy")
    assert type(built) is MODELS.load(model) is model_class(model)
    assert built.get_params() == {**defaults, **apart}
    assert model_class(model).checked_settings(defaults) == defaults


@pytest.mark.no_device("settings only")
def test_the_reference_is_a_preset_of_the_transform_invariant_machine() -> None:
    preset = MODELS["tirbm"].preset("reference")
    assert model_class("tirbm").checked_settings(preset, name="tirbm") == preset
    assert preset["sparsity_weight"] == 3.0
    with pytest.raises(InputError, match="model rbm has no preset 'reference': choose one of paper"):
        MODELS["rbm"].preset("reference")


@pytest.mark.no_device("settings only")
def test_whole_numbers_may_stand_for_numbers_and_nothing_else_is_converted() -> None:
    RBM(hidden=np.int64(3), epochs=np.int32(1), learning_rate=np.float32(0.01)).check_settings()
    checked = model_class("rbm").checked_settings({"learning_rate": 1, "sparsity": None, "hidden": 20}, name="rbm")
    assert checked == {"learning_rate": 1.0, "sparsity": None, "hidden": 20}
    assert type(checked["learning_rate"]) is float


@pytest.mark.no_device("settings only")
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"colour": 1}, "model rbm has no setting 'colour'; it has .*learning_rate"),
        ({"random_state": 1}, "model rbm has no setting 'random_state'"),
        ({"hidden": 5.0}, r"hidden must be a whole number, not 5\.0"),
        ({"hidden": True}, "hidden must be a whole number, not True"),
        ({"hidden": None}, "hidden must be a whole number, not None"),
        ({"sparsity": "low"}, "sparsity must be a number, not 'low'"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, not nan"),
        ({"momentum": 1.0}, r"momentum must be 0 or above and below 1, not 1\.0"),
        ({"sparsity_form": "x"}, "sparsity_form must be one of bias, bias\\+weights, not 'x'"),
        ({"standardise": 1}, "standardise must be true or false, not 1"),
        ({"visible": 3}, "visible must be a word, not 3"),
        ({"hidden": 0}, "hidden must be 1 or above, not 0"),
        ({"sparsity": 3.0}, "sparsity must be above 0 and below 1"),
    ],
)
def test_wrong_settings_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model_class("rbm").checked_settings(parameters, name="rbm")


@pytest.mark.no_device("settings only")
def test_an_unknown_model_is_named() -> None:
    with pytest.raises(InputError, match="unknown model 'cnn': choose one of rbm, orbm, tirbm, theta"):
        build("cnn", {})
