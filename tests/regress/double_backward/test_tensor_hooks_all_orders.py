"""Gradients of any order of a compiled forward go through the hooks of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.autograd import Function

Forward = Callable[[Tensor, Tensor], Tensor]


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 5


def _hooked(make: Callable[[Tensor, Tensor], Tensor], hook: Callable[[Tensor, Tensor], Tensor]) -> Forward:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = make(x, w)
        y.register_hook(lambda g: hook(g, w))
        return y**3 * x + y * w

    return forward


def _twice(x: Tensor, w: Tensor) -> Tensor:
    y = (x * w).sin()
    y.register_hook(lambda g: g * 3)
    y.register_hook(lambda g: g + g * y)
    z = y * w
    z.register_hook(lambda g: g * y.detach())
    return z * z * y


def _on_a_node(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    z = y.sin()
    node = z.grad_fn
    assert node is not None
    node.register_prehook(lambda grads: (grads[0] * w,))
    return z * z * y


_FORWARDS: dict[str, Forward] = {
    "factor": _hooked(lambda x, w: x * w, lambda g, w: g * 2),
    "of_a_leaf": _hooked(lambda x, w: x.sin(), lambda g, w: g * w.cos()),
    "detached": _hooked(lambda x, w: x * w, lambda g, w: g.detach() * w + g * w.detach()),
    "of_a_function": _hooked(lambda x, w: Doubled.apply(x * w), lambda g, w: -g * w),
    "of_a_view": _hooked(lambda x, w: (x * w).reshape(1, -1)[0], lambda g, w: g * w), "twice": _twice,
    "on_a_node": _on_a_node,
}


def _gradients(forward: Forward, data: np.ndarray) -> list[np.ndarray]:
    x, w = (weft.tensor(row).requires_grad_() for row in data)
    value, found = forward(x, w).sin().sum(), []
    for order in range(3):
        grads = weft.autograd.grad(value, (x, w), create_graph=order < 2)
        found += [g.detach().numpy() for g in grads]
        value = sum((g * g).sum() for g in grads)
    return found


@pytest.mark.parametrize("name", sorted(_FORWARDS))
def test_three_orders_are_those_of_eager_mode(name: str, rng: np.random.Generator) -> None:
    data = rng.uniform(0.2, 1.2, (2, int(rng.integers(2, 6))))
    compiled = weft.compile(_FORWARDS[name], backend="interpret")
    expected, found = (_gradients(f, data.copy()) for f in (_FORWARDS[name], compiled))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_hooks_behind_a_node_see_gradients_with_sizes() -> None:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        z = (x * w).sin()
        node = z.grad_fn
        assert node is not None
        node.register_hook(lambda inputs, outputs: (inputs[0] * 3 + outputs[0].sum(),))
        return z * z * x

    found = []
    for f in (forward, weft.compile(forward)):
        x, w = weft.tensor([0.3, 2.0], requires_grad=True), weft.tensor([1.1, 3.0], requires_grad=True)
        found.append(weft.autograd.grad(f(x, w).sum(), (x, w)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
