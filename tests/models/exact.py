"""Boltzmann machines so small that all their states can be summed: float64, and from the energy alone."""

import functools
import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from skimage.transform import rotate

Doubles = NDArray[np.float64]


def turns(size: int, rotations: int) -> list[Doubles]:
    """T_s for every s as dense (V, V) matrices, column by column from scikit-image's bilinear rotation."""
    basis = np.eye(size * size).reshape(-1, size, size)
    return [
        np.stack([rotate(image, 360 * s / rotations, order=1).ravel() for image in basis], axis=1)
        for s in range(rotations)
    ]


@functools.cache
def all_states(states: int, count: int) -> NDArray[np.int64]:
    """All ways to give `count` units one of so many states each, as rows."""
    rows = np.array(list(itertools.product(range(states), repeat=count)))
    rows.flags.writeable = False
    return rows


@dataclass(frozen=True)
class TinyNetwork:
    """Units h_j that are off (0) or in one of K states, with energy

    E(x, h) = -Σ_j (b_{h_j j} + w_{h_j j} · x) - c · x                                    (Bernoulli x)
    E(x, h) = -Σ_j (b_{h_j j} + w_{h_j j} · x / σ²) + Σ_v (x_v - c_v)² / (2 σ_v²)         (Gaussian x)

    Parameters
    ----------
    matrices : (K, H, V)
    hidden_bias : (K, H)
    visible_bias : (V,)
    log_variance : (V,), or None for Bernoulli units
    """

    matrices: Doubles
    hidden_bias: Doubles
    visible_bias: Doubles
    log_variance: Doubles | None = None
    states: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        turned, units = self.hidden_bias.shape
        object.__setattr__(self, "states", all_states(turned + 1, units))

    def minus_energy(self, images: Doubles) -> Doubles:
        """-E of every hidden state and image, (C, n)."""
        seen = images if self.log_variance is None else images * np.exp(-self.log_variance)
        drives = np.einsum("khv,nv->khn", self.matrices, seen) + self.hidden_bias[:, :, None]
        choices = np.concatenate([np.zeros_like(drives[:1]), drives])
        hidden = sum(choices[self.states[:, j], j] for j in range(self.states.shape[1]))
        if self.log_variance is None:
            return hidden + images @ self.visible_bias
        squares = (images - self.visible_bias) ** 2 * np.exp(-self.log_variance)
        return hidden - squares.sum(axis=1) / 2

    def free_energy(self, images: Doubles) -> Doubles:
        """-log Σ_h exp(-E(x, h)), (n,)."""
        return -logsumexp(self.minus_energy(images), axis=0)

    def hidden_probabilities(self, images: Doubles) -> Doubles:
        """p(h_j = k | x) for k = 1 … K, (K, n, H), by summing p(h | x) over all h with h_j = k."""
        logs = self.minus_energy(images)
        joint = np.exp(logs - logsumexp(logs, axis=0))
        return np.stack(
            [
                np.stack([joint[column == k].sum(axis=0) for column in self.states.T], axis=1)
                for k in range(1, len(self.hidden_bias) + 1)
            ]
        )

    def visible_means(self) -> Doubles:
        """E[x | h] of Bernoulli units for every hidden state, (C, V), by summing over all x."""
        images = all_states(2, self.matrices.shape[2]).astype(float)
        logs = self.minus_energy(images)
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True)) @ images

    def log_partition(self) -> float:
        """log Z: over all x, or for Gaussian x by completing the square for each h."""
        if self.log_variance is None:
            images = all_states(2, self.matrices.shape[2]).astype(float)
            return float(logsumexp(-self.free_energy(images)))
        padded = np.concatenate([np.zeros_like(self.matrices[:1]), self.matrices])
        bias = np.concatenate([np.zeros_like(self.hidden_bias[:1]), self.hidden_bias])
        units = range(self.states.shape[1])
        fields = sum(padded[self.states[:, j], j] for j in units)
        constants = sum(bias[self.states[:, j], j] for j in units)
        # -(x - c)²/2σ² + x m/σ² = -(x - c - m)²/2σ² + (c m + m²/2)/σ²
        gains = (fields * self.visible_bias + fields**2 / 2) @ np.exp(-self.log_variance)
        width = (np.log(2 * np.pi) + self.log_variance).sum() / 2
        return float(logsumexp(constants + gains) + width)

    def log_likelihood(self, images: Doubles) -> Doubles:
        """log p(x), (n,)."""
        return -self.free_energy(images) - self.log_partition()
