"""Scans run natively: eager's values bit for bit, gradients of order one and two, every dim, layout and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

SCANS: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, dim: x.cumsum(dim), "cumprod": lambda x, dim: x.cumprod(dim),
    "both": lambda x, dim: x.cumsum(dim).cumprod(0), "of a view": lambda x, dim: x.transpose(0, 2).cumsum(dim),
    "returns": lambda x, dim: x.flip(dim).cumsum(dim).flip(dim),
}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", SCANS)
def test_values_and_gradients(name: str, dim: int, rng: np.random.Generator) -> None:
    scan = SCANS[name]

    def step(x: weft.Tensor) -> Any:
        y = scan(x, dim)
        (first,) = weft.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad((first * first).sum(), x)
        return y.detach(), first.detach(), second

    compiled = weft.compile(step)
    weft.counters.reset()
    for _ in range(3):
        x = weft.from_numpy(rng.uniform(0.5, 1.5, tuple(rng.integers(2, 9, 3)))).requires_grad_()
        (y, first, second), (wanted, *gradients) = compiled(x), step(x)
        np.testing.assert_array_equal(y.numpy(), wanted.numpy())
        for g, w in zip((first, second), gradients, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-10)
    assert weft.counters.captures == 1 and weft.counters.foreign_segments == 0


@pytest.mark.parametrize("dtype", [weft.float32, weft.int64, weft.int32, weft.uint8, weft.bool, weft.bfloat16], ids=str)
def test_dtypes(dtype: weft.dtype, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.integers(0, 3, (int(rng.integers(1, 300)), int(rng.integers(1, 140))))).to(dtype)
    for scan in (lambda x: x.cumsum(0), lambda x: x.cumsum(1, dtype=weft.float64), lambda x: x.cumprod(1)):
        got, expected = weft.compile(scan)(x), scan(x)
        assert got.dtype is expected.dtype
        np.testing.assert_array_equal(got.double().numpy(), expected.double().numpy())


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.int64, weft.int8, weft.uint8, weft.bool], ids=str)
def test_extremes(dtype: weft.dtype, rng: np.random.Generator) -> None:
    """The last of equal ones, with its sign if it is a zero; NaN from the first on."""
    def step(x: weft.Tensor) -> Any:
        return *x.cummax(1), *x.cummin(0), *x.cummin(-1)

    compiled = weft.compile(step)
    weft.counters.reset()
    for dims in ((int(rng.integers(1, 20)), int(rng.integers(20, 90))), (70, 3)):
        x = np.abs(rng.standard_normal(dims)).round() if dtype is weft.uint8 else rng.standard_normal(dims).round()
        if dtype.is_floating_point:
            for value in (-0.0, np.nan, -np.inf):
                x[rng.random(dims) < 0.03] = value
        got, wanted = compiled(weft.from_numpy(x).to(dtype)), step(weft.from_numpy(x).to(dtype))
        for a, b in zip(got, wanted, strict=True):
            assert a.dtype is b.dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            np.testing.assert_array_equal(np.signbit(a.double().numpy()), np.signbit(b.double().numpy()))
    assert weft.counters.captures == 1 and weft.counters.foreign_segments == 0


def test_logarithms_of_sums(rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        y = x.logcumsumexp(1)
        (first,) = weft.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad((first * first).sum(), x)
        return y.detach(), x.logcumsumexp(0).detach(), first.detach(), second

    compiled = weft.compile(step)
    weft.counters.reset()
    for dims in ((3, 50), (9, 2), (1, 1)):
        x = weft.from_numpy(rng.standard_normal(dims) * 5).requires_grad_()
        for got, wanted in zip(compiled(x), step(x), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
    assert weft.counters.foreign_segments == 0
    far = weft.tensor([-np.inf, -np.inf, 1e308, -1e308, np.inf, 1.0, np.nan, 2.0])
    np.testing.assert_array_equal(weft.compile(lambda x: x.logcumsumexp(0))(far).numpy(), far.logcumsumexp(0).numpy())


@pytest.mark.parametrize("dims", [(0, 3), (3, 0), (1, 1), (1, 65), (65, 1)])
def test_empty_and_thin(dims: tuple[int, ...], rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(dims))
    for dim in (0, 1):
        np.testing.assert_array_equal(
            weft.compile(lambda x, dim=dim: x.cumsum(dim))(x).numpy(), np.cumsum(x.numpy(), dim)
        )


def test_gradients_through_zeros(rng: np.random.Generator) -> None:
    x = weft.tensor([2.0, 0.0, 3.0, 0.0, 4.0], dtype=weft.float64, requires_grad=True)

    def step(x: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(x.cumprod(0).sum(), x)[0]

    assert weft.compile(step)(x).tolist() == step(x).tolist() == [1.0, 2 + 6.0, 0.0, 0.0, 0.0]
