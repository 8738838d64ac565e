"""The multiply-adds that a model states, of training and of features, against those that its products do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from thetarbm_cli.backend import Backend, SparseStack
from thetarbm_cli.models import RBM, AugmentedRBM, LocalThetaRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM, build
from thetarbm_cli.models import local_theta as local_module
from thetarbm_cli.models import rbm as rbm_module
from thetarbm_cli.registry import MODELS

IMAGES = np.random.default_rng(0).random((24, 36), dtype=np.float32)


class CountingBackend(Backend):
    """NumPy, with every product counted."""

    products = 0

    @property
    def xp(self) -> Any:
        def matmul(left: np.ndarray, right: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
            result: np.ndarray = np.matmul(left, right, out=out)
            self.products += result.size * left.shape[-1]
            return result

        return SimpleNamespace(**{**vars(np), "matmul": matmul})

    def stack(self, matrices: Any) -> SparseStack:
        backend = self

        class Counted(SparseStack):
            def _product(self, s: int, columns: np.ndarray) -> Any:
                matrix = self.matrices[s]
                backend.products += 0 if matrix is None else matrix.nnz * columns.shape[1]
                return super()._product(s, columns)

            def turned(self, images: np.ndarray) -> np.ndarray:
                backend.products += self._stacked.nnz * len(images)
                return super().turned(images)

            def total(self, turned: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
                backend.products += self._side_by_side.nnz * turned.shape[1]
                return super().total(turned, out)

        return Counted(matrices)

    def multiply(self, rows: np.ndarray, weights: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        self.products += rows.size * len(weights)
        result: np.ndarray = super().multiply(rows, weights, out)
        return result

    def accumulate(self, left: np.ndarray, right: np.ndarray, out: np.ndarray, *, scale: float, keep: float) -> None:
        # That of a stack is made of those of its matrices.
        self.products += len(left) * out.size if left.ndim == 2 else 0
        super().accumulate(left, right, out, scale=scale, keep=keep)


SMALL = {"hidden": 5, "epochs": 2, "batch_size": 10, "backend": "numpy"}


@pytest.mark.parametrize(
    "model",
    [
        RBM(**SMALL),
        RBM(**SMALL, gibbs_steps=3, variance="learned", drop_last=True),
        RBM(**{**SMALL, "batch_size": 100}, sparsity_form="bias+weights"),
        OrientedRBM(**SMALL, rotations=4),
        ThetaRBM(**SMALL, rotations=4, rotation="nearest"),
        ThetaRBM(**SMALL, rotations=4, visible="bernoulli"),
        ThetaRBM(**SMALL, rotations=5, tensor="full"),
        ThetaRBM(**SMALL, rotations=6, tensor="full", variance="learned"),
        ThetaRBM(**{**SMALL, "batch_size": 8}, rotations=4, rotation="nearest", visible_biases="one", gibbs_steps=2),
        ThetaRBM(**{**SMALL, "batch_size": 8}, rotations=4, visible_biases="one", variance="learned"),
        ThetaRBM(**SMALL, rotations=6, tensor="full", visible_biases="one", variance="learned"),
        ThetaRBM(**SMALL, rotations=5, tensor="full", visible_biases="one"),
        TransformInvariantRBM(**SMALL, rotations=5),
        TransformInvariantRBM(**SMALL, rotations=3, angles="wedge", variance="tracked", sparsity_slope="each",
                              sparsity_form="bias+weights"),
        AugmentedRBM(**SMALL, rotations=3),
        LocalThetaRBM(**SMALL, field=3, pooling=2, fields=50),
    ],
)  # fmt: skip
def test_stated_products_are_those_that_are_done(model: RBM, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CountingBackend()
    for module in (rbm_module, local_module):
        monkeypatch.setattr(module, "select_backend", lambda *_: backend)
    # As many of each: the products of a tied tensor differ from one orientation to the other.
    orientations = np.arange(24) % 4 if model.uses_orientations else None
    model.fit(IMAGES, orientations=orientations)
    assert model.training_products(*IMAGES.shape) == backend.products
    backend.products = 0
    model.transform(IMAGES, orientations=orientations)
    assert model.feature_products(*IMAGES.shape) == backend.products


@pytest.mark.parametrize("model", MODELS.own)
def test_every_model_states_its_products(model: str) -> None:
    built = build(model, {})
    counts = "epochs" in built.declared or model == "aligned-pca"
    for count in (built.training_products, built.feature_products):
        few, many = count(1000, 784), count(10_000, 784)
        assert isinstance(few, int)
        assert isinstance(many, int)
        # The local θ-RBM learns from as many fields of any number of images.
        assert 0 < few <= many if counts else few == many == 0
