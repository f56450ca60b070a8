"""Adaptive average pooling along a dim without elements gave NaN in eager mode, OutOfBounds in a compiled function."""

from __future__ import annotations

import pytest

import weft

F = weft.nn.functional


@pytest.mark.parametrize("compiled", [False, True])
def test_more_than_one_window_of_nothing_is_refused(compiled: bool) -> None:
    for pool, dims, count in (
        (F.adaptive_avg_pool1d, (2, 3, 0), 2), (F.adaptive_avg_pool2d, (2, 3, 0, 4), (1, 2)),
        (F.adaptive_avg_pool2d, (2, 3, 4, 0), (4, 1)), (F.adaptive_avg_pool3d, (3, 2, 0, 4), 2),
    ):
        run = weft.compile(pool) if compiled else pool
        with pytest.raises(weft.errors.ShapeError, match="non-zero size for non-batch dimensions"):
            run(weft.ones(dims), count)
        filled = tuple(n or 4 for n in dims)
        assert run(weft.ones(filled), count).sum() == run(weft.ones(filled), count).numel()


def test_one_window_of_nothing_is_nan() -> None:
    assert F.adaptive_avg_pool2d(weft.ones(2, 3, 0, 4), 1).isnan().all()
    assert F.adaptive_avg_pool2d(weft.ones(0, 3, 4, 4), 2).shape == (0, 3, 2, 2)
