"""A hook that a compiled function leaves on a tensor that comes out of it, or that has a history from before the call,
counts for what the caller does with it afterwards: it was lost, on leaves that the function makes, on arguments and
older tensors that are no leaves, and on arguments of tensor subclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import CaptureError
from weft.nn import Parameter
from weft.utils.dispatch import return_and_correct_aliasing
from weft.utils.pytree import tree_map


class Kept(weft.Tensor):
    pass


class Boxed(weft.Tensor):
    """A wrapper of one inner tensor."""

    inner: weft.Tensor

    @staticmethod
    def __new__(cls: Any, inner: weft.Tensor, requires_grad: bool = False) -> Any:
        out = weft.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad)
        out.inner = inner
        return out

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Boxed(inner["inner"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_map(lambda t: t.inner if isinstance(t, Boxed) else t, (args, kwargs or {}))
        out = tree_map(lambda t: Boxed(t) if isinstance(t, weft.Tensor) else t, func(*given[0], **given[1]))
        return return_and_correct_aliasing(func, args, kwargs, out)


KINDS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda values: weft.tensor(values).requires_grad_(),
    "subclass": lambda values: weft.tensor(values).as_subclass(Kept).requires_grad_(),
    "wrapper": lambda values: Boxed(weft.tensor(values), requires_grad=True),
    "plain, computed": lambda values: weft.tensor(values).requires_grad_() * 2,
    "subclass, computed": lambda values: weft.tensor(values).requires_grad_().as_subclass(Kept) * 2,
    "wrapper, computed": lambda values: Boxed(weft.tensor(values), requires_grad=True) * 2,
}


def _value(tensor: Any) -> Any:
    return None if tensor is None else (tensor.inner if isinstance(tensor, Boxed) else tensor).tolist()


def _leaf(x: Any, hook: Any) -> Any:
    out = (x * 0.5).detach().requires_grad_()
    out.register_hook(hook)
    return out


def _parameter(x: Any, hook: Any) -> Any:
    out = Parameter(x * 0.5)
    out.register_hook(hook)
    return out


def _told_leaf(x: Any, hook: Any) -> Any:
    out = Parameter(x * 0.5)

    def told(leaf: Any) -> None:
        hook(leaf.grad)

    out.register_post_accumulate_grad_hook(told)
    return out


def _result(x: Any, hook: Any) -> Any:
    out = x * 0.5
    out.register_hook(hook)
    return out


def _argument(x: Any, hook: Any) -> Any:
    x.register_hook(hook)
    return x * 2


def _argument_alone(x: Any, hook: Any) -> Any:
    x.register_hook(hook)
    return x.detach()


def _for_the_call(x: Any, hook: Any) -> Any:
    handle = x.register_hook(hook)
    (gradient,) = weft.autograd.grad(x * x, x, x.detach(), retain_graph=True)
    handle.remove()
    return gradient


FUNCTIONS = [_leaf, _parameter, _told_leaf, _result, _argument, _argument_alone, _for_the_call]


def _notes(function: Any, make: Callable[[Any], Any], values: Any) -> list[Any]:
    notes: list[Any] = []

    def hook(gradient: Any) -> Any:
        notes.append((type(gradient), _value(gradient)))
        return gradient * 2

    for n in (3, 3, 2):
        x = make(values[:n])
        out = function(x, hook)
        for tensor in (out, x):
            if tensor.requires_grad:
                (tensor * tensor.detach()).backward(weft.ones_like(tensor), retain_graph=True)
        notes.append([_value(t.grad) if t.is_leaf else None for t in (out, x)])
    return notes


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_heard(kind: str, function: Any, rng: np.random.Generator) -> None:
    values = rng.integers(-4, 5, 3).astype(np.float64)
    expected = _notes(function, KINDS[kind], values)
    assert any(type(note) is tuple for note in expected)
    assert _notes(weft.compile(function), KINDS[kind], values) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_on_an_older_tensor_it_is_refused_and_taken_back(kind: str, rng: np.random.Generator) -> None:
    older, heard = KINDS[kind](rng.standard_normal(3)), []

    def step(x: Any) -> Any:
        older.register_hook(lambda g: heard.append(type(g)))
        return x * older

    compiled = weft.compile(step)
    for _ in range(2):
        with pytest.raises(CaptureError, match="registers a hook"):
            compiled(KINDS[kind](rng.standard_normal(3)))
    (older * 2).backward(weft.ones_like(older))
    assert heard == []
