"""Writes through aliases that autograd does not see, in functions without writes: detached views, `.data`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.func import functionalize


def through_a_detached_view(x: Any) -> Any:
    b = x * 1
    b[1:].detach().mul_(3)
    return b


def through_data(x: Any) -> Any:
    b = x * 1
    b.data.mul_(3)
    return b


def other_data(x: Any) -> Any:
    b = x * 1
    b.data = b.data * 2
    return b


@pytest.mark.parametrize("function", [through_a_detached_view, through_data, other_data])
def test_no_write_is_lost(function: Callable[[Any], Any]) -> None:
    x = weft.arange(float(weft.randint(2, 9, ()).item())) + 1
    for made in (functionalize(function), weft.compile(function), weft.compile(functionalize(function))):
        assert made(x).tolist() == function(x).tolist()


@pytest.mark.parametrize("mode", ["mutations", "mutations_and_views", "compile"])
def test_deep_copies_share_memory_as_their_originals_do(mode: str) -> None:
    def step(x: weft.Tensor) -> list[weft.Tensor]:
        alone = copy.deepcopy(x)
        alone.add_(1)
        turned = x.t()
        first, second = copy.deepcopy([x, turned])
        second[0].mul_(2)
        x.add_(5)
        return [alone, first, second, x]

    made = weft.compile(step) if mode == "compile" else functionalize(step, remove=mode)
    base = weft.arange(4.0).view(2, 2)
    found, wanted = made(base.clone()), step(base.clone())
    assert [t.tolist() for t in found] == [t.tolist() for t in wanted]
    assert [t.stride() for t in found] == [t.stride() for t in wanted]
    found[1].zero_()
    assert found[2].tolist() == [[0, 0], [0, 0]]
