"""An exact cyclic group of pixel permutations, as near as possible to the rotations by multiples of 360°/S.

A rotation of a pixel grid by 40° is not a permutation, and so its powers are no group. Here the pixels of the
inscribed disc are gathered into orbits of length S, and the permutation P moves each pixel to the next one of
its orbit. So P^S = I and PP' = I hold to the last bit, and with them Lemma 1 of the paper.

An orbit has a place q, and its k-th pixel p_k should be at q rotated by k·360°/S. Two steps alternate until
nothing improves: match the pixels with the places of all orbits (linear assignment), and move each q to the
mean of its pixels rotated back. Both lower the same sum: the squared distance between P^j p and p rotated
by j·360°/S, over all moved pixels p and all powers j.

Places are complex numbers, right + i·up from the centre.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

# One assignment problem has at most about this many places: larger images are solved ring by ring.
_RING = 1000
# Where the first sector starts, in sectors: the better result of these is taken.
_STARTS = (0.0, 0.5)
_MAX_ROUNDS = 30


@lru_cache(maxsize=64)
def cyclic_permutation(size: int, rotations: int) -> NDArray[np.int64]:
    """Find the permutation P that stands for a counter-clockwise rotation by 360°/S.

    Inside the inscribed disc all orbits have length S. Fixed are: the pixels outside of the disc, the middle
    pixel of an odd size, and the fewer than S pixels left over, which are taken from the disc's rim. With
    fewer than S pixels in the disc P is the identity. The rotations that map the grid onto itself are exact:
    P^(S/2) is the half turn for even S, P^(S/4) the quarter turn if 4 divides S.

    Gives the place each pixel of a size × size image moves to, ``rotated[..., permutation] = image``: (V,), read-only.
    """
    destination = np.arange(size * size)
    exact = math.gcd(rotations, 4)  # how many of the rotations map the grid onto itself
    steps = rotations // exact  # an orbit is `steps` pixels and their exact turns
    wedge = _wedge(size, exact)
    orbits = wedge.size // steps
    if rotations > 1 and orbits > 0:
        start = 0
        for ring in np.array_split(np.arange(orbits), math.ceil(orbits * steps / _RING)):
            # The last ring also chooses among the pixels that do not fill an orbit.
            last = ring[-1] == orbits - 1
            stop = wedge.size if last else start + ring.size * steps
            pixels = _orbits(wedge[start:stop], ring.size, rotations, exact)
            orbit = np.concatenate([pixels * turn for turn in _exact_turns(exact)], axis=1)
            index = _pixel_index(size, orbit)
            destination[index] = np.roll(index, -1, axis=1)
            start = stop
    destination.flags.writeable = False
    return destination


def _places(size: int) -> NDArray[np.complex128]:
    """Give the place of each pixel: a (V,) array."""
    row, column = np.divmod(np.arange(size * size), size)
    centre = (size - 1) / 2
    return np.asarray((column - centre) + 1j * (centre - row))


def _pixel_index(size: int, places: NDArray[np.complex128]) -> NDArray[np.int64]:
    """Give the flat index of the pixel at each place."""
    centre = (size - 1) / 2
    row, column = np.rint(centre - places.imag), np.rint(places.real + centre)
    return np.asarray(row * size + column, dtype=np.int64)


def _exact_turns(exact: int) -> NDArray[np.complex128]:
    """Give the `exact` = 1, 2 or 4 turns of the grid onto itself as factors."""
    return np.array([1, 1j, -1, -1j])[:: 4 // exact]


def _wedge(size: int, exact: int) -> NDArray[np.complex128]:
    """Give the pixels of the disc (without its centre) whose exact turns fill it, nearest first."""
    places = _places(size)
    radius, angle = np.abs(places), np.mod(np.angle(places), 2 * np.pi)
    inside = places[(radius > 0) & (radius <= size / 2) & (angle < 2 * np.pi / exact)]
    return inside[np.argsort(np.abs(inside), kind="stable")]


def _orbits(wedge: NDArray[np.complex128], count: int, rotations: int, exact: int) -> NDArray[np.complex128]:
    """Gather the pixels of one ring into `count` orbits, (count, S/exact) pixels p_0, p_1, … of each.

    The wedge has one pixel for each set of exact turns, nearest to the centre first, at least count·S/exact.
    """
    turns = np.exp(2j * np.pi / rotations * np.arange(rotations // exact))
    best, best_error = wedge, math.inf
    for start in _STARTS:
        middles = _first_sector(wedge, count, rotations, exact, start)
        error = math.inf
        for _ in range(_MAX_ROUNDS):
            pixels = _match(wedge, (middles[:, None] * turns).ravel(), exact).reshape(count, -1)
            turned_back = pixels / turns
            middles = turned_back.mean(axis=1)
            previous, error = error, float((np.abs(turned_back - middles[:, None]) ** 2).sum())
            if error < best_error - 1e-9:
                best, best_error = pixels, error
            if error > previous - 1e-9:
                break
    return best


def _first_sector(
    wedge: NDArray[np.complex128], count: int, rotations: int, exact: int, start: float
) -> NDArray[np.complex128]:
    """Choose `count` pixels of the first sector, filled up with pixels of the others turned back."""
    width = 2 * np.pi / rotations
    sector = np.floor(np.mod(np.angle(wedge) - start * width, 2 * np.pi / exact) / width)
    first, others = wedge[sector == 0][:count], sector != 0
    turned = wedge[others] * np.exp(-1j * width * sector[others])
    return np.concatenate([first, turned[turned.size - (count - first.size) :]])


def _match(wedge: NDArray[np.complex128], places: NDArray[np.complex128], exact: int) -> NDArray[np.complex128]:
    """Match each place with one pixel, or an exact turn of it, so that the squared distances are least."""
    turns = _exact_turns(exact)
    distance = np.stack([np.abs(places[:, None] - wedge * turn) ** 2 for turn in turns])
    nearest_turn = distance.argmin(axis=0)
    # Rounded, so that the last bit of a sine cannot decide between equal solutions.
    cost = distance.min(axis=0).round(9)
    # Pixels that may be left over are the outermost ones: all others must be taken.
    must = max(wedge.size - 2 * (wedge.size - places.size), 0)
    cost[:, :must] -= cost.max() * places.size
    place, pixel = linear_sum_assignment(cost)
    return np.asarray(wedge[pixel] * turns[nearest_turn[place, pixel]])
