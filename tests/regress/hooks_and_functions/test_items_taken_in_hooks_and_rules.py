"""A hook, or a rule of a custom Function, that takes items of an older iterator is called by the program. The capture
that was refused for it had taken one, which was then missing in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import weft

ITEMS = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]
Body = Callable[[weft.Tensor], weft.Tensor]


def by_bound_next() -> Body:
    following = itertools.count(2).__next__
    return lambda x: x * following()


def by_slice() -> Body:
    items = iter(ITEMS)
    return lambda x: x * sum(itertools.islice(items, 2))


def by_next() -> Body:
    items = itertools.chain(ITEMS)
    return lambda x: x * next(items)


def by_for() -> Body:
    items = iter(ITEMS)

    def body(x: weft.Tensor) -> weft.Tensor:
        for item in items:
            return x * item
        return x

    return body


def by_unpacking() -> Body:
    holder = [itertools.pairwise(ITEMS)]

    def body(x: weft.Tensor) -> weft.Tensor:
        first, *_ = itertools.islice(holder[0], 2)
        return x * sum(first)

    return body


def in_hook(body: Body) -> Body:
    def step(x: weft.Tensor) -> Any:
        x = x.detach().requires_grad_()
        y = x * 2
        y.register_hook(lambda g: body(g * 1.5))
        (y * y).sum().backward()
        return x.grad

    return step


def in_backward(body: Body) -> Body:
    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return body(g)

    def step(x: weft.Tensor) -> Any:
        x = x.detach().requires_grad_()
        Doubled.apply(x).square().sum().backward()
        return x.grad

    return step


def in_forward(body: Body) -> Body:
    class Scaled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return body(x)

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g

    return lambda x: Scaled.apply(x)


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
@pytest.mark.parametrize("place", [in_hook, in_backward, in_forward])
@pytest.mark.parametrize("body", [by_bound_next, by_slice, by_next, by_for, by_unpacking])
def test_each_call_takes_the_next_item(body: Any, place: Any, options: dict[str, Any]) -> None:
    step, eager = weft.compile(place(body()), **options), place(body())
    for _ in range(3):
        x = weft.tensor([1.0, -2.0])
        assert step(x).tolist() == eager(x).tolist()
