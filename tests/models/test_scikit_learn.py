"""What scikit-learn asks of an estimator."""

import inspect
import pydoc

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from tests.models.padded import (
    PaddedAlignedPixels,
    PaddedAugmentedRBM,
    PaddedOrientedRBM,
    PaddedThetaRBM,
    PaddedTransformInvariantRBM,
)
from thetarbm_cli.models import (
    RBM,
    AlignedPixels,
    AugmentedRBM,
    LocalThetaRBM,
    Model,
    OrientedRBM,
    Pixels,
    ThetaRBM,
    TransformInvariantRBM,
)

Digits = tuple[np.ndarray, np.ndarray]

# Needs an environment variable that is read when SciPy is imported.
SKIPPED = {"check_array_api_input"}
CONTROL = pytest.mark.no_device("controls learn nothing")


@pytest.mark.parametrize(
    "estimator",
    [
        RBM(hidden=6, epochs=2),
        RBM(hidden=6, epochs=2, visible="bernoulli", standardise=True),
        PaddedOrientedRBM(hidden=6, epochs=2),
        PaddedTransformInvariantRBM(hidden=6, epochs=2),
        RBM(hidden=6, epochs=2, whiten=True),
        PaddedAugmentedRBM(hidden=6, epochs=2, rotations=3),
        PaddedThetaRBM(hidden=6, epochs=2),
        PaddedThetaRBM(hidden=6, epochs=2, tensor="full"),
        pytest.param(Pixels(), marks=CONTROL),
        pytest.param(PaddedAlignedPixels(), marks=CONTROL),
    ],
    ids=repr,
)
def test_the_checks_of_scikit_learn(estimator: Model) -> None:
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    failed = [f"{result['check_name']}: {result['exception']!r}" for result in results if result["status"] == "failed"]
    assert failed == []
    assert {result["check_name"] for result in results if result["status"] == "skipped"} <= SKIPPED


@pytest.mark.no_device("settings only")
def test_a_class_has_its_whole_signature_and_the_meaning_of_each_parameter() -> None:
    for each in (RBM, OrientedRBM, TransformInvariantRBM, ThetaRBM, LocalThetaRBM, Pixels, AlignedPixels, AugmentedRBM):
        signature = inspect.signature(each)
        assert set(signature.parameters) == set(each().get_params()) == set(each.declared)
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        page = pydoc.plain(pydoc.render_doc(each))
        for name, parameter in each.declared.items():
            assert f"{name} : " in page
            assert parameter.about in page
    assert next(iter(inspect.signature(ThetaRBM).parameters)) == "hidden"
    assert ThetaRBM(7).hidden == 7


@pytest.mark.no_device("settings only")
@pytest.mark.parametrize(
    ("model", "wrong", "message"),
    [
        (ThetaRBM, "align", "ThetaRBM has no parameter 'align'; OrientedRBM has"),
        (OrientedRBM, "tensor", "OrientedRBM has no parameter 'tensor'; ThetaRBM has"),
        (RBM, "epoch", r"RBM has no parameter 'epoch'; did you mean epochs\?"),
        (RBM, "colour", "RBM has no parameter 'colour'; it has .*learning_rate"),
    ],
)
def test_a_wrong_keyword_is_named_with_the_right_class(model: type[Model], wrong: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        model(**{wrong: 1})


@pytest.mark.no_device("refused before a machine is made")
@pytest.mark.parametrize("model", [RBM(), LocalThetaRBM()], ids=repr)
def test_a_model_that_has_learned_nothing_says_so(model: RBM) -> None:
    for method in ("transform", "free_energy", "reconstruct"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(np.zeros((3, 784)))
    for method in ("sample", "to_arrays"):
        with pytest.raises(NotFittedError):
            getattr(model, method)()
