"""A custom Function with a generated rule in a vmap in a vmap, where each maps over another argument, took the outer
map's note of what is batched for the inner one's: IndexError in its backward and jvp."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor
from weft.func import jvp, vmap


class Wave(weft.autograd.Function):
    """sin(x w) with derivatives that are three times too large."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return (x * w).sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, w = ctx.saved_tensors
        inner = grad * (x * w).cos() * 3
        return inner * w, inner * x

    @staticmethod
    def jvp(ctx: Any, x_t: Tensor, w_t: Tensor) -> Tensor:
        x, w = ctx.saved_tensors
        return (x * w).cos() * (x_t * w + w_t * x) * 3


def nested(x: Tensor, w: Tensor) -> Tensor:
    """x: [n], w: [m] -> [m, n]."""
    return vmap(lambda one: vmap(lambda other: Wave.apply(other, one))(x))(w)


@pytest.mark.parametrize("compiles", [False, True])
def test_derivatives_of_nested_maps(compiles: bool) -> None:
    def step(x: Tensor, w: Tensor) -> Any:
        y = nested(x, w)
        return y, weft.autograd.grad(y.sum(), (x, w)), jvp(nested, (x, w), (w.mean() * x, w))[1]

    run = weft.compile(step) if compiles else step
    for n, m in ((3, 2), (2, 4)):
        x, w = weft.rand(n, requires_grad=True), weft.rand(m, requires_grad=True)
        value, (dx, dw), tangent = run(x, w)
        angle = w[:, None] * x
        slope = 3 * angle.cos()
        assert weft.allclose(value, angle.sin())
        assert weft.allclose(dx, (slope * w[:, None]).sum(0))
        assert weft.allclose(dw, (slope * x).sum(1))
        assert weft.allclose(tangent, slope * angle * (1 + w.mean()))


@pytest.mark.parametrize("compiles", [False, True])
def test_gradients_asked_for_where_no_history_is_recorded(compiles: bool) -> None:
    """Under vmap and jvp requires_grad_() was taken and meant nothing: `autograd.functional.jacobian` gave zeros.
    Within grad it counts."""

    def jacobian(row: Tensor) -> Tensor:
        return weft.autograd.functional.jacobian(lambda v: v**2, row)  # type: ignore[no-any-return]

    x = weft.rand(2, 3)
    for step in (lambda t: vmap(jacobian)(t), lambda t: jvp(jacobian, (t[0],), (t[0],))):
        with pytest.raises(weft.WeftError, match="requires_grad_"):
            (weft.compile(step) if compiles else step)(x)
    assert weft.allclose(jacobian(x[0]), weft.diag(2 * x[0]))
    pulled = weft.func.vjp(jacobian, x[0])
    assert weft.allclose(pulled[0], weft.diag(2 * x[0]))
