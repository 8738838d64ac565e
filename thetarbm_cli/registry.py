"""What there is, by name: each thing is declared once, here, and imported when it is used.

Choices of the command line, completion, checks of a suite and the docs take their names from here. This module imports
nothing heavy, so that ``thetarbm --help`` stays fast; an entry says where its thing lives, and `Registry.load` fetches
it. Other distributions add things through entry points, which are read only when a name is unknown or all are listed.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from thetarbm_cli.errors import InputError, did_you_mean

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class Entry:
    """A thing that has a name.

    Attributes
    ----------
    name : as on the command line, in a suite and in records
    target : where it lives, as ``module:attribute``
    label : as tables and figures call it
    about : one sentence for help and docs
    """

    name: str
    target: str
    label: str
    about: str = ""


def load_target(target: str) -> Any:
    """Import what a target, ``module:attribute``, names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


E = TypeVar("E", bound=Entry)


class Registry(Generic[E]):
    """Things of one kind, by name: the package's own entries, in the order in which they are listed.

    Other distributions add to them through the entry points of `group`; a plug-in cannot take a name that is there.
    """

    def __init__(self, kind: str, *entries: E, group: str | None = None) -> None:
        self.kind = kind
        self.group = group
        self.own = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> E:
        """Find an entry."""
        found = self.own.get(name) or self._plugins.get(name)
        if found is None:
            raise InputError(f"unknown {self.kind} {name!r}: {did_you_mean(name, self.names)}")
        return found

    def __iter__(self) -> Iterator[E]:
        yield from self.own.values()
        yield from self._plugins.values()

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the package's own first."""
        return tuple(entry.name for entry in self)

    def load(self, name: str) -> Any:
        """Import what an entry stands for."""
        entry = self[name]
        if name in self.own:
            return load_target(entry.target)
        try:
            return load_target(entry.target)
        except Exception as error:
            raise InputError(
                f"the {self.kind} {name} of the plug-in {entry.about} cannot be imported from {entry.target}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            ) from error

    @cached_property
    def _plugins(self) -> dict[str, E]:
        """Entries of other distributions; one that cannot be used is a warning."""
        if self.group is None:
            return {}
        from importlib.metadata import entry_points

        make = type(next(iter(self.own.values())))
        found: dict[str, E] = {}
        for point in entry_points(group=self.group):
            source = point.dist.name if point.dist else "unknown"
            if point.name in self.own or point.name in found:
                logger.warning("the plug-in %s is left out: there is a %s %s already", source, self.kind, point.name)
            elif point.pattern.fullmatch(point.value) is None or ":" not in point.value:
                logger.warning("the plug-in %s is left out: %r is no module:class", source, point.value)
            else:
                found[point.name] = make(point.name, point.value.partition("[")[0].strip(), point.name, source)
        return found


@dataclass(frozen=True)
class ModelEntry(Entry):
    """A model.

    Attributes
    ----------
    parameters : where its parameters are declared without the model, as ``module:class``; a plug-in's are in its class
    """

    parameters: str = ""


def _model(name: str, kind: str, label: str, about: str, parameters: str) -> ModelEntry:
    return ModelEntry(name, f"thetarbm_cli.models:{kind}", label, about, f"thetarbm_cli.parameters:{parameters}")


MODELS = Registry(
    "model",
    _model("rbm", "RBM", "RBM", "Restricted Boltzmann machine.", "RBMParameters"),
    _model("orbm", "OrientedRBM", "O-RBM", "RBM on images that are aligned.", "OrientedRBMParameters"),
    _model("tirbm", "TransformInvariantRBM", "TI-RBM", "RBM that sees an image rotated S ways.", "TIRBMParameters"),
    _model("theta", "ThetaRBM", "θ-RBM", "The paper's gated Boltzmann machine.", "ThetaParameters"),
    _model("theta-local", "LocalThetaRBM", "local θ-RBM", "θ-RBM of local, pooled filters.", "LocalThetaParameters"),
    _model(
        "augmented",
        "AugmentedRBM",
        "augmented RBM",
        "Control: RBM on S rotated copies of every image.",
        "AugmentedParameters",
    ),
    _model("pixels", "Pixels", "pixels", "Control: the image itself.", "ModelParameters"),
    _model("aligned-pixels", "AlignedPixels", "aligned pixels", "Control: the aligned image.", "OrientedParameters"),
    _model(
        "aligned-pca",
        "AlignedPCA",
        "PCA of aligned images",
        "Control: principal components of the aligned image.",
        "AlignedPCAParameters",
    ),
    group="thetarbm.models",
)


# The source that every data set is taken from unless another is named.
GENERATED = "generated"


@dataclass(frozen=True)
class DatasetEntry(Entry):
    """A data set; its target is the recipe of its first source.

    Attributes
    ----------
    sources : where its images may come from, the usual source first: for each the target of its recipe, a function of
        a `thetarbm_cli.data.recipes.Request`
    tested_on : the data set of the test images, where it is another one
    shipped : whether its first source needs nothing that is not in the package
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    tested_on: str | None = None
    shipped: bool = True

    def recipe(self, source: str) -> tuple[str, str]:
        """Find a source and the target of its recipe.

        ``generated``, which is the default of the command line and in run settings, stands for the first source of a
        data set that has none of that name.
        """
        found = next(iter(self.sources)) if source == GENERATED and source not in self.sources else source
        if found not in self.sources:
            known = " or ".join(f"--source {name}" for name in self.sources)
            raise InputError(f"{self.name} has no source {source!r}: use {known}")
        return found, self.sources[found]


def _dataset(name: str, about: str, sources: Mapping[str, str], **facts: Any) -> DatasetEntry:
    return DatasetEntry(name, next(iter(sources.values())), name, about, sources, **facts)


DATASETS = Registry(
    "data set",
    _dataset(
        "mnist-rot",
        "MNIST's digits, each rotated by its own angle.",
        {
            GENERATED: "thetarbm_cli.data.sources.mnist:rotated_recipe",
            "bilinear": "thetarbm_cli.data.sources.mnist:bilinear_recipe",
            "official": "thetarbm_cli.data.sources.official:recipe",
        },
    ),
    _dataset(
        "mnist",
        "MNIST's digits as they are.",
        {"shipped": "thetarbm_cli.data.sources.mnist:upright_recipe"},
        tested_on="mnist-rot",
    ),
    _dataset(
        "fashion-rot",
        "Fashion-MNIST's clothes, each rotated by its own angle.",
        {
            GENERATED: "thetarbm_cli.data.sources.fashion:rotated_recipe",
            "bilinear": "thetarbm_cli.data.sources.fashion:bilinear_recipe",
        },
        shipped=False,
    ),
)
# The recipe of a source that is no name but the path of a user's file.
USER_IMAGES = "thetarbm_cli.data.sources.user_npz:recipe"


def source_names() -> tuple[str, ...]:
    """Names of the sources of all data sets."""
    return tuple(dict.fromkeys(source for entry in DATASETS for source in entry.sources))


def offered_sources() -> tuple[str, ...]:
    """Names of the sources to choose from: of data sets with test images of their own, which a source is of."""
    own = (entry for entry in DATASETS if entry.tested_on is None)
    return tuple(dict.fromkeys(source for entry in own for source in entry.sources))
