"""A loop whose first iteration reads one tensor where others read several: its gradients were added up in another order
than without a loop, and bits were different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def anchored(y: Any, w: Any) -> Any:
    start = y = y * 1.0
    for _ in range(20):
        y = y + 0.1 * ((start - y).tanh() * w + start * y - y.sin())
    return y.square().sum()


def two_of_one(y: Any, w: Any) -> Any:
    a = b = y * 1.0
    for _ in range(20):
        a, b = a + 0.1 * (b - a.tanh() * w * b), b - 0.1 * (a * b.sin() + a.cos())
    return (a * b).sum()


@pytest.mark.parametrize("function", [anchored, two_of_one])
def test_sums_have_their_order(function: Callable[..., Any]) -> None:
    rng = np.random.default_rng(7)
    start, weight = rng.normal(size=(2, 7)).astype(np.float32)
    seen = []
    for fold in ("off", "on", "all"):
        with weft.knobs(fold=fold):
            y, w = weft.tensor(start, requires_grad=True), weft.tensor(weight, requires_grad=True)
            loss = weft.compile(function)(y, w)
            loss.backward()
            seen.append([t.detach().numpy().tobytes() for t in (loss, y.grad, w.grad)])
    assert seen[0] == seen[1] == seen[2]
