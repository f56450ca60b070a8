"""Every test of autograd runs twice: with the engine's own walk, and under compiled autograd, where what is recalled
of earlier walks is compared with the walk written anew (node by node: native code has tests of its own). There no
backward call may fall back to the engine in silence: a test that expects it says how often
(`@pytest.mark.walked_backwards(count)`)."""

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
    marker = request.node.get_closest_marker("walked_backwards")
    expected = 0 if marker is None else marker.args[0]
    before = weft.counters.walked_backwards
    with weft.compiled_autograd.enable(weft.compiled_autograd.interpret), compared():
        yield
    walked = weft.counters.walked_backwards - before
    assert walked == expected, f"the engine walked {walked} backward calls under compiled autograd, not {expected}"
