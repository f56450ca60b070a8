"""One tensor at two places, of which one is bound anew by each call: a program for that was taken, too, when the place
held a view of the tensor, and gave the view where Python gives the tensor itself. Found by the generator of
assignments.
"""

from __future__ import annotations

import types
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("split", [False, True])
def test_what_is_assigned_from_the_other_place_is_the_same_object(split: bool) -> None:
    state = types.SimpleNamespace(mode="a", last=None)
    first = weft.randn(3)
    rows = [first, first]

    def step(x: Any) -> Any:
        rows[1] = rows[1][:]
        state.mode = "b" if state.mode == "a" else "a"
        state.last = rows[0]
        return x + rows[0]

    compiled = weft.compile(step, split=split)
    for _ in range(6):
        x = weft.randn(3)
        assert compiled(x).tolist() == (x + first).tolist()
        assert state.last is first and rows[0] is first and rows[1] is not first


def test_an_argument_that_shows_the_state_it_was_at_first() -> None:
    held = weft.randn(4)

    @weft.compile
    def step(x: Any) -> Any:
        return held, x * 2

    for x in (held, held[:], held, weft.randn(4), held.view(4)):
        result, twice = step(x)
        assert result is held and twice.tolist() == (x * 2).tolist()
