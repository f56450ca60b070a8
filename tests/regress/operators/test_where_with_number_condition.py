"""A number may stand for a condition, of one truth in one call and of the other in the next."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("dims", [(), (3,), (200, 500)])
def test_the_truth_of_a_number_chooses(dims: tuple[int, ...], rng: np.random.Generator) -> None:
    x, y = rng.standard_normal(dims), rng.standard_normal(dims)
    for condition in (True, False, True, 0, 2, 0.0, 0.5):
        out = weft.where(condition, weft.from_numpy(x), weft.from_numpy(y))  # type: ignore[call-overload]
        np.testing.assert_array_equal(out.numpy(), x if condition else y)
        leaf = weft.from_numpy(x).requires_grad_()
        weft.where(condition, leaf, 0.0).sum().backward()  # type: ignore[call-overload]
        assert leaf.grad is not None
        np.testing.assert_array_equal(leaf.grad.numpy(), np.full(dims, float(bool(condition))))
