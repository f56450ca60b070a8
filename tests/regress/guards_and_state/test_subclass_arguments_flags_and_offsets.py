"""What a compiled function does to an object of a tensor subclass that it takes: requires_grad_() was forgotten after
the call; a wrapper that says strides and an offset of its inner tensor raised a TypeError about Expr where it was
split, and a CaptureError where a detached one asked for gradients; `rand_like` never asked a wrapper's class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.utils.pytree import tree_map


class Shown(weft.Tensor):
    """A wrapper that lies in memory as what it holds."""

    @staticmethod
    def __new__(cls: Any, a: Tensor) -> Any:
        out = weft.Tensor._make_wrapper_subclass(
            cls, a.shape, dtype=a.dtype, strides=a.stride(), storage_offset=a.storage_offset()
        )
        out.a = a
        return out

    def __tensor_flatten__(self) -> Any:
        return ["a"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Shown(inner["a"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda x: x.a if isinstance(x, Shown) else x, (args, kwargs or {}))
        return tree_map(lambda x: Shown(x) if isinstance(x, Tensor) else x, func(*args, **kwargs))


class Named(weft.Tensor):
    pass


def asking(x: Tensor) -> Any:
    x.requires_grad_()
    return weft.autograd.grad((x * x).sum(), x)[0]


def detached(x: Tensor) -> Any:
    z = x.detach().requires_grad_()
    (z * z).sum().backward()
    return z.grad


def parts(x: Tensor) -> Any:
    return x.split(1)[1]


@pytest.mark.parametrize("function", [asking, detached, parts])
@pytest.mark.parametrize("make", [Shown, lambda x: x.as_subclass(Named)])
def test_it_agrees(function: Callable[[Tensor], Tensor], make: Callable[[Tensor], Tensor]) -> None:
    run = weft.compile(function)
    for rows in (3, 4):
        data = weft.rand(rows, 2)
        x, y = make(data), make(data.clone())
        found, expected = run(x), function(y)
        assert type(found) is type(expected)
        assert weft.equal(getattr(found, "a", found), getattr(expected, "a", expected))
        assert x.requires_grad is y.requires_grad


def test_draws_like_a_wrapper_are_of_its_class() -> None:
    x = Shown(weft.rand(3))
    for draw in (weft.rand_like, weft.randn_like, lambda t: weft.randint_like(t, 5)):
        assert type(draw(x)) is Shown
        assert type(weft.compile(draw)(x)) is Shown


def test_a_loaded_size_that_equals_another_symbol() -> None:
    """load_state_dict compared sizes as symbols, though their values agree."""

    def step(x: Tensor, y: Tensor) -> Tensor:
        linear = weft.nn.Linear(2, 2, bias=False)
        linear.weight = weft.nn.Parameter(x.clone())
        linear.load_state_dict({"weight": y})
        return linear(y)

    run = weft.compile(step)
    for n in (3, 4):
        y = weft.rand(n, 2)
        assert weft.allclose(run(weft.rand(n, 2), y), y @ y.t())
