"""A compiled step that goes backward lost the `.grad` of tensors that it makes and gives away: of leaves, and of others
that retain it. An assigned view had no history where that of what it shows was freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


class Kept(weft.Tensor):
    """A subclass that every operator keeps."""


class Holder:
    """An object older than the calls."""


def retained(x: Any, h: Any) -> Any:
    y = x.sin()
    y.retain_grad()
    z = y * y
    z.sum().backward(retain_graph=True)
    return y, z


def retained_view(x: Any, h: Any) -> Any:
    y = x.sin()[1:]
    y.retain_grad()
    z = y * y
    (g,) = weft.autograd.grad(z.sum(), x, retain_graph=True)
    return z, g, y


def assigned(x: Any, h: Any) -> Any:
    h.y = x.sin().as_subclass(Kept)
    h.y.retain_grad()
    (h.y * h.y).sum().backward()
    h.gradient = h.y.grad
    return x * 2


def with_history(x: Any, h: Any) -> Any:
    y = x.sin()
    y.retain_grad()
    weft.autograd.grad((y * y * y).sum(), x, create_graph=True)
    return y.grad, y


def leaf(x: Any, h: Any) -> Any:
    p = weft.ones_like(x).requires_grad_()
    z = p * x
    z.sum().backward(retain_graph=True)
    return p, z


def assigned_leaf(x: Any, h: Any) -> Any:
    h.p = (x.detach() * 2).requires_grad_()
    h.p.grad = x.detach() * 3
    return x * h.p


def views_of_spent(x: Any, h: Any) -> Any:
    y = x.sin()
    h.a, h.b = y[1:], y.as_subclass(Kept)
    (y * y).sum().backward()
    h.c = y.view(-1)
    return x * 2


@pytest.mark.parametrize(
    "function", [retained, retained_view, assigned, with_history, leaf, assigned_leaf, views_of_spent]
)
@pytest.mark.parametrize("split", [False, True])
def test_gradients(function: Callable[[Any, Any], Any], split: bool) -> None:
    seen = []
    for wrap in (lambda f: f, lambda f: weft.compile(f, backend="interpret", split=split)):
        h, notes = Holder(), []
        step = wrap(lambda x, h=h: function(x, h))
        for n in (3, 3, 5, 2):
            x = weft.linspace(0.1, 1, n, requires_grad=True)
            results = step(x)
            tensors = [*(results if isinstance(results, tuple) else (results,)), *vars(h).values()]
            for backward in (False, True):
                if backward and tensors[-1].requires_grad:
                    with pytest.raises(RuntimeError) if function is views_of_spent else weft.enable_grad():
                        tensors[-1].sum().backward()
                notes += [(type(t), t.requires_grad, t.is_leaf, t.retains_grad) for t in tensors]
                notes += [x.grad] + [t.grad if t.is_leaf or t.retains_grad else None for t in tensors]
        seen.append([[round(v, 5) for v in n.tolist()] if isinstance(n, weft.Tensor) else n for n in notes])
    assert seen[1] == seen[0]
