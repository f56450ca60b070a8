"""Orderings run natively: eager's values and places bit for bit, for every dtype, dim, size and special value;
gradients of order one and two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.codegen.orderings.records import FEW

ORDERINGS: dict[str, Callable[[weft.Tensor, int], Any]] = {
    "sort": lambda x, dim: weft.sort(x, dim),
    "descending": lambda x, dim: weft.sort(x, dim=dim, descending=True, stable=True),
    "topk": lambda x, dim: weft.topk(x, min(3, x.shape[dim]), dim),
    "lowest half": lambda x, dim: weft.topk(x, (x.shape[dim] + 1) // 2, dim, largest=False),
    "kthvalue": lambda x, dim: weft.kthvalue(x, (x.shape[dim] + 2) // 3, dim),
    "median": lambda x, dim: weft.median(x, dim),
    "nanmedian": lambda x, dim: weft.nanmedian(x, dim, keepdim=True),
    "mode": lambda x, dim: weft.mode(x, dim),
}
DTYPES = (weft.float32, weft.float64, weft.int64, weft.bfloat16)
OTHERS = (weft.int32, weft.int16, weft.int8, weft.uint8, weft.bool, weft.float16)


def all_of(x: weft.Tensor, dim: int) -> list[weft.Tensor]:
    return [part for ordering in ORDERINGS.values() for part in ordering(x, dim)]


def assert_same(got: weft.Tensor, wanted: weft.Tensor) -> None:
    assert got.dtype is wanted.dtype
    a, b = (x.float().numpy() if x.dtype is weft.bfloat16 else x.numpy() for x in (got, wanted))
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def drawn(rng: np.random.Generator, dims: tuple[int, ...], dtype: weft.dtype) -> weft.Tensor:
    """Few or many different values, and the special ones of floats."""
    if dtype in (weft.int64, weft.int32) and rng.random() < 0.5:
        limits = np.iinfo(dtype.numpy)
        return weft.from_numpy(rng.integers(limits.min, limits.max, dims, dtype.numpy, endpoint=True))
    x = rng.standard_normal(dims) * rng.choice([1, 30])
    if rng.random() < 0.6:
        x = np.round(x)
    if dtype.is_floating_point and rng.random() < 0.7:
        for value in (np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf):
            x[rng.random(dims) < 0.05] = value
    return weft.from_numpy(np.asarray(x)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_places(dtype: weft.dtype, rng: np.random.Generator) -> None:
    dim = int(rng.integers(0, 2))
    compiled = weft.compile(all_of)
    weft.counters.reset()
    few, many = int(rng.integers(4, FEW)), int(rng.integers(FEW + 1, 500))
    for dims in ((few, many), (many, few)):
        x = drawn(rng, dims, dtype)
        for got, wanted in zip(compiled(x, dim), all_of(x, dim), strict=True):
            assert_same(got, wanted)
    assert weft.counters.foreign_segments == 0


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_other_dtypes(dtype: weft.dtype, rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda x: weft.sort(x, -1, True))
    weft.counters.reset()
    for dims in ((int(rng.integers(2, 9)), FEW), (3, int(rng.integers(FEW + 1, 500)))):
        x = drawn(rng, dims, dtype)
        for got, wanted in zip(compiled(x), weft.sort(x, -1, True), strict=True):
            assert_same(got, wanted)
    assert weft.counters.foreign_segments == 0 and weft.counters.captures == 1


def test_views_ties_and_levels(rng: np.random.Generator) -> None:
    """Rows that lie anywhere; rows in which everything is equal, or in order already; rows of rows."""
    def of_view(x: weft.Tensor) -> list[weft.Tensor]:
        return all_of(x.permute(2, 0, 1)[1:], 1)

    compiled = weft.compile(of_view)
    dims = tuple(int(n) for n in rng.integers(3, 90, 3))
    for fill in (lambda n: np.zeros(n), np.arange, lambda n: -np.arange(n), lambda n: np.full(n, np.nan)):
        x = weft.from_numpy(np.asarray(fill(int(np.prod(dims))), np.float64).reshape(dims))
        for got, wanted in zip(compiled(x), of_view(x), strict=True):
            assert_same(got, wanted)


@pytest.mark.parametrize("dims", [(0, 3), (3, 0), ()])
def test_nothing_and_numbers(dims: tuple[int, ...], rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(dims))
    steps: list[Callable[[weft.Tensor], Any]] = [
        lambda x: weft.sort(x, -1), lambda x: weft.topk(x, min(x.numel(), 1), -1), lambda x: (weft.argsort(x, 0),),
    ]
    for step in steps:
        for got, wanted in zip(weft.compile(step)(x), step(x), strict=True):
            assert_same(got, wanted)


def test_a_number_of_places_that_changes(rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda x, k: weft.topk(x, k, 1))
    x = weft.from_numpy(rng.standard_normal((7, 300)))
    weft.counters.reset()
    for k in (5, 40, 299, 300, 7):
        for got, wanted in zip(compiled(x, k), weft.topk(x, k, 1), strict=True):
            assert_same(got, wanted)
    assert weft.counters.foreign_segments == 0 and weft.counters.captures <= 2


@pytest.mark.parametrize("name", ["sort", "topk", "kthvalue", "median", "mode"])
def test_gradients(name: str, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        y = ORDERINGS[name](x, 1)[0]
        (first,) = weft.autograd.grad((y**3).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad((first**2).sum(), x)
        return first.detach(), second

    compiled = weft.compile(step)
    weft.counters.reset()
    for _ in range(2):
        x = weft.from_numpy(rng.permutation(int(n := rng.integers(2, 30)) * 5).reshape(5, n) * 0.5).requires_grad_()
        for got, wanted in zip(compiled(x), step(x), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
    assert weft.counters.captures == 1 and weft.counters.foreign_segments == 0


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.int64, weft.uint8], ids=str)
def test_places_in_sorted_sequences(dtype: weft.dtype, rng: np.random.Generator) -> None:
    def step(sequence: weft.Tensor, values: weft.Tensor) -> list[weft.Tensor]:
        return [
            weft.searchsorted(sequence, values), weft.searchsorted(sequence, values, right=True, out_int32=True),
            weft.bucketize(values, sequence[0]), weft.searchsorted(sequence[1], values[1], side="right"),
        ]

    compiled = weft.compile(step)
    weft.counters.reset()
    for length, count in ((int(rng.integers(2, 50)), int(rng.integers(1, 2000))), (1, 3), (0, 4), (5, 0)):
        sequence = weft.sort(drawn(rng, (3, length), dtype), 1)[0]
        values = drawn(rng, (3, count), dtype)
        for got, wanted in zip(compiled(sequence, values), step(sequence, values), strict=True):
            assert_same(got, wanted)
    assert weft.counters.foreign_segments == 0
