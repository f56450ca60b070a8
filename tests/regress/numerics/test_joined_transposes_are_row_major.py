"""In programs that NumPy runs, what was joined of transposed tensors lay in memory as they do, so that a sum of it
added up in another order than in eager mode (and than in the same loop unrolled)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def joined(x: weft.Tensor) -> Any:
    return weft.cat([x.t(), x.t() * 2], 1).square().sum(), weft.stack([x.t(), x.t()], 2).exp().sum()


def stacked(x: weft.Tensor) -> Any:
    state, rows = x[0], []
    for row in x:
        state = state * 0.9 + row * 0.1
        rows.append(state)
    return (weft.stack(rows, dim=-1).square().mean(),)


@pytest.mark.parametrize("backend", ["interpret", "numpy"])
@pytest.mark.parametrize("function", [joined, stacked])
def test_sums_add_up_as_in_eager_mode(function: Any, backend: str, rng: np.random.Generator) -> None:
    compiled = weft.compile(function, backend=backend)
    for _ in range(12):
        x = weft.tensor(rng.standard_normal((20, 3)), dtype=weft.float32)
        assert [r.item() for r in compiled(x)] == [r.item() for r in function(x)]
