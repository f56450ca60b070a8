"""Arguments of functionalize that show a part of their memory, beside others that show it too: gradients reach them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.func import functionalize

Function = Callable[..., Any]
MODES: dict[str, Callable[[Function], Function]] = {
    "eager": lambda f: f,
    "functionalize": functionalize,
    "copies": lambda f: functionalize(f, remove="mutations_and_views"),
}


@pytest.fixture(params=MODES)
def mode(request: Any) -> Callable[[Function], Function]:
    """A way to call a function."""
    return MODES[request.param]


def _part() -> Any:
    return weft.arange(9.0)[3:6].detach().requires_grad_()


def test_of_a_leaf_that_is_a_part_beside_a_detached_alias(mode: Any) -> None:
    x = _part()
    made = mode(lambda x, y: x * y)(x, x.detach().reshape(-1))
    assert made.requires_grad
    made.sum().backward()
    assert x.grad.tolist() == [3, 4, 5] and x._version == 0


def test_of_a_view_that_leaves(mode: Any) -> None:
    x = _part()
    made, shown = mode(lambda x, y: (x[1:], y[1:]))(x, x.detach().reshape(-1))
    assert made.requires_grad and not shown.requires_grad
    (made * made).sum().backward()
    assert x.grad.tolist() == [0, 8, 10]
    shown.zero_()
    assert x.tolist() == [3, 0, 0]


def test_with_a_write_through_the_alias(mode: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        y.add_(1)
        return x * 2

    x = _part()
    made = mode(f)(x, x.detach().reshape(-1))
    assert made.tolist() == [8, 10, 12] and x.tolist() == [4, 5, 6] and x.is_leaf
    made.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_of_as_strided_within_a_part(remove: str) -> None:
    x = _part()
    made = functionalize(lambda x: x.as_strided((2,), (2,), 3) * 3, remove=remove)(x)
    assert made.requires_grad and made.tolist() == [9, 15]
    made.sum().backward()
    assert x.grad.tolist() == [3, 0, 3] and x._version == 0
