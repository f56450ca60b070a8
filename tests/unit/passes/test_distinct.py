"""Distinct elements in native code are those of eager mode: values, places, counts, of any dtype and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def draw(rng: Rng, dtype: str) -> Any:
    dims = tuple(int(n) for n in rng.integers(0, 7, rng.integers(1, 4)))
    x = rng.integers(-3, 4, dims).astype(dtype) if dtype != "bool" else rng.random(dims) < 0.5
    if dtype.startswith("float"):
        x[rng.random(dims) < 0.2] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
    return x


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"])
def test_as_in_eager_mode(dtype: str, rng: Rng) -> None:
    def everything(x: Any) -> Any:
        return weft.unique(x, return_inverse=True, return_counts=True)

    compiled = [weft.compile(everything) for _ in range(4)]  # by rank
    for _ in range(12):
        x = weft.from_numpy(draw(rng, dtype))
        for a, b in zip(compiled[x.ndim](x), everything(x), strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=str(x))
    assert all(len(c.entries) <= 2 and "unique" not in str(weft.explain(c)).split("outside")[-1]
               for c in compiled[1:] if c.entries)  # fmt: skip


def test_what_is_made_of_them_follows_their_number(rng: Rng) -> None:
    def step(x: Any, w: Any) -> Any:
        labels, places = weft.unique(x, return_inverse=True)
        sums = weft.zeros(labels.numel(), dtype=w.dtype).index_add(0, places, w)
        return labels, sums / labels.numel(), (sums * sums).sum()

    compiled = weft.compile(step)
    for n in (6, 9, 9, 30, 1):
        x = weft.from_numpy(rng.integers(0, 5, n))
        w = weft.from_numpy(rng.normal(size=n)).requires_grad_()
        results = []
        for function in (compiled, step):
            labels, shares, total = function(x, w)
            results.append([labels, shares.detach(), weft.autograd.grad(total + shares.sum(), w)[0]])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-12)
    assert len(compiled.entries) <= 2
