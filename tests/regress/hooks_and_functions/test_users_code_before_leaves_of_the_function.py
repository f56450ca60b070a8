"""The backward that callers run ended where a function had made the leaf itself and kept it to itself: nobody sees that
gradient. But hooks, rules of custom Functions and checkpointed regions on the way never ran, in silence. And in eager
mode a hook that waits for a leaf's gradient never ran where nobody else held the leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.utils.checkpoint import checkpoint

heard: list[Any] = []
WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "compiled": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
}


class Told(weft.autograd.Function):
    """Twice the value; its rule says that it ran."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        heard.append("rule")
        return grad * 2


def region(x: Tensor) -> Tensor:
    heard.append("region")
    return (x.sin() * x).tanh()


def hooked(x: Tensor) -> Tensor:
    leaf = weft.nn.Parameter(x.detach())
    doubled = leaf * 2
    doubled.register_hook(lambda g: heard.append(g.tolist()))
    return (doubled * doubled).sum()


def hooked_leaf(x: Tensor) -> Tensor:
    leaf = weft.nn.Parameter(x.detach())
    leaf.register_hook(lambda g: heard.append(g.tolist()))
    return (leaf * leaf).sum()


def waited_for(x: Tensor) -> Tensor:
    leaf = weft.nn.Parameter(x.detach())

    def note(leaf: Tensor) -> None:
        assert leaf.grad is not None
        heard.append(leaf.grad.tolist())

    leaf.register_post_accumulate_grad_hook(note)
    return (leaf * leaf).sum()


def by_a_rule(x: Tensor) -> Tensor:
    return Told.apply(weft.nn.Parameter(x.detach())).sum()


def checkpointed(x: Tensor) -> Tensor:
    return checkpoint(region, x.detach().clone().requires_grad_(), use_reentrant=False).sum()


EXPECTED = {
    hooked: [[4.0, 8.0]], hooked_leaf: [[2.0, 4.0]], waited_for: [[2.0, 4.0]], by_a_rule: ["rule"],
    checkpointed: ["region", "region"],
}
REFUSED = (waited_for, checkpointed)  # what their code writes, a backward of later would not write again


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", EXPECTED, ids=lambda f: f.__name__)
def test_they_run_at_each_backward(function: Callable[[Tensor], Tensor], way: str) -> None:
    step = WAYS[way](function)
    if way == "compiled" and function in REFUSED:
        with pytest.raises(weft.errors.CaptureError):
            step(weft.tensor([1.0, 2.0]))
        return
    for _ in range(3):
        heard.clear()
        step(weft.tensor([1.0, 2.0])).backward()
        assert heard == EXPECTED[function]


@pytest.mark.parametrize("way", WAYS)
def test_only_those_before_the_result(way: str) -> None:
    def several(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first, second = weft.nn.Parameter(x.detach()), weft.nn.Parameter(x.detach() * 3)
        u, v = first * 2, second * x
        u.register_hook(lambda g: heard.append(("u", g.tolist())))
        v.register_hook(lambda g: heard.append(("v", g.tolist())))
        return (u * u).sum(), (v * v).sum(), (x * x).sum()

    step = WAYS[way](several)
    expected = [[("u", [4.0, 8.0])], [("v", [6.0, 24.0])], []]
    gradients = [None, [18.0, 144.0], [2.0, 4.0]]
    for at in (0, 1, 2, 1, 0):
        x = weft.tensor([1.0, 2.0], requires_grad=True)
        heard.clear()
        step(x)[at].backward()
        assert heard == expected[at]
        assert (None if x.grad is None else x.grad.tolist()) == gradients[at]
