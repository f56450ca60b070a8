"""A returned first row lies contiguous from its root's start, but its root is larger: the program wrote the root
into the row's memory."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_a_first_row_is_returned_and_its_root_written(rng: np.random.Generator, backend: str) -> None:
    dims = tuple(int(n) for n in rng.integers(2, 40, 3))

    def rows(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        x.fill_(-1.5)
        x[0].mul_(-0.5)
        return x[0].clone(), x[0].cumsum(1), x[0] - 1

    compiled = weft.compile(rows, backend=backend)
    for _ in range(3):
        x = weft.from_numpy(rng.standard_normal(dims))
        first, sums, less = (t.numpy() for t in compiled(x))
        expected = np.full(dims[1:], 0.75)
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_allclose(sums, np.cumsum(expected, 1))
        np.testing.assert_array_equal(less, expected - 1)
        np.testing.assert_array_equal(x.numpy()[1:], np.full((dims[0] - 1, *dims[1:]), -1.5))
