"""searchsorted in rows that are empty, or that are none, and rows that do not fit their values."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.support.errors import ShapeError


@pytest.mark.parametrize(
    ("rows", "values"), [((2, 0), (2, 3)), ((2, 0), (2, 0)), ((0, 3), (0, 2)), ((2, 1, 4), (2, 1, 3))]
)
def test_rows_without_elements(rows: tuple[int, ...], values: tuple[int, ...]) -> None:
    for run in (weft.searchsorted, weft.compile(weft.searchsorted)):
        found = run(weft.zeros(rows), weft.ones(values))
        np.testing.assert_array_equal(found, np.full(values, rows[-1]))
        assert found.dtype is weft.int64


def test_rows_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="first N-1 dimensions"):
        weft.searchsorted(weft.zeros(2, 3), weft.ones(3, 2))


def test_the_slope_of_nextafter_is_0_where_nothing_is_stepped() -> None:
    x = weft.tensor([1.0, 2.0, 3.0]).requires_grad_()
    y = weft.nextafter(x, weft.tensor([1.0, 3.0, 2.0]))
    assert weft.autograd.grad(y.sum(), x)[0].tolist() == [0, 1, 1]
