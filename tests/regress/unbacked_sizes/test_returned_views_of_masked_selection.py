"""Returned views of tensors whose sizes only the run finds: they share memory, and have the run's sizes."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("backend", ["interpret", "numpy", "llvm"])
def test_views_of_a_masked_selection(backend: str, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> list[weft.Tensor]:
        rows = x[x.sum(-1) > 0]
        return [rows, rows.ravel(), rows.view(-1, 1), rows.t(), rows[:, 0]]

    compiled = weft.compile(step, backend=backend)
    for height in (5, 1, 9):
        x = weft.from_numpy(rng.standard_normal((height, 3)))
        expected, found = step(x), compiled(x)
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape and a.stride() == b.stride()
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        if found[0].numel():
            assert all(np.shares_memory(found[0].numpy(), view.numpy()) for view in found[1:])
