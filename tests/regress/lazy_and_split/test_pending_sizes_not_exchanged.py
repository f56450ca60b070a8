"""Sizes that one lazy run finds go to the values that have them, whatever the order in which they are asked for."""

from __future__ import annotations

import numpy as np

import weft


def test_two_sizes_of_one_run_are_not_exchanged(rng: np.random.Generator) -> None:
    for count in (4, 2, 5):
        x, indices, marks = np.arange(-1.0, count), rng.integers(0, 4, 5), np.arange(6) > 1
        values, flags = weft.tensor(x).to("lazy"), weft.tensor(marks).to("lazy")
        selected = weft.masked_select(values, values > 0)
        unique = weft.unique(weft.tensor(indices).to("lazy"))
        where = weft.where(flags)[0]
        length = where.shape[0] % unique.shape[0] * selected.numel()  # the first two are found when this is asked for
        expected = 4 % len(np.unique(indices)) * (count - 1)
        assert (weft.ones(length, 2) + 1).cpu().shape == (expected, 2)
