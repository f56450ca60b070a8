"""Views that custom Functions give, returned by compiled functions: their gradient is the Function's, not the view
operators'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor


class Half(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 0.5


class Three(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, y * 2, x.view(-1)

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return a * 3 + c.view_as(a) * 5, b * 7


def _of_fresh(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 3
    return Half.apply(y), y


def _without_history(x: Tensor) -> tuple[Tensor, Tensor]:
    with weft.no_grad():
        y = Half.apply(x)
    return y, x * 1


CASES: list[Callable[[Tensor], Any]] = [
    Half.apply,
    lambda x: Half.apply(x.view(-1)),
    lambda x: Half.apply(x).view(-1)[1:],
    lambda x: (Half.apply(x), Half.apply(Half.apply(x)), x * 1),
    lambda x: Three.apply(x, x * 2),
    lambda x: (Half.apply(x),) * 2,
    _of_fresh, _without_history,
]


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_gradients_and_aliases(case: int, is_leaf: bool) -> None:
    function = CASES[case]
    found = []
    compiled = weft.compile(function)
    for run in (function, compiled, compiled):
        leaf = weft.ones(2, 3, requires_grad=True)
        x = leaf if is_leaf else leaf * 1
        results = run(x)
        outs = results if isinstance(results, tuple) else (results,)
        weighted = [out.sum() * (i + 1) for i, out in enumerate(outs) if out.requires_grad]
        (gradient,) = weft.autograd.grad(sum(weighted), leaf)  # type: ignore[arg-type]
        found.append((gradient.tolist(), [(out._is_view(), out.requires_grad, out.is_leaf) for out in outs]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("writes_base", [True, False])
def test_a_write_is_refused_as_in_eager_mode(writes_base: bool) -> None:
    for run in (Half.apply, weft.compile(Half.apply)):
        x = weft.ones(3, requires_grad=True) * 2
        out = run(x)
        with pytest.raises(RuntimeError, match="is a view and"):
            if writes_base:
                x.mul_(2)
                out.sum().backward()
            else:
                out.add_(1)
