"""A loop whose steps find sizes of their own (a mask picks others in each): the backward that is differentiated again
runs node by node, and took the sizes of the first step for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def _while(x: Any) -> Any:
    def step(i: Any, total: Any, x: Any) -> Any:
        picked = (x * x)[x > i.to(weft.float64)]
        return i + 1, total + (picked * picked.flip(0)).sum(), x

    return weft.while_loop(lambda i, total, x: i < 3, step, (weft.tensor(0), x.sum() * 0, x))[1]


def _scan(x: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        picked = (row * total)[row > 0.5]
        return total + (picked * picked.flip(0)).sum() / 8, picked.sum()

    return weft.scan(step, x.sum() * 0 + 1, x.reshape(2, 2))[0]


def _three_orders(function: Callable[[Any], Any]) -> list[Any]:
    x = weft.tensor([0.25, 1.5, 2.5, 0.75], dtype=weft.float64, requires_grad=True)
    found = [function(x)]
    for _ in range(3):
        (gradient,) = weft.autograd.grad((found[-1] ** 2).sum(), x, create_graph=True)
        found.append(gradient)
    return [t.detach().numpy() for t in found]


@pytest.mark.parametrize("function", [_while, _scan])
def test_every_order_takes_the_sizes_of_its_step(function: Callable[[Any], Any]) -> None:
    for compiled, eager in zip(_three_orders(weft.compile(function)), _three_orders(function), strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-9)
