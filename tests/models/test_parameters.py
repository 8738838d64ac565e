from typing import Any

import numpy as np
import pytest

from thetarbm_cli.errors import InputError
from thetarbm_cli.models import Model, build, model_class
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
@pytest.mark.parametrize("model", ["rbm", "orbm", "tirbm", "theta"])
def test_the_paper_is_the_preset_of_all_networks(model: str) -> None:
    assert MODELS[model].preset("paper") == {}
    common = model_class("rbm").default_settings()
    assert {name: model_class(model).default_settings()[name] for name in common} == common


@pytest.mark.no_device("settings only")
def test_the_reference_is_a_preset_of_the_transform_invariant_machine() -> None:
    preset = MODELS["tirbm"].preset("reference")
    assert model_class("tirbm").checked_settings(preset, name="tirbm") == preset
    assert preset["sparsity_weight"] == 3.0
    with pytest.raises(InputError, match="model rbm has no preset 'reference': choose one of paper"):
        MODELS["rbm"].preset("reference")


@pytest.mark.no_device("settings only")
def test_whole_numbers_may_stand_for_numbers_and_nothing_else_is_converted() -> None:
    checked = model_class("rbm").checked_settings({"learning_rate": 1, "sparsity": None, "hidden": 20}, name="rbm")
    assert checked == {"learning_rate": 1.0, "sparsity": None, "hidden": 20}
    assert type(checked["learning_rate"]) is float


@pytest.mark.no_device("settings only")
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"colour": 1}, "model rbm has no setting 'colour'; it has .*learning_rate"),
        ({"random_state": 1}, "model rbm has no setting 'random_state'"),
        ({"tensor": "full"}, "model rbm has no setting 'tensor'"),
        ({"hidden": 5.0}, r"hidden must be a whole number, not 5\.0"),
        ({"hidden": True}, "hidden must be a whole number, not True"),
        ({"hidden": "5"}, "hidden must be a whole number, not '5'"),
        ({"hidden": None}, "hidden must be a whole number, not None"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, not 'fast'"),
        ({"learning_rate": True}, "learning_rate must be a number, not True"),
        ({"sparsity": "low"}, "sparsity must be a number, not 'low'"),
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


def assert_gives_features(model: str, images: np.ndarray) -> None:
    defaults = model_class(model).default_settings()
    parameters = {**defaults, **{name: value for name, value in {"hidden": 5, "epochs": 1}.items() if name in defaults}}
    fitted = build(model, parameters, seed=1).fit(images)
    features = fitted.transform(images)
    # Each of the local machine's 5 filters is pooled in 4 × 4 cells.
    assert features.shape == (60, 784 if "pixels" in model else 5 * 16 if model == "theta-local" else 5)
    assert len(fitted.get_feature_names_out()) == features.shape[1]
    copy = build(model, parameters, seed=1).load_arrays(fitted.to_arrays())
    assert isinstance(copy, Model)
    assert np.array_equal(copy.transform(images), features)


@pytest.mark.parametrize("model", [model for model in MODELS.own if "pixels" not in model])
def test_every_model_gives_features(model: str, digits: tuple[np.ndarray, np.ndarray]) -> None:
    assert_gives_features(model, digits[0][:60])


@pytest.mark.no_device("pixels go through no machine")
@pytest.mark.parametrize("model", [model for model in MODELS.own if "pixels" in model])
def test_every_control_gives_features(model: str, digits: tuple[np.ndarray, np.ndarray]) -> None:
    assert_gives_features(model, digits[0][:60])
