"""What is left of a formula where there are no elements, and at -0.0."""

from __future__ import annotations

import math

import pytest

import weft
import weft.nn.functional as F


def test_local_response_norm_of_nothing() -> None:
    for dims in ((1, 0, 1), (0, 3, 2), (2, 3, 0), (1, 2, 0, 3)):
        assert tuple(F.local_response_norm(weft.ones(dims), 2).shape) == dims


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_slope_of_logit_at_either_zero(is_compiled: bool) -> None:
    def slope(x: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(weft.logit(x).sum(), x)[0]

    x = weft.tensor([0.0, -0.0, 1.0, 0.5, 1.5, -0.5]).requires_grad_()
    found = (weft.compile(slope) if is_compiled else slope)(x).tolist()
    assert found[:4] == [math.inf, math.inf, math.inf, 4]
    assert all(map(math.isnan, found[4:]))
