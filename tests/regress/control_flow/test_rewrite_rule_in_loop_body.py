"""What a rule makes of its own constants and of a block's values stands in the block."""

from __future__ import annotations

import numpy as np

import weft


def test_one_element_of_each_row_is_picked_in_a_loop(rng) -> None:
    def picked(x, index, n):
        def step(i, y, at):
            return i + 1, weft.gather(x * y, 1, at) + 1, (at + 1) % x.shape[1]

        return weft.while_loop(lambda i, y, at: i < n, step, (weft.tensor(0), weft.gather(x, 1, index), index))[1]

    compiled = weft.compile(picked)
    for rows in (2, 5):
        x = weft.tensor(rng.standard_normal((rows, 4)))
        index = weft.from_numpy(rng.integers(0, 4, (rows, 1)))
        np.testing.assert_allclose(
            compiled(x, index, weft.tensor(3)).numpy(), picked(x, index, weft.tensor(3)).numpy(), rtol=1e-12
        )
