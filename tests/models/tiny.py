"""Every model with a few units and random parameters, beside its exact counterpart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.models.exact import Doubles, TinyNetwork, turns
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM

SIZE, HIDDEN = 3, 3
PIXELS = SIZE * SIZE

Parameters = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Tiny:
    """An estimator's class and settings, parameters for it, and the exact network of orientation s for any."""

    build: Callable[..., RBM]
    parameters: Parameters
    exact: Callable[[Parameters, int], TinyNetwork]
    orientations: int

    def fitted(self, **settings: Any) -> RBM:
        return self.build(**settings).load_arrays(single(self.parameters))


def single(parameters: Parameters) -> Parameters:
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def tiny(name: str, visible: str = "bernoulli", rotations: int = 4) -> Tiny:
    """One of rbm, tirbm, theta-full, theta-tied; of these two also …-one-bias.

    With S = 4 all turns are exact, with others bilinear.
    """
    random = np.random.default_rng(7)
    operators = turns(SIZE, rotations)
    groups = rotations if name.startswith("theta") else 1
    biases = "one" if name.endswith("-one-bias") else "orientation"
    name = name.removesuffix("-one-bias")
    common: dict[str, Any] = {"hidden": HIDDEN, "visible": visible, "standardise": False}
    parameters = {
        "weights": random.normal(0, 0.6, (HIDDEN, PIXELS)),
        "hidden_bias": random.normal(0, 0.5, HIDDEN),
        "visible_bias": random.normal(0, 0.5, (1 if biases == "one" else groups, PIXELS)),
    }
    if visible == "gaussian":
        common["variance"] = "learned"
        parameters["weights"] *= 0.7
        parameters["log_variance"] = random.normal(0, 0.4, (groups, PIXELS))
    if name == "tirbm":
        parameters["hidden_bias"] = random.normal(0, 0.5, (rotations, HIDDEN))
    if name == "theta-full":
        parameters["weights"] = np.stack([parameters["weights"] @ turn.T for turn in operators])
    # float32, so that the estimator and the exact network have equal parameters.
    parameters = {key: value.astype(np.float32).astype(np.float64) for key, value in parameters.items()}

    def row(given: Parameters, key: str, s: int) -> Doubles | None:
        if key not in given:
            return None
        values = np.asarray(given[key])
        value = values[s if len(values) > 1 else 0]
        if name != "theta-tied":
            return value
        # The tied network lives in the frame of M, of which an image's frame is a turn; one c for all is turned there.
        return operators[s] @ (operators[s].T @ value if len(values) < groups else value)

    def exact(given: Parameters, s: int) -> TinyNetwork:
        weights, bias = np.asarray(given["weights"]), np.atleast_2d(given["hidden_bias"])
        if name == "tirbm":
            matrices = np.stack([weights @ turn for turn in operators])
        elif name == "theta-full":
            matrices = weights[s][None]
        elif name == "theta-tied":
            matrices = (weights @ operators[s].T)[None]
        else:
            matrices = weights[None]
        visible_bias = row(given, "visible_bias", s)
        assert visible_bias is not None
        return TinyNetwork(matrices, bias, visible_bias, row(given, "log_variance", s))

    def build(**settings: Any) -> RBM:
        if name == "rbm":
            return RBM(**{**common, **settings})
        if name == "tirbm":
            return TransformInvariantRBM(rotations=rotations, **{**common, **settings})
        tensor = name.removeprefix("theta-")
        return ThetaRBM(rotations=rotations, tensor=tensor, visible_biases=biases, **{**common, **settings})

    return Tiny(build, parameters, exact, groups)
