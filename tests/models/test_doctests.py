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


def test_the_models_have_examples() -> None:
    models = {f"thetarbm_cli.models.{name}" for name in ("rbm", "oriented", "transform_invariant", "theta")}
    assert models <= set(modules_with_examples())


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
