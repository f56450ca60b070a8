"""Second gradients through a compiled forward pass the hooks of the tensor that was read, not of one with an equal
value; what a hook computes has the history that it has where a walk records one."""

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
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 1.5


def _constant(value: Tensor) -> Tensor:
    with weft.no_grad():
        return value * 2


def _equal_calls(x: Tensor, w: Tensor) -> Tensor:
    z = x * w
    a = z.sin()
    a.register_hook(lambda g: g * 3)
    return a**2 + z.sin() ** 3


def _equal_calls_with_hooks(x: Tensor, w: Tensor) -> Tensor:
    z = x * w
    a, b = z.sin(), z.sin()
    a.register_hook(lambda g: g * 3)
    b.register_hook(lambda g: g * 5)
    return a * b + a.exp()


def _equal_views(x: Tensor, w: Tensor) -> Tensor:
    z = x * w
    a, b = z.view(-1), z.view(-1)
    b.register_hook(lambda g: g * 3)
    return a.sin() * b.cos() + b[:2].sum() * a


def _view_of_a_function(x: Tensor, w: Tensor) -> Tensor:
    z = x * w
    a = z.view_as(z)
    a.register_hook(lambda g: g * 2)
    return _Seen.apply(z).sin() * a + a[:1]


def _hooked(hook: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Forward:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        z, h = x * w, x.sin()
        h.register_hook(lambda g: hook(g, w, z))
        return h.exp() * z

    return forward


_FORWARDS: dict[str, Forward] = {
    "equal_calls": _equal_calls, "equal_calls_with_hooks": _equal_calls_with_hooks, "equal_views": _equal_views,
    "view_of_a_function": _view_of_a_function,
    "view_of_an_argument": _hooked(lambda g, w, z: g * w.view(-1)),
    "view_of_a_value": _hooked(lambda g, w, z: g * z[: g.shape[0]]),
    "detached_view": _hooked(lambda g, w, z: g * z.view(-1).detach()),
    "one_of_several": _hooked(lambda g, w, z: g.view(1, -1)[0] * w.view(1, -1).unbind()[0]),
    "constant": _hooked(lambda g, w, z: _constant(g)), "constant_factor": _hooked(lambda g, w, z: g * _constant(w)),
    "constant_view": _hooked(lambda g, w, z: g * _constant(w).view(-1) + _constant(g).flip(0)),
}  # fmt: skip


def _gradients(forward: Forward, data: np.ndarray) -> list[np.ndarray]:
    x, w = (weft.tensor(row).requires_grad_() for row in data)
    value, results = forward(x, w).sin().sum(), list[np.ndarray]()
    for _ in range(3):
        grads = weft.autograd.grad(value, (x, w), create_graph=True, materialize_grads=True)
        results += [g.detach().numpy() for g in grads]
        value = sum((g * g).sum() for g in grads)
    return results


@pytest.mark.parametrize("name", _FORWARDS)
@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_three_orders_are_those_of_eager_mode(name: str, backend: str, rng: np.random.Generator) -> None:
    compiled = weft.compile(_FORWARDS[name], backend=backend)
    for size in rng.integers(2, 6, 2).tolist():
        data = rng.uniform(0.2, 1.2, (2, size))
        for a, b in zip(_gradients(compiled, data), _gradients(_FORWARDS[name], data), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
