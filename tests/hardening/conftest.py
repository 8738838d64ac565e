from __future__ import annotations

import resource
from collections.abc import Iterator

import psutil
import pytest

from tests.hardening.damage import House, build, cut_off

MORE_THAN_ENOUGH = 4 << 30


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """What reads without end fails here, instead of taking the machine with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    taken = psutil.Process().memory_info().vms
    limit = taken + MORE_THAN_ENOUGH
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.fixture(scope="session")
def only_house(tmp_path_factory: pytest.TempPathFactory) -> House:
    house = build(tmp_path_factory.mktemp("hardening") / "house")
    house.keep("whole")
    cut_off(house)
    house.keep("cut off")
    return house


@pytest.fixture
def house(only_house: House) -> House:
    """A finished suite, to be spoiled."""
    only_house.put_back("whole")
    return only_house


@pytest.fixture
def cut_house(only_house: House) -> House:
    """The same, but the θ-RBM was cut off after its first epoch."""
    only_house.put_back("cut off")
    return only_house
