"""Gradients of rows, each added to zeros for the other rows: 0.0 comes of -0.0, and several of one row are added in the
order of the iterations back, whether a loop is recorded, folded or unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("fold", ["off", "on", "all"])
@pytest.mark.parametrize("steps", [5, 30])
def test_zeros_of_the_row_that_comes_first(fold: str, steps: int) -> None:
    def step(x: Any, v: Any, z: Any) -> Any:
        for t in range(steps):
            v = v * 0.5 + x[t] * z
            v = weft.tanh(v)
        return v.sum()

    rng = np.random.default_rng(2048)
    rows, z = rng.normal(size=(steps, 3)), weft.tensor([-0.0, 1.0, 0.0], dtype=weft.float64)
    grads = []
    with weft.knobs(fold=fold):
        for function in (step, weft.compile(step)):
            x = weft.tensor(rows, requires_grad=True)
            function(x, weft.ones(3, dtype=weft.float64), z).backward()
            grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-12)
    assert (np.signbit(grads[0]) == np.signbit(grads[1])).all()


def test_three_reads_of_a_row() -> None:
    def step(x: Any, v: Any) -> Any:
        for t in range(30):
            v = weft.sin(v) * 0.5 + weft.sin(x[t]) * x[t + 1] + weft.cos(x[t + 2] * x[t])
        return v.sum()

    rows, grads = np.random.default_rng(3).normal(size=(32, 3)), []
    for fold in ("off", "on"):
        with weft.knobs(fold=fold):
            x = weft.tensor(rows, requires_grad=True)
            weft.compile(step)(x, weft.ones(3, dtype=weft.float64)).backward()
            grads.append(x.grad.numpy().tobytes())
    assert grads[0] == grads[1]
