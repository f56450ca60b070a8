"""Gradients of every order go through hooks of views that only other views read, and through what a custom Function
gave, where a view of that is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.autograd import Function

Forward = Callable[[Tensor, Tensor], Tensor]


class _Seen(Function):
    """A view of its argument, whose gradient is another one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 1.5


def _view_of_a_view(x: Tensor, w: Tensor) -> Tensor:
    a = x.view(-1)
    a.register_hook(lambda g: g.flip(0) + g)
    b = a.view(-1)
    assert b.grad_fn is not None
    b.grad_fn.register_prehook(lambda grads: tuple(g * w for g in grads))
    return b.sin() * x


def _view_of_a_function(x: Tensor, w: Tensor) -> Tensor:
    z = (x * w).tanh()
    a = _Seen.apply(z).view(1, -1)
    return a[0].sin() * z + a.reshape(-1) * w


def _gradients(forward: Forward, data: np.ndarray, orders: int) -> list[np.ndarray]:
    x, w = (weft.tensor(row).requires_grad_() for row in data)
    value, results = forward(x, w).sin().sum(), list[np.ndarray]()
    for order in range(orders):
        grads = weft.autograd.grad(value, (x, w), create_graph=order < orders - 1, allow_unused=True)
        results += [np.zeros(()) if g is None else g.detach().numpy() for g in grads]
        value = sum((g * g).sum() for g in grads if g is not None)
    return results


def _compare(forward: Forward, data: np.ndarray, orders: int) -> None:
    compiled = weft.compile(forward, backend="interpret")
    for a, b in zip(_gradients(compiled, data, orders), _gradients(forward, data, orders), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("forward", [_view_of_a_view, _view_of_a_function])
def test_three_orders_are_those_of_eager_mode(forward: Forward, rng: np.random.Generator) -> None:
    _compare(forward, rng.uniform(0.2, 1.2, (2, int(rng.integers(2, 6)))), 3)
