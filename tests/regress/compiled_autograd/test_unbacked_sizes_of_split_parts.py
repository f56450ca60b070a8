"""A backward that compiled autograd captures, through parts of a split function whose sizes a run has found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft

Step = Callable[[weft.Tensor], weft.Tensor]


def chosen(x: weft.Tensor) -> weft.Tensor:
    part = x[x.detach() > 0]
    return x + part.sum() / max(part.shape[0], 1)


def written(x: weft.Tensor) -> weft.Tensor:
    part = (x * 2)[x.detach() > 0]
    part[: part.shape[0] // 2].mul_(3.0)
    return part.reshape(-1, 1).expand(-1, 2).sum() * x


def found(x: weft.Tensor) -> weft.Tensor:
    return x[weft.nonzero(x.detach() > 0).reshape(-1)].cumsum(0)


@pytest.mark.parametrize("function", [chosen, written, found])
def test_the_numbers_are_those_of_each_call(function: Step) -> None:
    split = weft.compile(function, split=True)
    for size in (5, 5, 3, 8, 8):
        slopes = []
        for call in (function, split):
            x = weft.linspace(-1.0, 1.3, size, dtype=weft.float64).requires_grad_()
            with weft.compiled_autograd.enable():
                call(x).sum().backward()
            slopes.append(x.grad.tolist())
        assert slopes[1] == pytest.approx(slopes[0])
