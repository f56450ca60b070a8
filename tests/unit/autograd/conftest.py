"""Every test of autograd runs twice: with the engine's own walk, and under compiled autograd, where what is recalled
of earlier walks is compared with the walk written anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import weft
from tests.unit.compiled_autograd.recalled import compared


@pytest.fixture(autouse=True, params=["engine", "compiled"])
def walk_of_backward(request: pytest.FixtureRequest) -> Iterator[None]:
    """Who walks the graph."""
    if request.param == "engine":
        yield
        return
    with weft.compiled_autograd.enable(), compared():
        yield
