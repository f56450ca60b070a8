"""Scatter reductions and counts of numbers run natively, in eager's order; gradients of order one and two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import OutOfBounds, ShapeError


@pytest.mark.parametrize("includes", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_values_and_gradients(reduce: str, includes: bool, rng: np.random.Generator) -> None:
    dim = int(rng.integers(0, 2))

    def step(x: weft.Tensor, places: weft.Tensor, source: weft.Tensor) -> Any:
        y = x.scatter_reduce(dim, places, source, reduce, include_self=includes)
        first = weft.autograd.grad((y**2).sum(), (x, source), create_graph=True)
        second = weft.autograd.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), (x, source))
        return y.detach(), *(g.detach() for g in first), *second

    compiled = weft.compile(step)
    weft.counters.reset()
    for _ in range(2):
        dims = rng.integers(2, 70, 2)
        more = dims + (rng.integers(1, 5) * (np.arange(2) == dim))
        x, source = (weft.from_numpy(np.abs(rng.standard_normal(d)).round(1)).requires_grad_() for d in (dims, more))
        places = weft.from_numpy(rng.integers(0, dims[dim], more))
        got, wanted = compiled(x, places, source), step(x, places, source)
        np.testing.assert_array_equal(got[0].numpy(), wanted[0].numpy())
        for a, b in zip(got[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)
    assert weft.counters.foreign_segments == 0


@pytest.mark.parametrize("dtype", [weft.float32, weft.int64, weft.int32, weft.int8, weft.uint8], ids=str)
def test_dtypes(dtype: weft.dtype, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor, places: weft.Tensor, source: weft.Tensor) -> Any:
        return [x.scatter_reduce(0, places, source, r, include_self=False) for r in ("mean", "amin", "prod")]

    n, m = (int(k) for k in rng.integers(3, 200, 2))
    x, source = (weft.from_numpy(rng.integers(0, 9, k)).to(dtype) for k in (n, m))
    if dtype.is_floating_point:
        source[0] = float("nan")
    places = weft.from_numpy(rng.integers(0, n, m)).to(weft.int64)
    weft.counters.reset()
    for got, wanted in zip(weft.compile(step)(x, places, source), step(x, places, source), strict=True):
        assert got.dtype is dtype
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())
    assert weft.counters.foreign_segments == 0


def test_a_smaller_index_and_slices(rng: np.random.Generator) -> None:
    def step(x: weft.Tensor, places: weft.Tensor, source: weft.Tensor) -> Any:
        return (
            x.scatter_reduce(1, places[:2, :3], source, "amax"), x.index_reduce(0, places[:, 0], source, "mean"),
            x.t().scatter_reduce(0, places.t(), source.t(), "prod"),
        )

    compiled = weft.compile(step)
    weft.counters.reset()
    for _ in range(2):
        n = int(rng.integers(4, 30))
        x, source = (weft.from_numpy(rng.standard_normal((n, n))) for _ in range(2))
        places = weft.from_numpy(rng.integers(0, n, (n, n)))
        for got, wanted in zip(compiled(x, places, source), step(x, places, source), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
    assert weft.counters.foreign_segments == 0


def test_what_is_out_of_bounds_is_refused() -> None:
    compiled = weft.compile(lambda x, i: weft.zeros(4).scatter_reduce(0, i, x, "amax"))
    compiled(weft.ones(3), weft.tensor([0, 3, 3]))
    for wrong in (4, -1):
        with pytest.raises(OutOfBounds):
            compiled(weft.ones(3), weft.tensor([0, 3, wrong]))


@pytest.mark.parametrize("dtype", [None, weft.float32, weft.float64, weft.int32], ids=str)
def test_bincount(dtype: weft.dtype | None, rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda x, *weights: weft.bincount(x, *weights, minlength=3))
    weft.counters.reset()
    for count, bins in ((5, 7), (int(rng.integers(2000, 9000)), 10), (7, int(rng.integers(2000, 9000))), (1, 1)):
        x = weft.from_numpy(rng.integers(0, bins, count))
        weights = () if dtype is None else (weft.from_numpy(rng.standard_normal(count) * 9).to(dtype),)
        got, wanted = compiled(x, *weights), weft.bincount(x, *weights, minlength=3)
        assert got.dtype is wanted.dtype
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())
    assert weft.counters.foreign_segments == 0
    with pytest.raises(ShapeError, match="non-negative"):
        compiled(weft.tensor([1, -1]), *(w[:1].expand(2) for w in weights))
    nothing = compiled(weft.zeros(0, dtype=weft.int64), *(w[:0] for w in weights))
    np.testing.assert_array_equal(nothing.numpy(), weft.bincount(
        weft.zeros(0, dtype=weft.int64), *(w[:0] for w in weights), minlength=3
    ).numpy())
