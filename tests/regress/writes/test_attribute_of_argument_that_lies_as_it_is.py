"""An attribute that a compiled function gave to an argument which it takes as it lies in memory (a parameter, one that
shares memory with another or has hooks): a tensor of the capture stayed on the caller's tensor, and later calls did not
set it. Such a call runs as it is written."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.symbols_left import symbols_left


@pytest.mark.parametrize("kind", ["parameter", "shared", "hooked", "plain"])
def test_each_call_sets_it(kind: str) -> None:
    def function(a: Any, b: Any) -> Any:
        a.tag, a.count = (b * 2).sum(), getattr(a, "count", 0) + 1
        return a * 1 + b.sum()

    step = weft.compile(function)
    for k in range(3):
        a = weft.ones(4) * k
        if kind == "parameter":
            a = weft.nn.Parameter(a)
        if kind == "hooked":
            a.requires_grad_().register_hook(lambda g: g)
        b = a[:2] if kind == "shared" else weft.ones(2) * k
        step(a, b)
        assert not symbols_left(a, b)
        assert a.tag.item() == 4 * k and a.count == 1


def test_a_refused_call_leaves_what_was_there() -> None:
    def function(a: Any, b: Any) -> Any:
        a.tag = b * 2
        del a.other
        raise ValueError("stopped")

    a = weft.nn.Parameter(weft.ones(2))
    a.tag, a.other = "before", 1
    with pytest.raises(ValueError, match="stopped"):
        weft.compile(function)(a, weft.ones(2))
    assert not symbols_left(a) and (a.tag, a.other) == ("before", 1)
