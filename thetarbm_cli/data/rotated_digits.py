"""Sets of rotated images in the way of mnist-rot, with the same bytes on every machine and NumPy version.

Three things ensure that. Random numbers are the raw output of PCG64: a permutation is the stable order of such numbers,
an angle their upper 53 bits as a fraction of 360°. Libraries' sines, fused multiply-adds and reordered sums differ in
the last bit between machines and versions, and one bit can move a pixel across a rounding border; so the rotation is
built from single additions, subtractions and multiplications of doubles, each its own NumPy call: IEEE 754 fixes the
result of each one to the last bit, and separate calls cannot be fused. And pixels are rounded to whole values in
0..255, as in MNIST itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.recipes import Arrays, Progress, raw_numbers
from thetarbm_cli.data.splits import TEST, TRAIN, VALID, split_column

# The name of this recipe in sidecars.
METHOD = "PCG64 raw numbers, IEEE bilinear turns, uint8"
# Of mnist-rot, and of every set that is made in its way.
ROTATED_SPLIT = {TRAIN: 10_000, VALID: 2_000, TEST: 50_000}

Doubles = NDArray[np.float64]

# Images rotated at a time: the working arrays of one step stay in the processor's cache.
CHUNK = 64

RADIANS_PER_DEGREE = 0.017453292519943295
# Taylor coefficients in x², highest power first. On [-45°, 45°] the first term left out is below 1e-18.
SINE_COEFFICIENTS = (
    2.8114572543455206e-15,  # 1/17!
    -7.647163731819816e-13,  # -1/15!
    1.6059043836821613e-10,  # 1/13!
    -2.505210838544172e-08,  # -1/11!
    2.7557319223985893e-06,  # 1/9!
    -0.0001984126984126984,  # -1/7!
    0.008333333333333333,  # 1/5!
    -0.16666666666666666,  # -1/3!
    1.0,
)
COSINE_COEFFICIENTS = (
    4.779477332387385e-14,  # 1/16!
    -1.1470745597729725e-11,  # -1/14!
    2.08767569878681e-09,  # 1/12!
    -2.755731922398589e-07,  # -1/10!
    2.48015873015873e-05,  # 1/8!
    -0.001388888888888889,  # -1/6!
    0.041666666666666664,  # 1/4!
    -0.5,  # -1/2!
    1.0,
)


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
    sizes: dict[int, int] = ROTATED_SPLIT,
    progress: Progress | None = None,
) -> Arrays:
    """Make a set in the way of mnist-rot: distinct images, each rotated by its own uniform angle.

    Parameters
    ----------
    images : (m, h, h) uint8 array
    labels : (m,) uint8 array
    seed : the data seed; it decides which images, in which order, and the angles
    stream : as in `raw_numbers`
    sizes : images of each part; those of mnist-rot unless a test says otherwise
    progress : called with (images done, images in all)

    Returns
    -------
    dict
        For n images in all parts: ``images`` (n, h, h) uint8; ``labels`` (n,) int64; ``split`` (n,) uint8, by
        default 10,000 zeros (train), 2,000 ones (valid), 50,000 twos (test); ``angles`` (n,) float64,
        counter-clockwise degrees; ``source_indices`` (n,) int64 into the m images.
    """
    split = split_column(sizes)
    numbers = raw_numbers(len(images) + len(split), seed, stream)
    chosen = np.argsort(numbers[: len(images)], kind="stable")[: len(split)]
    angles = uniform_degrees(numbers[len(images) :])
    return {
        "images": rotate_exactly(images[chosen], angles, progress),
        "labels": labels[chosen].astype("<i8"),
        "split": split,
        "angles": angles.astype("<f8"),
        "source_indices": chosen.astype("<i8"),
    }


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

    Parameters
    ----------
    degrees : (n,) float64 array

    Returns
    -------
    sine, cosine : (n,) float64 arrays
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


def rotate_exactly(images: NDArray[np.uint8], degrees: Doubles, progress: Progress | None = None) -> NDArray[np.uint8]:
    """Rotate each image counter-clockwise by its own angle: bilinear, black outside, rounded to whole values.

    The same as ``skimage.transform.rotate(image, angle, order=1)`` up to the rounding, and the same bytes on
    every machine.

    Parameters
    ----------
    images : (n, h, h) uint8 array
    degrees : (n,) float64 array
    progress : called with (images done, images in all)

    Returns
    -------
    (n, h, h) uint8 array
    """
    count, side, _ = images.shape
    sine, cosine = exact_sine_cosine(np.asarray(degrees, dtype=np.float64))
    # Coordinates from the centre, half-integers for an even side: x to the right, y downwards.
    axis = np.subtract(np.arange(side, dtype=np.float64), (side - 1) / 2)
    rotated = np.empty((count, side, side), dtype=np.uint8)
    for start in range(0, count, CHUNK):
        rows = slice(start, min(start + CHUNK, count))
        rotated[rows] = _rotate_chunk(images[rows], sine[rows], cosine[rows], axis)
        if progress is not None:
            progress(rows.stop, count)
    return rotated


def _rotate_chunk(images: NDArray[np.uint8], sine: Doubles, cosine: Doubles, axis: Doubles) -> NDArray[np.uint8]:
    """Rotate the images of one chunk; see `rotate_exactly`."""
    count, side, _ = images.shape
    # Each pixel of the result asks the picture at the place that the rotation brings to it.
    along_x = (np.multiply(cosine[:, None], axis), np.multiply(sine[:, None], axis))
    x = np.subtract(along_x[0][:, None, :], along_x[1][:, :, None])
    y = np.add(along_x[1][:, None, :], along_x[0][:, :, None])
    # One black pixel on the near side and two on the far side hold every neighbour of the clipped places.
    stride = side + 3
    padded = np.zeros((count, stride, stride), dtype=np.float64)
    padded[:, 1 : side + 1, 1 : side + 1] = images
    centre = (side - 1) / 2 + 1
    x = np.clip(np.add(x, centre), 0.0, side + 1.0)
    y = np.clip(np.add(y, centre), 0.0, side + 1.0)
    left, top = np.floor(x), np.floor(y)
    across, down = np.subtract(x, left), np.subtract(y, top)
    corner = left.astype(np.intp) + top.astype(np.intp) * stride
    corner += (np.arange(count) * (stride * stride))[:, None, None]
    pixels = padded.reshape(-1)
    # Every index is inside by construction; "clip" only spares NumPy its own check.
    upper = _between(pixels.take(corner, mode="clip"), pixels.take(corner + 1, mode="clip"), across)
    corner += stride
    lower = _between(pixels.take(corner, mode="clip"), pixels.take(corner + 1, mode="clip"), across)
    result: NDArray[np.uint8] = np.rint(_between(upper, lower, down)).astype(np.uint8)
    return result


def _between(first: Doubles, second: Doubles, share: Doubles) -> Doubles:
    """Interpolate linearly, first + (second - first)·share, one rounding a step."""
    difference = np.subtract(second, first)
    np.multiply(difference, share, out=difference)
    return np.add(first, difference, out=difference)
