"""Windows that overlap are written as eager mode writes them, whoever computes: the last value of an element stays, and
its source alone gets the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.func import functionalize, grad

MODES: dict[str, Callable[[Any], Any]] = {
    "functionalize": functionalize,
    "compile": lambda f: weft.compile(f, backend="interpret"),
    "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
    "lazy": lambda f: lambda x: [t.cpu() for t in f(x.to("lazy"))],
}


def steps(x: weft.Tensor) -> list[weft.Tensor]:
    windows, pairs = x.unfold(0, 3, 1), x.unfold(0, 2, 2)
    windows.add_(1)
    windows[1].mul_(2)
    windows[windows > 3] = 0
    pairs.mul_(3)
    windows.copy_(windows * 2 - weft.arange(3, device=x.device))
    return [x, windows, pairs]


@pytest.mark.parametrize("mode", MODES)
def test_values(mode: str) -> None:
    run = MODES[mode](steps)
    for size in (6, 7, 9):
        for found, wanted in zip(run(weft.arange(float(size))), steps(weft.arange(float(size))), strict=True):
            assert found.tolist() == wanted.tolist()


def test_gradients() -> None:
    def twice(x: weft.Tensor) -> weft.Tensor:
        y = x * 1
        y.unfold(0, 2, 1).mul_(2)
        return y.sum()

    def shown(x: weft.Tensor, source: weft.Tensor) -> weft.Tensor:
        y = x * 1
        y.unfold(0, 2, 1).copy_(source)
        return (y * weft.arange(4.0)).sum()

    x, source = weft.ones(4), weft.arange(6.0).view(3, 2)
    assert grad(functionalize(twice))(x).tolist() == grad(twice)(x).tolist() == [2, 2, 2, 2]
    assert grad(functionalize(shown), 1)(x, source).tolist() == [[0, 0], [1, 0], [2, 3]]


def test_as_strided_scatter_refuses_what_it_would_write_twice() -> None:
    for run in (weft.as_strided_scatter, weft.compile(weft.as_strided_scatter)):
        with pytest.raises(RuntimeError, match="single memory location"):
            run(weft.ones(4), weft.ones(3, 2), (3, 2), (0, 1))
        with pytest.raises(RuntimeError, match="single memory location"):
            run(weft.ones(4), weft.ones(3, 2), (3, 2), (1, 1))
