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


def _hooks_in_order(x: Tensor, w: Tensor) -> Tensor:
    z = x * w
    z.register_hook(lambda g: g.flip(0) + g)
    assert z.grad_fn is not None
    z.grad_fn.register_prehook(lambda grads: (grads[0] * w,))
    return z.sin() * z


def _behind_a_node(x: Tensor, w: Tensor) -> Tensor:
    z = x * w
    assert z.grad_fn is not None
    z.register_hook(lambda g: g.flip(0))
    z.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * w, inputs[1] + outputs[0] * 2))
    return (z.sin() + z).tanh()


def _behind_several_results(x: Tensor, w: Tensor) -> Tensor:
    a, b = weft.cat([x * w, w.exp()]).chunk(2)
    assert a.grad_fn is not None
    b.register_hook(lambda g: g * 0.5)
    a.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 1.5 + outputs[0].sum(),))
    return a * b.cos() + a.sin()


def _equal_calls(x: Tensor, w: Tensor) -> Tensor:
    a, b, c = x.sin(), x.sin(), x.sin()
    b.register_hook(lambda g: g * 3)
    assert c.grad_fn is not None
    c.grad_fn.register_hook(lambda inputs, outputs: (inputs[0].flip(0),))
    return a * b * w + (c * a).cos() * b


def _broadcast(x: Tensor, w: Tensor) -> Tensor:
    z = x[:, None] * w
    assert z.grad_fn is not None
    z.grad_fn.register_hook(lambda inputs, _: (inputs[0] * 3, inputs[1] * x))
    return (z * z).sum(0)


_FORWARDS: dict[str, Forward] = {
    "factor": _hooked(lambda x, w: x * w, lambda g, w: g * 2),
    "of_a_leaf": _hooked(lambda x, w: x.sin(), lambda g, w: g * w.cos()),
    "detached": _hooked(lambda x, w: x * w, lambda g, w: g.detach() * w + g * w.detach()),
    "of_a_function": _hooked(lambda x, w: Doubled.apply(x * w), lambda g, w: -g * w),
    "of_a_view": _hooked(lambda x, w: (x * w).reshape(1, -1)[0], lambda g, w: g * w), "twice": _twice,
    "on_a_node": _on_a_node, "hooks_in_order": _hooks_in_order, "behind_a_node": _behind_a_node,
    "behind_several_results": _behind_several_results, "broadcast": _broadcast,
    "equal_calls": _equal_calls,
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


class _Body(weft.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin() * x


def test_full_backward_hooks_of_modules() -> None:
    """A hook of a module runs where a walk has passed the module's result, in a second gradient too."""
    first, second = _Body(), _Body()
    for module in (first, second):
        module.register_full_backward_pre_hook(lambda _, grads: (grads[0] * 2,))
        module.register_full_backward_hook(lambda _, inputs, outputs: (inputs[0] * 1.5,))

    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = first(x * w)
        return second(y).sin() * 2.0 + y * x + second(x) ** 2

    found = []
    for f in (forward, weft.compile(forward)):
        for size in (2, 1, 3):
            x, w = (weft.linspace(a, 1.0, size, dtype=weft.float64, requires_grad=True) for a in (-1.0, 0.2))
            grads = weft.autograd.grad(f(x, w).sum(), (x, w), create_graph=True)
            found.append((*grads, *weft.autograd.grad(sum((g * g).sum() for g in grads), (x, w))))
    for a, b in zip(found[3:], found[:3], strict=True):
        for one, other in zip(a, b, strict=True):
            np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-7)
