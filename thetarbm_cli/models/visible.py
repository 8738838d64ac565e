"""Visible units x: Gaussian or Bernoulli, their bias c and their variance.

Gaussian units follow Cho, Ilin & Raiko (2011): x_k | h ~ N(c_k + (W'h)_k, σ_k²) and hidden units see x_k / σ_k²,
with σ fixed at 1 or learned as log σ². A third form, ``tracked``, is the scalar σ of the TI-RBM's authors: hidden
units see x / σ, the mean is c + σ W'h, and σ follows the reconstruction error.
"""

from __future__ import annotations

from thetarbm_cli.backend import Array, Backend, RandomStream
from thetarbm_cli.models.activation import sigmoid
from thetarbm_cli.models.groups import Groups

KINDS = ("gaussian", "bernoulli")


class VisibleUnits:
    """The visible layer of a machine.

    Parameters
    ----------
    backend : Backend
    parameters : dict
        ``visible_bias`` (G, V), with G = 1 or one row per orientation; with a learned variance also
        ``log_variance`` (G, V); with a tracked one ``sigma`` (1,).
    kind : {"gaussian", "bernoulli"}
    """

    def __init__(self, backend: Backend, parameters: dict[str, Array], kind: str) -> None:
        self.backend = backend
        self.parameters = parameters
        self.kind = kind

    @property
    def learns_variance(self) -> bool:
        """Whether log σ² is a parameter."""
        return "log_variance" in self.parameters

    def rows_of(self, name: str, groups: Groups | None) -> Array:
        """Rows of a (G, V) parameter for each image: one row for all, or one by orientation."""
        parameter = self.parameters[name]
        if groups is None or len(parameter) == 1:
            return parameter
        return self.backend.xp.take(parameter, groups.index, axis=0)

    def drive(self, visible: Array, groups: Groups | None) -> Array:
        """What hidden units see of `visible` (n, V): x, x / σ² or x / σ."""
        if self.learns_variance:
            return visible * self.backend.xp.exp(-self.rows_of("log_variance", groups))
        if "sigma" in self.parameters:
            return visible / self.parameters["sigma"]
        return visible

    def mean(self, field: Array, groups: Groups | None) -> Array:
        """E[x | h, r] from the field W_s'h (n, V), written over it (Eq. 4)."""
        if "sigma" in self.parameters:
            field *= self.parameters["sigma"]
        field += self.rows_of("visible_bias", groups)
        return sigmoid(self.backend.xp, field) if self.kind == "bernoulli" else field

    def sample(self, mean: Array, groups: Groups | None, random: RandomStream) -> Array:
        """Draw x from its distribution given its mean (n, V), written over the mean."""
        xp = self.backend.xp
        noise = xp.empty_like(mean)
        if self.kind == "bernoulli":
            random.uniform(noise)
            return xp.less(noise, mean, out=mean)
        random.normal(noise)
        if self.learns_variance:
            noise *= xp.exp(self.rows_of("log_variance", groups) / 2)
        elif "sigma" in self.parameters:
            noise *= self.parameters["sigma"]
        mean += noise
        return mean

    def energy(self, visible: Array, groups: Groups | None) -> Array:
        """The part of the energy that has no hidden unit in it, per image (n,)."""
        bias = self.rows_of("visible_bias", groups)
        if self.kind == "bernoulli":
            return -(visible * bias).sum(axis=1)
        squares = (visible - bias) ** 2
        if self.learns_variance:
            squares *= self.backend.xp.exp(-self.rows_of("log_variance", groups))
        elif "sigma" in self.parameters:
            squares /= self.parameters["sigma"] ** 2
        return squares.sum(axis=1) / 2

    def bias_difference(self, difference: Array, groups: Groups | None) -> Array:
        """Gradient of the bias c per image, from data minus model (n, V): scaled as hidden units see it."""
        return self.drive(difference, groups)

    def variance_slope(self, visible: Array, field: Array, groups: Groups | None) -> Array:
        """∂/∂(log σ²) of minus the energy, per image (n, V): exp(-z) (½ (x - c)² - x W'h)."""
        xp = self.backend.xp
        slope = (visible - self.rows_of("visible_bias", groups)) ** 2
        slope /= 2
        slope -= visible * field
        slope *= xp.exp(-self.rows_of("log_variance", groups))
        return slope
