"""The examples in the docstrings of the package are true."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import thetarbm_cli


def modules_with_examples() -> list[str]:
    """Names of the modules whose source has an example, found without importing them."""
    found = []
    for module in pkgutil.walk_packages(thetarbm_cli.__path__, "thetarbm_cli."):
        parts = module.name.split(".")[1:]
        path = Path(thetarbm_cli.__path__[0]).joinpath(*parts)
        source = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if ">>> " in source.read_text(encoding="utf-8"):
            found.append(module.name)
    return found


@pytest.mark.no_device("finds the examples, runs none")
def test_the_models_have_examples() -> None:
    models = {f"thetarbm_cli.models.{name}" for name in ("rbm", "oriented", "transform_invariant", "theta")}
    assert models <= set(modules_with_examples())


def assert_examples_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def has_a_model(name: str) -> bool:
    """Whether the examples of a module use a machine; places of fields are a matter of the host."""
    return ".models." in name and name != "thetarbm_cli.models.local_theta"


@pytest.mark.parametrize("name", [name for name in modules_with_examples() if has_a_model(name)])
def test_examples_of_models(name: str) -> None:
    assert_examples_are_true(name)


@pytest.mark.no_device("these examples have no model in them")
@pytest.mark.parametrize("name", [name for name in modules_with_examples() if not has_a_model(name)])
def test_other_examples(name: str) -> None:
    assert_examples_are_true(name)
