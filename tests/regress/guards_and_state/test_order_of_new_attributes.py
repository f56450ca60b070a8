"""Attributes that a compiled step makes stand in the order in which eager mode makes them."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Holder:
    def __init__(self) -> None:
        self.flag = False

    def first(self, v: Any) -> None:
        self.newest = v

    def second(self, v: Any) -> None:
        setattr(self, "couple" + "d" * self.flag, (v * 3, 1))


def one_way(h: Holder, x: Any) -> Any:
    h.second(x)
    h.first(x)
    return x * 2


def other_way(h: Holder, x: Any) -> Any:
    h.first(x)
    h.second(x)
    h.last, h.middle = x, x * 2
    return x * 2


@pytest.mark.parametrize("step", [one_way, other_way])
@pytest.mark.parametrize("split", [False, True])
def test_their_order(step: Any, split: bool) -> None:
    eager, kept = Holder(), Holder()
    compiled = weft.compile(step, split=split)
    for call in range(3):
        eager.flag = kept.flag = call == 1
        x = weft.full((2,), float(call))
        step(eager, x)
        compiled(kept, x)
        assert list(vars(kept)) == list(vars(eager))
