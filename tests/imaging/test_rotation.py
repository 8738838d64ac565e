from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.transform import rotate

from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import Rotations, rotation_matrix, rotation_operators, round_trip_operators
from thetarbm_cli.parameters import ROTATION_KINDS


def random_images(count, size, seed=0):
    return np.random.default_rng(seed).random((count, size * size), dtype=np.float32)


@pytest.mark.parametrize(
    ("kind", "order", "mode"), [("bilinear", 1, "constant"), ("replicated", 1, "edge"), ("nearest", 0, "constant")]
)
@given(size=st.integers(2, 33), degrees=st.floats(-720, 720))
def test_rotations_are_those_of_scikit_image(kind, order, mode, size, degrees):
    if kind == "nearest":
        degrees = round(degrees) + 0.3  # halfway between two pixels either may be taken
    image = random_images(1, size)[0].reshape(size, size)
    expected = rotate(image.astype(np.float64), degrees, order=order, mode=mode, clip=False)
    turned = rotation_matrix(size, degrees, kind) @ image.ravel()
    np.testing.assert_allclose(turned.reshape(size, size), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [1, 2, 7, 28])
@pytest.mark.parametrize("quarters", [-1, 0, 1, 2, 3, 4, 7])
def test_multiples_of_90_degrees_are_exact(kind, size, quarters):
    image = random_images(1, size)[0]
    operator = rotation_matrix(size, 90.0 * quarters, kind)
    np.testing.assert_array_equal((operator @ image).reshape(size, size), np.rot90(image.reshape(size, size), quarters))
    assert (operator.nnz, operator.dtype) == (size * size, np.float32)


@pytest.mark.parametrize("kind", ROTATION_KINDS)
@pytest.mark.parametrize(("size", "rotations"), [(4, 3), (7, 4), (12, 9)])
def test_turn_is_the_product_row_by_row(kind, size, rotations):
    # More images than one block, so that groups are cut.
    images = random_images(1000, size)
    indices = np.random.default_rng(1).integers(0, rotations, 1000)
    turns = Rotations(size, rotations, kind)
    dense = [operator.toarray().astype(np.float64) for operator in rotation_operators(size, rotations, kind)]
    forth = np.stack([dense[s] @ x for s, x in zip(indices, images, strict=True)])
    back = np.stack([dense[s].T @ x for s, x in zip(indices, images, strict=True)])
    np.testing.assert_allclose(turns.rotate(images, indices), forth, atol=1e-6)
    np.testing.assert_allclose(turns.rotate(images, indices, transpose=True), back, atol=1e-6)
    for s in range(rotations):
        np.testing.assert_allclose(turns.rotate_by(images, s), images @ dense[s].T, atol=1e-6)
        np.testing.assert_allclose(turns.rotate_by(images, s, transpose=True), images @ dense[s], atol=1e-6)
    for s, turned in enumerate(turns.rotate_each(images)):
        np.testing.assert_array_equal(turned, turns.rotate_by(images, s))
    order = np.argsort(indices, kind="stable")
    np.testing.assert_array_equal(turns.rotate(images[order], indices[order]), turns.rotate(images, indices)[order])
    np.testing.assert_array_equal(dense[0], np.eye(size * size))
    all_ways = turns.rotate_all(images)
    np.testing.assert_allclose(all_ways, [images @ matrix.T for matrix in dense], atol=1e-6)
    for result in (all_ways, turned, turns.rotate(images, indices)):
        assert result.dtype == np.float32
        assert result.flags.c_contiguous


def test_offset_is_added_to_every_angle():
    shifted = rotation_operators(8, 9, "bilinear", 20.0)
    for s, operator in enumerate(shifted):
        np.testing.assert_array_equal(operator.toarray(), rotation_matrix(8, 40.0 * s + 20).toarray())


@pytest.mark.parametrize("kind", ROTATION_KINDS)
@pytest.mark.parametrize("rotations", [1, 4, 9])
def test_there_and_back_is_the_product_and_nothing_for_an_exact_turn(kind, rotations):
    products = round_trip_operators(6, rotations, kind)
    for operator, product in zip(rotation_operators(6, rotations, kind), products, strict=True):
        dense = operator.toarray()
        expected = dense.T @ dense
        if np.array_equal(expected, np.eye(36)):
            assert product is None
        else:
            np.testing.assert_allclose(product.toarray(), expected, atol=1e-6)
    assert round_trip_operators(6, rotations, "permutation") == (None,) * rotations


@pytest.mark.cupy
@pytest.mark.parametrize("kind", ROTATION_KINDS)
def test_a_device_gives_what_the_host_gives(device, kind):
    host, device = Rotations(6, 5, kind), Rotations(6, 5, kind, backend=device)
    images, indices = random_images(30, 6), np.arange(30) % 5
    there, to_host = device.backend.asarray(images), device.backend.to_host
    for method, *by in (("rotate", indices), ("rotate", indices, True), ("rotate_by", 3, True), ("rotate_all",)):
        found = to_host(getattr(device, method)(there, *by))
        np.testing.assert_array_equal(found, getattr(host, method)(images, *by))
    for turned, expected in zip(device.rotate_each(there), host.rotate_all(images), strict=True):
        np.testing.assert_array_equal(to_host(turned), expected)


@pytest.mark.parametrize("indices", [[0, 4], [-1, 0]])
def test_indices_out_of_range_are_refused(indices):
    with pytest.raises(InputError, match=r"outside 0\.\.3"):
        Rotations(3, 4).rotate(np.zeros((2, 9), dtype=np.float32), indices)
