import inspect
import pydoc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from thetarbm_cli.errors import InputError
from thetarbm_cli.models import RBM, Model, OrientedRBM, Pixels, build, model_class
from thetarbm_cli.models.base import estimator, parameter
from thetarbm_cli.parameters import checked, completed, declared, defaults, parameters_of
from thetarbm_cli.registry import MODELS, ModelEntry


@pytest.mark.parametrize("model", MODELS.own)
def test_every_model_is_built_from_its_own_settings(model: str) -> None:
    settings = defaults(model)
    apart = {"random_state": 3, "backend": "numpy", "verbose": False}
    apart |= {"align": True} if model == "orbm" else {}
    assert not apart.keys() & settings.keys()
    built = build(model, settings, seed=3, backend="numpy")
    assert type(built) is MODELS.load(model) is model_class(model)
    assert built.get_params() == {**settings, **apart}
    assert checked(model, settings) == settings


@pytest.mark.parametrize("model", MODELS.own)
def test_a_model_has_the_parameters_and_the_facts_that_are_declared_without_it(model: str) -> None:
    light, kind = parameters_of(model), model_class(model)
    assert issubclass(kind, light)
    assert kind.declared == light.declared
    assert declared(model) == {name: each for name, each in sorted(kind.declared.items()) if each.setting}
    assert list(declared(model)) == sorted(declared(model))
    for fact in ("uses_orientations", "has_states", "aligns_optionally"):
        assert getattr(kind, fact) == getattr(light, fact)
    assert light.uses_orientations == hasattr(kind, "orientation_estimator")
    assert light.aligns_optionally == ("align" in kind.declared)


def test_parameters_of_own_models_are_found_without_scikit_learn_and_numpy() -> None:
    script = (
        "import sys\n"
        "from thetarbm_cli.parameters import checked, completed, declared, defaults\n"
        "from thetarbm_cli.registry import MODELS\n"
        "for model in MODELS.own:\n"
        "    assert checked(model, defaults(model)) == defaults(model)\n"
        "    assert completed(model, {}).keys() == declared(model).keys()\n"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_older_record_is_completed_with_what_was_done_before() -> None:
    recorded = {"hidden": 7, "batch_size": 50}
    whole = completed("theta", recorded)
    assert whole.keys() == declared("theta").keys()
    assert whole["hidden"] == 7
    assert whole["batch_size"] == 50
    assert whole["tensor"] == defaults("theta")["tensor"]
    assert recorded == {"hidden": 7, "batch_size": 50}


@estimator
class Newer(RBM):
    """A plug-in's model, with parameters of its own."""

    sharpness: float = parameter(default=2.0, before=1.0, least=0, about="One.")
    width: int = parameter(default=3, about="Another.")

    def _check_together(self) -> None:
        super()._check_together()
        if self.width < self.sharpness:
            raise InputError("too sharp")


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which the plug-in is installed."""
    entry = ModelEntry("newer", f"{__name__}:Newer", "newer", "a distribution")
    monkeypatch.setitem(MODELS._plugins, "newer", entry)
    return "newer"


def test_a_plugin_declares_in_its_class(newer: str) -> None:
    assert parameters_of(newer) is Newer
    assert set(declared(newer)) == {*declared("rbm"), "sharpness", "width"}
    assert completed(newer, {})["sharpness"] == 1.0
    assert completed(newer, {})["width"] == 3
    assert checked(newer, {"sharpness": 1, "hidden": 4}) == {"sharpness": 1.0, "hidden": 4}
    with pytest.raises(InputError, match=r"model newer has no setting 'widht'; did you mean width\?"):
        checked(newer, {"widht": 3})
    with pytest.raises(InputError, match="too sharp"):
        checked(newer, {"width": 1})


def test_a_plugin_that_is_no_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS._plugins, "path", ModelEntry("path", "pathlib:Path", "path", "a distribution"))
    for find in (parameters_of, model_class):
        with pytest.raises(InputError, match="the model path of the plug-in a distribution"):
            find("path")


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        ("rbm", {"visible": "bernoulli", "variance": "learned"}),
        ("orbm", {"whiten": True, "standardise": True}),
        ("tirbm", {"angles": "wedge", "rotations": 30}),
        ("theta", {"initial": "independent"}),
        ("theta-local", {"whiten": True}),
        ("theta-local", {"variance": "learned"}),
        ("orbm", {"align": False}),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_by_the_class(model: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        checked(model, wrong)
    with pytest.raises(InputError):
        model_class(model).checked_settings(wrong)


def test_whole_numbers_may_stand_for_numbers_and_nothing_else_is_converted() -> None:
    RBM(hidden=np.int64(3), epochs=np.int32(1), learning_rate=np.float32(0.01)).check_settings()
    settings = checked("rbm", {"learning_rate": 1, "sparsity": None, "hidden": 20})
    assert settings == {"learning_rate": 1.0, "sparsity": None, "hidden": 20}
    assert type(settings["learning_rate"]) is float


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
        checked("rbm", parameters)


@pytest.mark.parametrize("model", MODELS.own)
def test_a_class_has_its_whole_signature_and_the_meaning_of_each_parameter(model: str) -> None:
    each = model_class(model)
    signature = inspect.signature(each)
    assert set(signature.parameters) == set(each().get_params()) == set(each.declared)
    page = pydoc.plain(pydoc.render_doc(each))
    for name, found in each.declared.items():
        assert f"{name} : " in page
        assert found.about in page


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
