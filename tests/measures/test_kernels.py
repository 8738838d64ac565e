import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tests.measures.digits import digits
from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.measures import kernels

BACKEND = NumpyBackend()


def operands(left, right, centre, dtype, scale):
    return (
        kernels.left_operand(left, centre, dtype, BACKEND),
        kernels.right_operand(right, centre, dtype, BACKEND, scale=scale),
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_kernels_of_digits_are_those_of_scipy(dtype, tolerance):
    pixels, _ = digits(200)
    left, right = pixels[:120], pixels[80:]
    centre = pixels.mean(axis=0, dtype=np.float64)
    squares = cdist(left.astype(np.float64), right.astype(np.float64), "sqeuclidean")
    pair = operands(left, right, centre, dtype, 0.02)
    assert pair[0].dtype == pair[1].dtype == dtype
    np.testing.assert_allclose(kernels.rbf_kernel(*pair, BACKEND), np.exp(-0.02 * squares), atol=tolerance)
    distances = kernels.negative_distances(*operands(left, right, centre, dtype, 1.0), BACKEND)
    np.testing.assert_allclose(distances, -squares, atol=500 * tolerance)
    assert distances.max() <= 0


def two_islands(gamma, exponent):
    """Points in two narrow groups, γ|x|² = `exponent` away from their common centre."""
    random = np.random.default_rng(4)
    middle = np.sqrt(exponent / gamma / 50) * np.repeat([1.0, -1.0], 100)[:, None] * np.ones(50)
    return middle + random.normal(0, 0.3, (200, 50)), np.zeros(50)


def test_float32_is_used_where_the_kernel_is_good_to_1e_5():
    gamma = 0.02
    points, centre = two_islands(gamma, 0.95 * kernels.LARGEST_FLOAT32_EXPONENT)
    points *= np.sqrt(kernels.LARGEST_FLOAT32_EXPONENT / gamma / np.sum(points**2, axis=1).max()) * (1 - 1e-9)
    assert kernels.product_dtype(points, centre, gamma, BACKEND) is np.float32
    expected = np.exp(-gamma * cdist(points, points, "sqeuclidean"))
    result = kernels.rbf_kernel(*operands(points, points, centre, np.float32, gamma), BACKEND)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_points_far_from_the_centre_are_computed_in_float64():
    gamma = 0.02
    points, centre = two_islands(gamma, 1e4)
    dtype = kernels.product_dtype(points, centre, gamma, BACKEND)
    expected = np.exp(-gamma * cdist(points, points, "sqeuclidean"))
    result = kernels.rbf_kernel(*operands(points, points, centre, dtype, gamma), BACKEND)
    np.testing.assert_allclose(result, expected, atol=1e-10)
    narrow = kernels.rbf_kernel(*operands(points, points, centre, np.float32, gamma), BACKEND)
    assert np.abs(narrow - expected).max() > 1e-4
