"""Scattered products whose factors are zero: the second gradient of one that is the only zero is the product of the
others, that of two zeros what stands beside them. It used to be lost without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("function", [weft.scatter_reduce, weft.index_reduce])
@pytest.mark.parametrize("zeros", range(4))
@pytest.mark.parametrize("include_self", [True, False])
def test_second_gradients(rng: np.random.Generator, function: Any, zeros: int, include_self: bool) -> None:
    for at_self in (False, True):
        src = rng.uniform(0.5, 2, 4)
        src[rng.permutation(4)[:zeros]] = 0
        whole = np.array([0.0 if at_self else 1.5, 0.7])
        index = weft.tensor([0, 0, 0, 1])
        inputs = tuple(weft.from_numpy(v).requires_grad_() for v in (whole, src))
        assert weft.autograd.gradcheck(
            lambda a, b: function(a, 0, index, b, "prod", include_self=include_self), inputs, fast_mode=True  # noqa: B023
        )
        assert weft.autograd.gradgradcheck(
            lambda a, b: function(a, 0, index, b, "prod", include_self=include_self), inputs, fast_mode=True  # noqa: B023
        )
