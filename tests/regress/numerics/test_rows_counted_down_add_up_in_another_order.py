"""Gradients of rows that a loop reads twice, counted down or in two directions, were added up in another order than
without a loop where something else reads the tensor too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def down(x: Any, h: Any) -> Any:
    for t in range(18, -1, -1):
        h = weft.tanh(x[t] * x[t + 1] * 0.7 + h)
    return (h * h).sum() + (x * x * x).sum()


def both_ways(x: Any, h: Any) -> Any:
    for t in range(20):
        h = weft.tanh(x[t] * x[19 - t] * 0.7 + h)
    return (h * h).sum() + (x * x * x).sum()


@pytest.mark.parametrize("function", [down, both_ways])
def test_gradients(function: Callable[[Any, Any], Any]) -> None:
    rng = np.random.default_rng(7)
    series = [rng.normal(size=(20, 30)) for _ in range(3)]
    seen = []
    for fold in ("on", "off"):
        with weft.knobs(fold=fold):
            step = weft.compile(function)
            for values in series:
                x = weft.tensor(values, requires_grad=True)
                step(x, weft.ones(30, dtype=weft.float64)).backward()
                seen.append(x.grad.numpy().copy())  # type: ignore[union-attr]
    for folded, unrolled in zip(seen[:3], seen[3:], strict=True):
        np.testing.assert_array_equal(folded, unrolled)
