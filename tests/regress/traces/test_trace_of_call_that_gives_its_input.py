"""A call that hands on its input as it was (`contiguous`, `to`, the pullback of a sum) gave the input the call's value:
the input was a copy from then on, and after a branch or transform that had such a call it was out of reach.
"""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft import Tensor, func


def written_after_it(x: Tensor) -> Tensor:
    y = x.contiguous()
    x.add_(1)
    return y + x


def in_a_branch(x: Tensor) -> Tensor:
    y = x * 1
    return weft.cond(x.sum() > 0, lambda z: y.contiguous() + z, lambda z: z * 2, (x,)) + y


def written_in_a_branch(x: Tensor) -> Tensor:
    y = x * 1
    return weft.cond(x.sum() > 0, lambda z: y.mul_(2) + z, lambda z: z * 2, (x,)) + y


def pulled_back(x: Tensor) -> Tensor:
    first = weft.cond(
        x.sum() > 0, lambda z: func.vjp(lambda u: u + 1, z)[1](z)[0] * 2,
        lambda z: func.vjp(lambda u: u, z)[1](z)[0], (x,),
    )  # fmt: skip
    return first + x


CONSTANT = weft.ones(3, 3)


def of_a_constant(x: Tensor) -> Tensor:
    return weft.cond(x.sum() > 0, lambda z: CONSTANT.contiguous() * z, lambda z: z * 2, (x,)) + CONSTANT


@pytest.mark.parametrize("function", [written_after_it, in_a_branch, written_in_a_branch, pulled_back, of_a_constant])
def test_the_input_stays_what_it_is(function) -> None:
    x = weft.rand(3, 3)
    traced = weft.jit.trace(function, (x.clone(),), check_trace=False)
    for layout in (lambda t: t.clone(), lambda t: -t, lambda t: t.clone().t()):
        assert weft.equal(traced(layout(x)), function(layout(x)))
