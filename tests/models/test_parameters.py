import inspect
import pydoc
from typing import Any

import numpy as np
import pytest

from thetarbm_cli.errors import InputError
from thetarbm_cli.models import RBM, Model, OrientedRBM, Pixels, build, model_class
from thetarbm_cli.registry import MODELS

pytestmark = pytest.mark.no_device("settings only")


@pytest.mark.parametrize("model", MODELS.own)
def test_every_model_is_built_from_its_own_settings(model: str) -> None:
    defaults = model_class(model).default_settings()
    apart = {"random_state": 3, "backend": "numpy", "verbose": False}
    assert not apart.keys() & defaults.keys()
    built = build(model, defaults, seed=3, backend="numpy")
    assert type(built) is MODELS.load(model) is model_class(model)
    assert built.get_params() == {**defaults, **apart}
    assert model_class(model).checked_settings(defaults) == defaults


def test_the_reference_is_a_preset_of_the_transform_invariant_machine() -> None:
    preset = MODELS["tirbm"].preset("reference")
    assert model_class("tirbm").checked_settings(preset, name="tirbm") == preset
    with pytest.raises(InputError, match="model rbm has no preset 'reference': choose one of paper"):
        MODELS["rbm"].preset("reference")


def test_whole_numbers_may_stand_for_numbers_and_nothing_else_is_converted() -> None:
    RBM(hidden=np.int64(3), epochs=np.int32(1), learning_rate=np.float32(0.01)).check_settings()
    checked = model_class("rbm").checked_settings({"learning_rate": 1, "sparsity": None, "hidden": 20}, name="rbm")
    assert checked == {"learning_rate": 1.0, "sparsity": None, "hidden": 20}
    assert type(checked["learning_rate"]) is float


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"colour": 1}, "model rbm has no setting 'colour'; it has .*learning_rate"),
        ({"hidden": 5.0}, r"hidden must be a whole number, not 5\.0"),
        ({"hidden": True}, "hidden must be a whole number, not True"),
        ({"sparsity": "low"}, "sparsity must be a number, not 'low'"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, not nan"),
        ({"momentum": 1.0}, r"momentum must be 0 or above and below 1, not 1\.0"),
        ({"sparsity_form": "x"}, "sparsity_form must be one of bias, bias\\+weights, not 'x'"),
        ({"standardise": 1}, "standardise must be true or false, not 1"),
        ({"visible": 3}, "visible must be a word, not 3"),
        ({"hidden": 0}, "hidden must be 1 or above, not 0"),
    ],
)
def test_wrong_settings_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model_class("rbm").checked_settings(parameters, name="rbm")


@pytest.mark.parametrize("model", MODELS.own)
def test_a_class_has_its_whole_signature_and_the_meaning_of_each_parameter(model: str) -> None:
    each = model_class(model)
    signature = inspect.signature(each)
    assert set(signature.parameters) == set(each().get_params()) == set(each.declared)
    page = pydoc.plain(pydoc.render_doc(each))
    for name, parameter in each.declared.items():
        assert f"{name} : " in page
        assert parameter.about in page


@pytest.mark.parametrize(
    ("model", "wrong", "message"),
    [
        (Pixels, "hidden", "Pixels has no parameter 'hidden'; RBM has"),
        (OrientedRBM, "tensor", "OrientedRBM has no parameter 'tensor'; ThetaRBM has"),
        (RBM, "epoch", r"RBM has no parameter 'epoch'; did you mean epochs\?"),
        (RBM, "colour", "RBM has no parameter 'colour'; it has .*learning_rate"),
    ],
)
def test_a_wrong_keyword_is_named_with_the_right_class(model: type[Model], wrong: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        model(**{wrong: 1})
