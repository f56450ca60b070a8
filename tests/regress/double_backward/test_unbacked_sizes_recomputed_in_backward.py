"""The backward of a compiled function that is differentiated again finds the sizes of masked parts anew: what went by
their names in the first backward goes by them still.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft
from weft import Tensor


def masked(x: Tensor) -> Tensor:
    return x[x > 0].sum()


def selected(x: Tensor) -> Tensor:
    return weft.masked_select(x, x > 0).sum() * x.sum()


def mean_of_masked(x: Tensor) -> Tensor:
    z = x[x > 0]
    return (z * z).mean() + z.sum()


@pytest.mark.parametrize("function", [masked, selected, mean_of_masked])
def test_second_gradients(function: Callable[[Tensor], Tensor]) -> None:
    def orders(call: Callable[[Tensor], Tensor], numbers: list[float]) -> list[list[float]]:
        x = weft.tensor(numbers, requires_grad=True)
        (first,) = weft.autograd.grad(call(x) ** 2, x, create_graph=True)
        (second,) = weft.autograd.grad((first * first).sum(), x)
        return [first.tolist(), second.tolist()]

    compiled = weft.compile(function)
    for numbers in ([1.0, -2.0, 3.0], [-1.0, 2.0, -0.5, 4.0]):
        for found, wanted in zip(orders(compiled, numbers), orders(function, numbers), strict=True):
            assert found == pytest.approx(wanted)
    assert not compiled.misses


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e30])
def test_a_number_that_no_integer_holds_is_refused_in_one_way(number: float) -> None:
    x, mask = weft.tensor([1, 2]), weft.tensor([True, False])
    kinds = set()
    for call in (lambda: weft.masked_fill(x, mask, number), lambda: weft.full_like(x, number), lambda: x.fill_(number)):
        for _ in range(3):
            with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow") as refused:
                call()
            kinds.add(refused.type)
    assert len(kinds) == 1
