"""A compiled forward whose custom Function gives a leaf no gradient: hooks hear that, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


class Stop(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> None:
        return None


FORWARDS: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda x, w: Stop.apply(w),
    "before": lambda x, w: Stop.apply(w) * x,
    "behind": lambda x, w: Stop.apply(w * x) + 1,
    "beside": lambda x, w: Stop.apply(w) * x + Stop.apply(w * 0),
}


def heard(function: Callable[[Any, Any], Any], n: int, create_graph: bool) -> list[Any]:
    calls: list[Any] = []
    x, w = weft.arange(1.0, n + 1), weft.ones(n, requires_grad=True)
    w.register_hook(lambda grad: calls.append(("leaf", grad)))
    w.register_post_accumulate_grad_hook(lambda leaf: calls.append(("behind", leaf.grad)))
    result = function(x, w)
    result.register_hook(lambda grad: calls.append(("result", grad.tolist())))
    (grad,) = weft.autograd.grad(
        result.sum(), w, retain_graph=True, allow_unused=True, create_graph=create_graph
    )
    calls.append(grad)
    result.sum().backward()
    return [*calls, w.grad]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FORWARDS)
@pytest.mark.parametrize("split", [False, True])
def test_they_hear_it(name: str, split: bool, create_graph: bool) -> None:
    compiled = weft.compile(FORWARDS[name], split=split)
    for n in (2, 2, 3, 4):
        expected = heard(FORWARDS[name], n, create_graph)
        assert ("leaf", None) in expected and expected[0][0] == "result"
        assert heard(compiled, n, create_graph) == expected
