"""A custom Function's complex gradient of a real tensor was cut down to its real part without a word; so was made of an
integer one what a complex tensor got. Which gradient is meant, the Function says."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import weft
from weft import compiled_autograd as ca
from weft.support.errors import StateError

REAL, COMPLEX = weft.float64, weft.complex128


class Gives(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, dtype: weft.dtype) -> weft.Tensor:
        ctx.dtype = dtype
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return g.to(ctx.dtype), None


def step(x: weft.Tensor, dtype: weft.dtype) -> weft.Tensor:
    y = Gives.apply(x, dtype)
    return weft.autograd.grad((y * y.conj()).real.sum(), x)[0]


@pytest.mark.parametrize("mode", ["eager", "compiled backward", "compiled"])
@pytest.mark.parametrize(("own", "given"), [
    (REAL, weft.complex64), (REAL, COMPLEX), (COMPLEX, weft.int64), (COMPLEX, weft.bool),
])
def test_another_field_is_refused(mode: str, own: weft.dtype, given: weft.dtype) -> None:
    x = weft.ones(2, dtype=own, requires_grad=True)
    within: AbstractContextManager[Any] = ca.enable() if mode == "compiled backward" else nullcontext()
    run = weft.compile(step) if mode == "compiled" else step
    with within, pytest.raises(StateError, match="GivesBackward returned an invalid gradient at index 0"):
        run(x, given)


@pytest.mark.parametrize("mode", ["eager", "compiled backward", "compiled"])
@pytest.mark.parametrize(("own", "given"), [
    (REAL, weft.float32), (REAL, weft.int64), (COMPLEX, weft.float32), (COMPLEX, weft.complex64),
])
def test_what_belongs_to_the_field_is_cast(mode: str, own: weft.dtype, given: weft.dtype) -> None:
    x = weft.ones(2, dtype=own, requires_grad=True)
    within: AbstractContextManager[Any] = ca.enable() if mode == "compiled backward" else nullcontext()
    run = weft.compile(step) if mode == "compiled" else step
    with within:
        found = run(x, given)
    assert found.dtype is own and found.tolist() == [2, 2]


def test_formulas_of_operators_keep_the_real_part() -> None:
    """The gradient of a real factor of a complex product."""
    x = weft.tensor([1.0, 2.0], dtype=REAL, requires_grad=True)
    z = weft.tensor([1 + 2j, 3 - 1j], dtype=COMPLEX)
    out = x * z
    assert weft.autograd.grad((out * out.conj()).real.sum(), x)[0].tolist() == [10, 40]
