"""Visible units x: Gaussian or Bernoulli, their bias c and their variance.

Gaussian units follow Cho, Ilin & Raiko (2011): x_k | h ~ N(c_k + (W'h)_k, σ_k²) and hidden units see x_k / σ_k²,
with σ fixed at 1 or learned as log σ². A third form, ``tracked``, is the scalar σ of the TI-RBM's authors: hidden
units see x / σ, the mean is c + σ W'h, and σ follows the error of reconstructions from the hidden probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thetarbm_cli.backend import Array, Backend, RandomStream

if TYPE_CHECKING:
    from thetarbm_cli.imaging.rotation import Rotations
    from thetarbm_cli.models.contrastive_divergence import OrientationGroups


class VisibleUnits:
    """The visible layer of a model, of one of the `VISIBLE_KINDS`.

    Its parameters are ``visible_bias`` (G, V), with G = 1 or one row per orientation; with a learned variance also
    ``log_variance`` (G, V); with a tracked one ``sigma`` (1,).

    Where images come rotated back, as T_s'x, but one c for all orientations is in the frame of the images themselves,
    the `frame` has the rotations between the two: an image of orientation s then has the bias T_s'c.
    """

    # Parameters that follow the reconstruction error instead of a gradient.
    tracked = ("sigma",)

    def __init__(
        self, backend: Backend, parameters: dict[str, Array], kind: str, frame: Rotations | None = None
    ) -> None:
        self.backend = backend
        self.parameters = parameters
        self.kind = kind
        self.frame = frame

    @property
    def learns_variance(self) -> bool:
        """Whether log σ² is a parameter."""
        return "log_variance" in self.parameters

    @property
    def tracks_variance(self) -> bool:
        """Whether a scalar σ follows the reconstruction error."""
        return "sigma" in self.parameters

    @property
    def bias(self) -> Array:
        """The biases c as images come: one row for all, or one per orientation, T_s'c where they come rotated back."""
        bias = self.parameters["visible_bias"]
        return bias if self.frame is None else self.frame.back.turned(bias)[:, 0]

    def rows_of(self, name: str, groups: OrientationGroups) -> Array:
        """Rows of a (G, V) parameter for each image: one row for all, or one by orientation."""
        parameter = self.bias if name == "visible_bias" else self.parameters[name]
        return parameter if len(parameter) == 1 else self.backend.xp.take(parameter, groups.index, axis=0)

    def summed(self, gradients: Array, groups: OrientationGroups) -> Array:
        """Σ_i d_i of gradients (n, V) of a row for all images, (V,); Σ_i T_{s_i} d_i where they come rotated back."""
        if self.frame is None:
            return gradients.sum(axis=0)
        # Rotations are linear: of each orientation the sum is rotated, not every image.
        sums = self.backend.xp.empty((self.frame.rotations, gradients.shape[1]), dtype=gradients.dtype)
        self.backend.accumulate(groups.memberships, gradients, sums, scale=1.0, keep=0.0)
        return self.frame.forth.total(sums[:, None])[0]

    def scaled(self, visible: Array, groups: OrientationGroups) -> Array:
        """What hidden units see of `visible` (n, V): x, x / σ² or x / σ."""
        if self.learns_variance:
            return visible * self.backend.xp.exp(-self.rows_of("log_variance", groups))
        if self.tracks_variance:
            return visible / self.parameters["sigma"]
        return visible

    def mean(self, top_down: Array, groups: OrientationGroups) -> Array:
        """E[x | h, r] from W_s'h (n, V), written over it (Eq. 4)."""
        sigma = self.parameters["sigma"] if self.tracks_variance else None
        self.backend.add_rows(top_down, self.bias, groups.index, sigma)
        return self.backend.sigmoid(top_down) if self.kind == "bernoulli" else top_down

    def sample(self, mean: Array, groups: OrientationGroups, random: RandomStream) -> Array:
        """Draw x from its distribution given its mean (n, V), written over the mean."""
        xp = self.backend.xp
        noise = xp.empty_like(mean)
        if self.kind == "bernoulli":
            random.uniform(noise)
            return xp.less(noise, mean, out=mean)
        random.normal(noise)
        if self.learns_variance:
            noise *= xp.exp(self.rows_of("log_variance", groups) / 2)
        elif self.tracks_variance:
            noise *= self.parameters["sigma"]
        mean += noise
        return mean

    def energy(self, visible: Array, groups: OrientationGroups) -> Array:
        """The part of the energy that has no hidden unit in it, per image (n,)."""
        bias = self.rows_of("visible_bias", groups)
        if self.kind == "bernoulli":
            return -(visible * bias).sum(axis=1)
        squares = (visible - bias) ** 2
        if self.learns_variance:
            squares *= self.backend.xp.exp(-self.rows_of("log_variance", groups))
        elif self.tracks_variance:
            squares /= self.parameters["sigma"] ** 2
        return squares.sum(axis=1) / 2

    def variance_slope(self, visible: Array, top_down: Array, groups: OrientationGroups) -> Array:
        """∂/∂(log σ²) of minus the energy, per image (n, V): exp(-z) (½ (x - c)² - x W'h)."""
        xp = self.backend.xp
        slope = (visible - self.rows_of("visible_bias", groups)) ** 2
        slope /= 2
        slope -= visible * top_down
        slope *= xp.exp(-self.rows_of("log_variance", groups))
        return slope

    def track(self, mean_error: float) -> None:
        """Let a tracked σ follow the mean squared reconstruction error of an epoch."""
        if self.tracks_variance:
            sigma = self.parameters["sigma"]
            sigma *= 0.99
            sigma += 0.01 * mean_error**0.5
