"""Orientations of images and of their turned copies, found once and kept in the data folder for all runs.

They depend on the images and on the estimator alone, not on what a model has learned. A set of them is one file,
named after all that it depends on and verified when it is read; without it, only time is lost. For Table 3, some are
made wrong.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.errors import StorageError
from thetarbm_cli.experiments.runs.settings import Overflow, RunSettings
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.models import Model
from thetarbm_cli.models.base import Images, Orientations, OrientedModel
from thetarbm_cli.models.seeds import generator_of

FOLDER = "orientations"
# Raise by hand whenever an estimator of the same settings would find others.
VERSION = 1
# What the folder may hold; beyond it, the sets that were not used for longest go.
MOST_BYTES = 256 << 20
# The position of a role is part of every stored result: append, never reorder.
PERTURBED_ROLES = ("train", "test", "svm")
_DIGEST = hashlib.sha256().digest_size

logger = logging.getLogger("thetarbm")


class OrientationCache:
    """Sets of orientations in the folder ``orientations`` of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / FOLDER

    def of(self, model: Model, images: Images, *, chunk: int | None = None, **turned: Any) -> OrientationSet | None:
        """Give the set of a model's orientations of images; None for a model that has no use for them.

        Parameters
        ----------
        chunk : int, optional
            Images that the model would look at together, as the last bit of a sum may depend on it; all by default.
        turned : what else they depend on: how the copies are turned, and how many there are as `copies`
        """
        # An O-RBM that is measured without alignment looks at no orientation.
        if not model.uses_orientations or not getattr(model, "align", True):
            return None
        estimator = model.orientation_estimator()
        if type(estimator) is not OrientationEstimator:
            return None
        depends = {
            "version": VERSION,
            "images": hashlib.sha256(np.ascontiguousarray(images).data).hexdigest(),
            "shape": images.shape,
            "chunk": chunk,
            "estimator": dataclasses.asdict(estimator),
            "turned": turned,
            "machine": _machine(),
        }
        key = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()
        kind = np.min_scalar_type(estimator.rotations - 1)
        room = np.zeros((turned.get("copies", 0) + 1, len(images)), dtype=kind)
        return OrientationSet(estimator, room, self, key, chunk)

    def found(self, model: Model, images: Images, *, chunk: int | None = None) -> Orientations | None:
        """Give a model's orientations of images as they are; None for a model that has no use for them."""
        known = self.of(model, images, chunk=chunk)
        return None if known is None else known.all_of(images)

    def load(self, key: str, like: NDArray[Any]) -> NDArray[Any] | None:
        """Read a set; None if there is none that is whole."""
        path = self.folder / key
        try:
            with storage.open_plain(path) as stream:
                content = stream.read(_DIGEST + like.nbytes + 1)
        except OSError:
            return None
        if len(content) != _DIGEST + like.nbytes or content[:_DIGEST] != _digest(key, content[_DIGEST:]):
            logger.info("%s is damaged and not used: the orientations are found again", path)
            return None
        # Those that are used stay longest.
        with suppress(OSError):
            os.utime(path)
        return np.frombuffer(content, like.dtype, offset=_DIGEST).reshape(like.shape)

    def save(self, key: str, orientations: NDArray[Any]) -> None:
        """Keep a set, if the folder can be written."""
        content = orientations.tobytes()
        try:
            storage.write_bytes(self.folder / key, _digest(key, content) + content)
            self._forget()
        except (OSError, StorageError) as error:
            logger.debug("orientations are not kept: %s", error)

    def _forget(self) -> None:
        """Remove what was not used for longest until the rest is small enough."""
        files = [(path.stat(), path) for path in self.folder.iterdir() if not path.name.startswith(".")]
        size = sum(status.st_size for status, _ in files)
        for status, path in sorted(files, key=lambda each: each[0].st_mtime):
            if size <= MOST_BYTES:
                break
            path.unlink(missing_ok=True)
            size -= status.st_size


class OrientationSet:
    """Orientations of images and of their turned copies: known, or else found when they are asked for, and kept.

    Copy 0 are the images as they are.
    """

    def __init__(
        self,
        estimator: OrientationEstimator,
        room: NDArray[Any],
        cache: OrientationCache,
        key: str,
        chunk: int | None,
    ) -> None:
        self._estimator, self._chunk, self._cache, self._key = estimator, chunk, cache, key
        known = cache.load(key, room)
        self._indices = room if known is None else known
        self._left = room.size if known is None else 0

    def __call__(self, images: Images, first: int = 0, copy: int = 0) -> Orientations:
        """Give the orientations of one copy of the images from `first` on; each may be asked for once."""
        rows = slice(first, first + len(images))
        if not self._left:
            return self._indices[copy, rows].astype(np.int64)
        found = self._estimator(images)
        self._indices[copy, rows] = found
        self._left -= len(found)
        if not self._left:
            self._cache.save(self._key, self._indices)
        return found

    def all_of(self, images: Images) -> Orientations:
        """Give the orientations of all images as they are."""
        step = self._chunk or len(images)
        return np.concatenate([self(images[first : first + step], first) for first in range(0, len(images), step)])


def _digest(key: str, content: bytes) -> bytes:
    """Compute what a file begins with: the key is part of it, so that no set passes for another."""
    return hashlib.sha256(key.encode() + content).digest()


def _machine() -> list[Any]:
    """Name what else the last bit of a sum depends on."""
    from threadpoolctl import threadpool_info

    names = ("internal_api", "version", "architecture", "num_threads")
    pools = [[pool.get(name) for name in names] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [np.__version__, platform.machine(), sorted(pools, key=str)]


def perturb(
    orientations: NDArray[np.int64],
    n: int,
    p: float,
    rotations: int,
    generator: np.random.Generator,
    overflow: Overflow = "modulo",
) -> NDArray[np.int64]:
    """s ← s ± ε, ε ~ Binomial(n, p), the sign fair, for (N,) indices s.

    By `overflow`, an index out of 0, …, S − 1 goes on at the other end (modulo S) or is the last one there.
    """
    errors = generator.binomial(n, p, size=len(orientations))
    signs = 2 * generator.integers(0, 2, size=len(orientations)) - 1
    moved = orientations + signs * errors
    return moved % rotations if overflow == "modulo" else moved.clip(0, rotations - 1)


def perturbed_orientations(
    model: Model,
    images: NDArray[np.float32],
    settings: RunSettings,
    seed: int,
    role: str,
    cache: OrientationCache,
) -> NDArray[np.int64] | None:
    """Perturbed orientations for Table 3; None where a model estimates its own.

    The roles are ``train`` (the RBM's training images), ``svm`` (the same images, for the SVM) and ``test``. Each has a
    draw of its own, unless the perturbation says that the SVM has the training's.
    """
    perturbation = settings.perturbation
    if perturbation is None or not isinstance(model, OrientedModel):
        return None
    n, p = perturbation.n, perturbation.p
    if role == "svm" and perturbation.draws == "one":
        role = "train"
    generator = generator_of(seed, "perturbation", n, round(1000 * p), PERTURBED_ROLES.index(role))
    estimated = cache.found(model, images)
    if estimated is None:
        estimated = model.orientation_estimator()(images)
    return perturb(estimated, n, p, model.rotations, generator, perturbation.overflow)
