"""A dim that roll is given twice was cut into parts of parts, and the native program wrote beyond its buffer."""

from __future__ import annotations

import random

import pytest

import weft


@pytest.mark.parametrize("dims", [(0, 0), (1, -1), (0, 1, 0)])
def test_shifts_of_one_dim_add_up(dims: tuple[int, ...]) -> None:
    shifts = tuple([random.randint(-9, 9) for _ in dims])
    x = weft.randn(random.randint(1, 7), random.randint(1, 7))
    compiled = weft.compile(lambda x: x.roll(shifts, dims))
    weft.testing.assert_close(compiled(x), x.roll(shifts, dims))
