"""Hooks and custom Functions of compiled forwards that write tensors in their backward: the write is made by each
backward, as in eager mode."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor

SEEN = weft.zeros(3)


class Counting(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, given: Tensor) -> Tensor:
        ctx.given = given
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        with weft.no_grad():
            ctx.given.add_(gradient)
        return gradient * 2, None


def _of_argument(x: Tensor, given: Tensor) -> Tensor:
    return Counting.apply(x, given) * given  # type: ignore[no-any-return]


def _of_global(x: Tensor, given: Tensor) -> Tensor:
    return Counting.apply(x, SEEN) * given  # type: ignore[no-any-return]


def _count(gradient: Tensor) -> None:
    SEEN.add_(gradient)


def _of_hook(x: Tensor, given: Tensor) -> Tensor:
    y = x * given
    y.register_hook(_count)
    return y * 3


@pytest.mark.parametrize("function", [_of_argument, _of_global, _of_hook])
def test_writes_are_made_by_each_backward(function: Any) -> None:
    found = []
    for run in (function, weft.compile(function)):
        SEEN.zero_()
        rows = []
        for factor in (1.0, 2.0):
            x = weft.full((3,), factor, requires_grad=True)
            given = weft.full((3,), 3.0)
            out = run(x, given)
            rows.append((out.tolist(), given.tolist(), SEEN.tolist()))
            out.sum().backward()
            assert x.grad is not None
            rows.append((x.grad.tolist(), given.tolist(), SEEN.tolist()))
        found.append(rows)
    assert found[0] == found[1]


def test_a_backward_that_calls_an_operator_without_a_fake() -> None:
    library = weft.library.Library("backward_without_fake", "FRAGMENT")
    library.define("squared(Tensor x) -> Tensor")
    library.impl("squared", lambda x: weft.from_numpy(x.numpy() ** 2), "CPU")

    class Squared(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return weft.ops.backward_without_fake.squared(gradient)  # type: ignore[no-any-return]

    compiled = weft.compile(Squared.apply)
    for _ in range(2):
        x = weft.tensor([2.0, 3.0], requires_grad=True)
        (compiled(x) * 3).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [9.0, 9.0]
