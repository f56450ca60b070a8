"""A wrapper whose class passes on requires_grad, made in a compiled function: AttributeError, for its inner tensor was
asked for before it was there. A second gradient through it: AttributeError for a number that the function reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.utils.pytree import tree_map


class Wrapped(weft.Tensor):
    """A wrapper around one tensor, in the form that most are written in."""

    inner: weft.Tensor

    @staticmethod
    def __new__(cls: Any, inner: weft.Tensor) -> Any:
        return weft.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner: weft.Tensor) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["inner"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tree_map(lambda t: t.inner if isinstance(t, cls) else t, args)
        return tree_map(lambda t: cls(t) if isinstance(t, weft.Tensor) else t, func(*args, **(kwargs or {})))


class Wrap(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return Wrapped(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return Unwrap.apply(grad)


class Unwrap(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> weft.Tensor:
        return x.inner

    @staticmethod
    def backward(ctx: Any, grad: weft.Tensor) -> weft.Tensor:
        return Wrap.apply(grad)


def forward(s: Any, x: weft.Tensor) -> weft.Tensor:
    return Unwrap.apply((Wrap.apply(x) * s.factor).sin())


@pytest.mark.parametrize("split", [False, True])
def test_gradients_of_two_orders(split: bool) -> None:
    found = []
    for f in (forward, weft.compile(forward, split=split)):
        for factor, size in ((0.5, 2), (1.5, 3), (1.5, 1)):
            x = weft.linspace(-1, 1, size, requires_grad=True)
            y = f(SimpleNamespace(factor=factor), x)
            (grad,) = weft.autograd.grad(y.sum(), x, create_graph=True)
            (second,) = weft.autograd.grad((grad * grad).sum(), x)
            found.append((y.detach(), grad.detach(), second))
    for a, b in zip(found[:3], found[3:], strict=True):
        assert all(map(weft.allclose, a, b))
