"""A backward call of autograd within a transform of weft.func, compiled: its formulas run at the transform's level."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import weft

TRANSFORMS: dict[str, Callable[[Callable[..., Any], weft.Tensor], Any]] = {
    "grad": lambda f, x: weft.func.grad(lambda y: f(y).sum())(x),
    "vjp": lambda f, x: weft.func.vjp(f, x)[1](weft.ones_like(x))[0],
    "vmap of grad": lambda f, x: weft.func.vmap(weft.func.grad(lambda y: f(y).sum()))(x.reshape(1, -1).expand(2, -1)),
}


class Doubled(weft.autograd.Function):
    @staticmethod
    def forward(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: weft.Tensor) -> weft.Tensor:
        return gradient * ctx.saved_tensors[0].cos()


CASES = [(name, False) for name in TRANSFORMS] + [("grad", True), ("vjp", True)]  # (under vmap it needs a rule)


@pytest.mark.parametrize(("name", "is_custom"), CASES)
@pytest.mark.parametrize("captures", [False, True])
def test_it_agrees(name: str, is_custom: bool, captures: bool) -> None:
    w = weft.tensor(0.7, dtype=weft.float64, requires_grad=True)

    def inner(x: weft.Tensor) -> weft.Tensor:
        inside = x.detach().requires_grad_()
        y = Doubled.apply(inside) * w if is_custom else (inside * w).sin()
        with weft.compiled_autograd.enable() if captures else nullcontext():
            (slope,) = weft.autograd.grad(y.sum(), inside)
        return x * x * slope

    def step(x: weft.Tensor) -> weft.Tensor:
        return TRANSFORMS[name](inner, x)

    compiled = weft.compile(step)
    for size in (4, 4, 2, 5):
        x = weft.linspace(-0.8, 0.9, size, dtype=weft.float64)
        assert compiled(x).flatten().tolist() == pytest.approx(step(x).flatten().tolist())
