"""A copy of a large tensor has memory of its own: a program that only copies gave the argument back."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("copy", [
    lambda x: x.clone(), lambda x: x.to(weft.float32, copy=True), lambda x: x * 1,
    lambda x: weft.empty_like(x).copy_(x), lambda x: x.view(2, -1).clone().view(-1),
    lambda x: weft.nn.functional.dropout(x, 0.0) + 0,
])
def test_copies_of_large_tensors_are_apart(copy, rng):
    numbers = rng.standard_normal(2 * int(rng.integers(200_000, 300_000))).astype(np.float32)
    x = weft.from_numpy(numbers.copy())
    for _ in range(2):
        copy(x).mul_(2)
    np.testing.assert_array_equal(x.numpy(), numbers)
