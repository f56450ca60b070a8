"""NaN and inf of one window of an adaptive average, or of `interpolate(mode="area")`, stay out of the others."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
import weft.nn.functional as F


def windows(size: int, count: int) -> list[tuple[int, int]]:
    return [(j * size // count, -(-(j + 1) * size // count)) for j in range(count)]


@pytest.mark.parametrize("mode", ["eager", "compiled", "split"])
@pytest.mark.parametrize("special", [math.nan, math.inf])
@pytest.mark.parametrize("count", [1, 3, 4, 7, 9])
def test_each_reads_its_own(count: int, special: float, mode: str) -> None:
    def step(x: Any) -> Any:
        return F.adaptive_avg_pool1d(x, count), F.interpolate(x, size=count, mode="area")

    run = step if mode == "eager" else weft.compile(step, split=mode == "split")
    for n, at in ((7, 0), (7, 6), (8, 3), (12, 5)):
        x = weft.arange(1.0, n + 1).reshape(1, 1, n)
        x[0, 0, at] = special
        for result in run(x):
            for (start, end), value in zip(windows(n, count), result.flatten().tolist(), strict=True):
                expected = sum(x[0, 0, start:end].tolist()) / (end - start)
                assert value == pytest.approx(expected, nan_ok=True)


def test_planes_and_their_gradients() -> None:
    x = weft.rand(1, 2, 5, 7, dtype=weft.float64, requires_grad=True)
    for size in ((3, 4), (5, None), (1, 7), (6, 8)):
        assert weft.autograd.gradcheck(lambda x, size=size: F.adaptive_avg_pool2d(x, size), (x,))
