"""A tensor that a traced function sees as another class: refused, for it was a constant with the example's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.utils.pytree import tree_map


class Scaled(weft.Tensor):
    """A subclass that every operator keeps."""


WAYS: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "as_subclass": lambda x: x.as_subclass(Scaled) * 2,
    "the class": lambda x: Scaled(x) * 2,
    "_make_subclass": lambda x: weft.Tensor._make_subclass(Scaled, x) * 2,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_another_class_is_refused(way: str, requires_grad: bool) -> None:
    with pytest.raises(weft.WeftError, match=r"test_tensor_subclass_in_trace_refused\.py:\d+: a tensor seen as Scaled"):
        weft.jit.trace(WAYS[way], (weft.ones(3, requires_grad=requires_grad),), check_trace=False)


class Wrapped(weft.Tensor):
    """A wrapper around one tensor."""

    inner: weft.Tensor

    @staticmethod
    def __new__(cls: Any, inner: weft.Tensor) -> Any:
        out = weft.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)
        out.inner = inner
        return out

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
        return grad.inner


@pytest.mark.parametrize("make", [Wrapped, Wrap.apply])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_wrapper_made_there_is_refused(make: Any, requires_grad: bool) -> None:
    with pytest.raises(weft.WeftError, match=r"test_tensor_subclass_in_trace_refused\.py:\d+: a Wrapped that is made"):
        weft.jit.trace(lambda x: make(x * 1) + 1, (weft.ones(3, requires_grad=requires_grad),), check_trace=False)


def test_a_wrapper_from_outside_is_a_constant() -> None:
    weights = Wrapped(weft.arange(3.0))
    traced = weft.jit.trace(lambda x: x * weights, (weft.ones(2, 3),), check_trace=False)
    assert traced(weft.ones(1, 3) * 2).inner.tolist() == [[0.0, 2.0, 4.0]]


def test_a_plain_tensor_stays_one() -> None:
    traced = weft.jit.trace(lambda x: x.as_subclass(weft.Tensor) * 2, (weft.ones(3),))
    assert traced(weft.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_arguments_and_results_of_a_trace_are_plain() -> None:
    traced = weft.jit.trace(lambda x: x * 2, (Scaled([1.0, 2.0]),), check_trace=False)
    assert traced(weft.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    assert weft.compile(lambda x: (x.as_subclass(Scaled) * 2).as_subclass(weft.Tensor))(weft.ones(2)).tolist() == [2, 2]
