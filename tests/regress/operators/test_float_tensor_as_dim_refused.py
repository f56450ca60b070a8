"""A tensor of one float was taken for a dim or an index, and what was computed with it failed somewhere else."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft.support.errors import ArgumentError


@pytest.mark.parametrize("number", [weft.tensor(1.5), weft.tensor(1.0, requires_grad=True), weft.tensor(1j)])
@pytest.mark.parametrize("call", [lambda x, n: x.unsqueeze(n), lambda x, n: weft.select(x, 0, n)])
def test_a_tensor_of_a_float_is_no_integer(call, number) -> None:
    with pytest.raises(ArgumentError, match=r"must be int, not a Tensor of a (float|complex)"):
        call(weft.zeros(3, 3), number)


def test_a_tensor_of_an_integer_is_one() -> None:
    assert weft.zeros(3, 2).unsqueeze(weft.tensor(1)).shape == (3, 1, 2)


def test_a_script_says_the_same_with_its_line() -> None:
    @weft.jit.script
    def f(x, n):
        return x.unsqueeze(n)

    assert f(weft.zeros(2), weft.tensor(0)).shape == (1, 2)
    with pytest.raises(weft.jit.Error, match=r"test_float_tensor_as_dim_refused\.py, line \d+"):
        f(weft.zeros(2), weft.tensor([2, 2]))
