"""A negative number made of a size that only the run knows, to the power of a fraction: Python's complex number became
NaN in silence. A run raises ValueError, as `math.pow` does."""

from __future__ import annotations

import pytest

import weft
from weft import Tensor


def _forward(x: Tensor) -> Tensor:
    k = x[x > 0].shape[0]
    return x * (2 - k) ** 0.5 + (k - 1.0) ** -1


@pytest.mark.parametrize("order", [(2, 1, 3, 0), (3, 2), (0, 3, 2)])
def test_a_run_raises(order: tuple[int, ...]) -> None:
    compiled = weft.compile(_forward)
    for positive in order:
        x = weft.tensor([0.5] * positive + [-1.0], dtype=weft.float64)
        if positive < 3 and positive != 1:
            assert weft.allclose(compiled(x), _forward(x))
            continue
        with pytest.raises(ZeroDivisionError if positive == 1 else ValueError):
            compiled(x)


def test_split_runs_python() -> None:
    split = weft.compile(_forward, split=True)
    for positive in (2, 3, 4):
        x = weft.tensor([0.5] * positive + [-1.0], dtype=weft.float64)
        assert weft.equal(split(x), _forward(x))
