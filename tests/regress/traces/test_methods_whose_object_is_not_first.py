"""A trace gave a method's object to the operator first, wherever its schema has `self`: `x.where(condition, other)` was
`where(x, condition, other)`, an error, or for a mask another value in silence. And a script's or a trace's `zeros_like`
lay row by row in memory, whatever it was like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft
from weft import Tensor

METHODS: dict[str, Callable[[Tensor], Tensor]] = {
    "where": lambda x: x.where(x > 0, x * 2),
    "where of masks": lambda x: (x > 0).where(x > 0.5, x < -0.5),
    "where by names": lambda x: x.where(condition=x > 0, other=x.new_zeros(())),
    "polygamma": lambda x: x.polygamma(n=1),
    "zeros_like": lambda x: weft.zeros_like(x.t().contiguous().t()),
    "ones_like": lambda x: weft.ones_like(x.t().contiguous().t(), dtype=weft.float64),
}


@weft.jit.script
def scripted(x: Tensor) -> Tensor:
    return x.where(condition=x > 0, other=weft.full_like(x.t().contiguous().t(), 2.0))


@pytest.mark.parametrize("name", list(METHODS))
def test_it_agrees(name: str) -> None:
    traced = weft.jit.trace(METHODS[name], (weft.rand(3, 2),), check_trace=False)
    for rows in (3, 4):
        x = weft.randn(rows, 2)
        expected, found = METHODS[name](x), traced(x)
        assert found.dtype is expected.dtype
        assert found.stride() == expected.stride()
        assert weft.equal(found, expected)


def test_scripts_agree() -> None:
    x = weft.randn(3, 2)
    assert weft.equal(scripted(x), weft.where(x > 0, x, weft.full_like(x, 2.0)))
