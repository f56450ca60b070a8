"""What a cached run costs for each node that is walked, in calls of Python functions: counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import compiled_autograd as ca
from weft.compiled_autograd import cache


class Double(weft.autograd.Function):
    """A Function that saves its argument."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g


def _hooked(y: weft.Tensor) -> weft.Tensor:
    y = y * 1.01
    y.register_hook(lambda g: None)
    return y


def _calls(operator: Callable[[weft.Tensor], weft.Tensor], count: int) -> int:
    """Calls of Python functions in the cached backward of a chain."""
    x = weft.ones(10, requires_grad=True)

    def loss() -> weft.Tensor:
        y = x
        for _ in range(count):
            y = operator(y)
        return y.sum()

    found = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    with ca.enable():
        for _ in range(3):
            loss().backward()
        last = loss()
        previous = sys.getprofile()
        sys.setprofile(note)
        try:
            last.backward()
        finally:
            sys.setprofile(previous)
    return found


@pytest.mark.parametrize(("operator", "most"), [(lambda y: y * 1.01, 4), (_hooked, 15), (Double.apply, 10)])
def test_calls_per_node(operator: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "alive", [0])  # sizes that other tests left unknown are looked for at each node
    more = 20
    assert _calls(operator, 10 + more) - _calls(operator, 10) <= most * more
