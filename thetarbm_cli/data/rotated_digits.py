"""Sets of rotated images: mnist-rot as the official one was made, and in the plainer way of distinct, bilinear digits.

Both give the same bytes on every machine and NumPy version. Three things ensure that. Random numbers are the raw output
of PCG64: an image is drawn by the upper 32 bits of such a number, a permutation is their stable order, an angle their
upper 53 bits as a fraction of 360°. Libraries' sines and exponentials, fused multiply-adds and reordered sums differ in
the last bit between machines and versions, and one bit can move a pixel across a rounding border; so the rotation, with
its sines and exponentials, is built from single additions, subtractions, multiplications and divisions of doubles, each
its own NumPy call: IEEE 754 fixes the result of each one to the last bit, and separate calls cannot be fused. And
pixels are rounded to whole values in 0..255, as in MNIST itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.recipes import TEST, TRAIN, VALID, Arrays, Progress, Recipe, Request, raw_numbers, split_column

# The names of the recipes in sidecars.
METHOD = "PCG64 raw numbers with replacement, IEEE Gaussian turns of 0.3 px, 255/256, uint8"
BILINEAR_METHOD = "PCG64 raw numbers, IEEE bilinear turns, uint8"
# Of mnist-rot, and of every set that is made in its way.
ROTATED_SPLIT = {TRAIN: 10_000, VALID: 2_000, TEST: 50_000}

Doubles = NDArray[np.float64]

# Images rotated at a time: the working arrays of one step stay in the processor's cache.
CHUNK = 64

RADIANS_PER_DEGREE = 0.017453292519943295
# Taylor coefficients in x², highest power first; a quotient of whole numbers is rounded once, on every machine. On
# [-45°, 45°] the first term left out is below 1e-18.
SINE_COEFFICIENTS = tuple((-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(9)))
COSINE_COEFFICIENTS = tuple((-1) ** k / math.factorial(2 * k) for k in reversed(range(9)))
# σ² of the Gaussian kernel in square pixels, and the kernel at one and at two pixels: exp(-1/2σ²), exp(-4/2σ²).
VARIANCE = 0.09
ONE_AWAY = 0.0038659201394728067
TWO_AWAY = 2.2336314362031644e-10
# Taylor coefficients, highest power first. Up to 1/256σ² the first term left out is below 1e-15.
EXPONENTIAL_COEFFICIENTS = tuple(1 / math.factorial(k) for k in reversed(range(8)))


def uniform_degrees(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Map raw numbers to angles, uniform on [0°, 360°)."""
    fractions = np.multiply((numbers >> np.uint64(11)).astype(np.float64), 2.0**-53)
    return np.multiply(fractions, 360.0)


def generate_rotated(
    images: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    seed: int = 0,
    *,
    stream: int,
    bilinear: bool = False,
    sizes: dict[int, int] = ROTATED_SPLIT,
    progress: Progress | None = None,
) -> Arrays:
    """Make a set of images, each rotated by a uniform angle.

    By default as the official mnist-rot was made: images drawn with replacement, values of the Gaussian kernel divided
    by 256, as uint8 of 255 (the largest is 254, for 255/256). Or, if `bilinear`, distinct images, rotated bilinearly.

    Parameters
    ----------
    images : (m, h, h) uint8 array
    labels : (m,) uint8 array
    seed : the data seed; it decides which images, in which order, and the angles
    stream : as in `raw_numbers`
    sizes : images of each part
    progress : called with (images done, images in all)

    Returns
    -------
    dict
        For n images in all parts: ``images`` (n, h, h) uint8; ``labels`` (n,) int64; ``split`` (n,) uint8, by
        default 10,000 zeros (train), 2,000 ones (valid), 50,000 twos (test); ``angles`` (n,) float64,
        counter-clockwise degrees; ``source_indices`` (n,) int64 into the m images.
    """
    split = split_column(sizes)
    if bilinear:
        numbers = raw_numbers(len(images) + len(split), seed, stream)
        chosen = np.argsort(numbers[: len(images)], kind="stable")[: len(split)]
        turns = numbers[len(images) :]
    else:
        # Two numbers an image, so that a smaller set is the beginning of a larger one.
        draws, turns = raw_numbers(2 * len(split), seed, stream).reshape(-1, 2).T
        # The upper 32 bits as a fraction of m, in whole numbers.
        chosen = ((draws >> np.uint64(32)) * np.uint64(len(images)) >> np.uint64(32)).astype(np.intp)
    angles = uniform_degrees(turns)
    return {
        "images": rotate_exactly(images[chosen], angles, BILINEAR if bilinear else GAUSSIAN, progress),
        "labels": labels[chosen].astype("<i8"),
        "split": split,
        "angles": angles.astype("<f8"),
        "source_indices": chosen.astype("<i8"),
    }


def rotating_recipe(
    request: Request,
    load: Callable[[], tuple[NDArray[np.uint8], NDArray[np.uint8]]],
    stream: int,
    *,
    bilinear: bool = False,
    takes_archive: bool = False,
    sizes: dict[int, int] = ROTATED_SPLIT,
) -> Recipe:
    """Give the recipe of rotated images in either way; the images are loaded only when the set is made."""
    wanted = {"method": BILINEAR_METHOD if bilinear else METHOD}

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        images, labels = load()
        arrays = generate_rotated(
            images, labels, request.seed, stream=stream, bilinear=bilinear, sizes=sizes, progress=progress
        )
        return arrays, wanted

    return Recipe(wanted, build, takes_archive)


def _polynomial(x: Doubles, coefficients: tuple[float, ...]) -> Doubles:
    """Evaluate a polynomial by Horner's rule, one rounding a step."""
    result = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = np.multiply(result, x)
        result = np.add(result, coefficient)
    return result


def exact_sine_cosine(degrees: Doubles) -> tuple[Doubles, Doubles]:
    """Compute sine and cosine of angles in degrees, to about the last bit and equal on every machine.

    The angle is reduced to within 45° of a multiple of 90°, which is exact in degrees.
    """
    quarters = np.rint(np.multiply(degrees, 1.0 / 90.0))
    rest = np.multiply(np.subtract(degrees, np.multiply(quarters, 90.0)), RADIANS_PER_DEGREE)
    square = np.multiply(rest, rest)
    sine = np.multiply(_polynomial(square, SINE_COEFFICIENTS), rest)
    cosine = _polynomial(square, COSINE_COEFFICIENTS)
    quadrant = quarters.astype(np.int64) % 4
    full_sine = np.choose(quadrant, [sine, cosine, np.negative(sine), np.negative(cosine)])
    full_cosine = np.choose(quadrant, [cosine, np.negative(sine), np.negative(cosine), sine])
    return full_sine, full_cosine


# The pixel so many rows below and columns to the right of the one that lies up and left of a place.
Neighbour = Callable[[int, int], Doubles]


class Kernel(NamedTuple):
    """How a value between pixels is found.

    Attributes
    ----------
    reach : pixels that it takes on either side of a place, along each axis
    interpolate : from the neighbours of places and the places' distances in [0, 1) from the pixel up and left of them,
        to the right and downwards, to values in 0..255
    """

    reach: int
    interpolate: Callable[[Neighbour, Doubles, Doubles], Doubles]


def rotate_exactly(
    images: NDArray[np.uint8], degrees: Doubles, kernel: Kernel, progress: Progress | None = None
) -> NDArray[np.uint8]:
    """Rotate each image (n, h, h) counter-clockwise by its own angle (n,): black outside, rounded to whole values.

    The kernel `BILINEAR` is ``skimage.transform.rotate(image, angle, order=1)`` up to the rounding.
    """
    count, side, _ = images.shape
    sine, cosine = exact_sine_cosine(np.asarray(degrees, dtype=np.float64))
    # Coordinates from the centre, half-integers for an even side: x to the right, y downwards.
    axis = np.subtract(np.arange(side, dtype=np.float64), (side - 1) / 2)
    rotated = np.empty((count, side, side), dtype=np.uint8)
    for start in range(0, count, CHUNK):
        rows = slice(start, min(start + CHUNK, count))
        rotated[rows] = _rotate_chunk(images[rows], sine[rows], cosine[rows], axis, kernel)
        if progress is not None:
            progress(rows.stop, count)
    return rotated


def _rotate_chunk(
    images: NDArray[np.uint8], sine: Doubles, cosine: Doubles, axis: Doubles, kernel: Kernel
) -> NDArray[np.uint8]:
    """Rotate the images of one chunk; see `rotate_exactly`."""
    count, side, _ = images.shape
    # Each pixel of the result asks the picture at the place that the rotation brings to it.
    along_x = (np.multiply(cosine[:, None], axis), np.multiply(sine[:, None], axis))
    x = np.subtract(along_x[0][:, None, :], along_x[1][:, :, None])
    y = np.add(along_x[1][:, None, :], along_x[0][:, :, None])
    # So many black pixels before and after the image hold every neighbour of the clipped places.
    reach = kernel.reach
    before, after = 2 * reach - 1, 2 * reach
    stride = before + side + after
    padded = np.zeros((count, stride, stride), dtype=np.float64)
    padded[:, before : before + side, before : before + side] = images
    centre = (side - 1) / 2 + before
    x = np.clip(np.add(x, centre), reach - 1.0, side + before + reach - 1.0)
    y = np.clip(np.add(y, centre), reach - 1.0, side + before + reach - 1.0)
    left, top = np.floor(x), np.floor(y)
    across, down = np.subtract(x, left), np.subtract(y, top)
    corner = left.astype(np.intp) + top.astype(np.intp) * stride
    corner += (np.arange(count) * (stride * stride))[:, None, None]
    pixels = padded.reshape(-1)

    def neighbour(below: int, right: int) -> Doubles:
        # Every index is inside by construction; "clip" only spares NumPy its own check.
        found: Doubles = pixels.take(corner + (below * stride + right), mode="clip")
        return found

    result: NDArray[np.uint8] = np.rint(kernel.interpolate(neighbour, across, down)).astype(np.uint8)
    return result


def _between(first: Doubles, second: Doubles, share: Doubles) -> Doubles:
    """Interpolate linearly, first + (second - first)·share, one rounding a step."""
    difference = np.subtract(second, first)
    np.multiply(difference, share, out=difference)
    return np.add(first, difference, out=difference)


def _bilinear(neighbour: Neighbour, across: Doubles, down: Doubles) -> Doubles:
    upper = _between(neighbour(0, 0), neighbour(0, 1), across)
    lower = _between(neighbour(1, 0), neighbour(1, 1), across)
    return _between(upper, lower, down)


def gaussian_weights(distance: Doubles) -> list[Doubles]:
    """Weigh the pixels at -1, 0, 1 and 2 along one axis for a place at `distance` in [0, 1), up to a common factor.

    exp(-(d - k)²/2σ²) for k = -1, 0, 1, 2 are as c₁, E, E²c₁, E³c₂ with E = exp(d/σ²). E is the 256th power, by eight
    squarings, of the exponential of d/256σ², a short Taylor series.
    """
    power = _polynomial(np.multiply(distance, 1.0 / (256 * VARIANCE)), EXPONENTIAL_COEFFICIENTS)
    for _ in range(8):
        np.multiply(power, power, out=power)
    square = np.multiply(power, power)
    cube = np.multiply(square, power)
    return [
        np.full_like(power, ONE_AWAY),
        power,
        np.multiply(square, ONE_AWAY, out=square),
        np.multiply(cube, TWO_AWAY, out=cube),
    ]


def _gaussian(neighbour: Neighbour, across: Doubles, down: Doubles) -> Doubles:
    columns, rows = gaussian_weights(across), gaussian_weights(down)
    value = np.zeros_like(across)
    for row, weight in enumerate(rows, start=-1):
        line = np.zeros_like(across)
        for column, share in enumerate(columns, start=-1):
            term = neighbour(row, column)
            np.add(line, np.multiply(term, share, out=term), out=line)
        np.add(value, np.multiply(line, weight, out=line), out=value)
    np.divide(value, np.multiply(_sum(columns), _sum(rows)), out=value)
    # Of 256, as uint8 of 255.
    return np.multiply(value, 255.0 / 256.0, out=value)


def _sum(weights: list[Doubles]) -> Doubles:
    first, second, third, fourth = weights
    return np.add(np.add(first, second), np.add(third, fourth))


BILINEAR = Kernel(1, _bilinear)
GAUSSIAN = Kernel(2, _gaussian)
