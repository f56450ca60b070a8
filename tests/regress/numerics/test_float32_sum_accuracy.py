"""float32 sums and variances of many elements, over every dim: as exact as a sum in pairs, however long."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

SHAPES = {"one": (1_000_003,), "narrow": (200_009, 5), "wide": (509, 503), "image": (70, 6, 21, 17)}


def _close(value: weft.Tensor, truth: Any, scale: float = 1.0) -> None:
    """Within a few units of float32's last place."""
    np.testing.assert_allclose(value.numpy(), truth, rtol=scale * 5e-7, atol=0)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_around_ten_thousand(shape: tuple[int, ...], run: Callable[..., Any], rng: np.random.Generator) -> None:
    x = (rng.uniform(0, 1, shape) + 1e4).astype(np.float32)
    truth, t = x.astype(np.float64), weft.from_numpy(x)
    many = [(d,) for d in range(len(shape)) if shape[d] > 30]
    for dims in [*many, tuple(range(len(shape))), *([(0, 2, 3)] if len(shape) == 4 else [])]:
        total, mean, variance, deviation = (
            run(lambda v, dims=dims: (v.sum(dims), v.mean(dims), v.var(dims), v.std(dims)))(t)
        )
        _close(total, truth.sum(dims))
        _close(mean, truth.mean(dims))
        _close(variance, truth.var(dims, ddof=1), 10)
        _close(deviation, truth.std(dims, ddof=1), 10)


def test_several_sums_of_one_array(run: Callable[..., Any], rng: np.random.Generator) -> None:
    x = (rng.uniform(0, 1, (60_013, 7)) + 1e4).astype(np.float32)

    def step(v: weft.Tensor) -> tuple[weft.Tensor, ...]:
        w = v * 2
        return w, w.sum(0), w.sum(1), w.sum(), (w * 0.5).mean(0)

    truth = 2 * x.astype(np.float64)
    for value, expected in zip(run(
        step
    )(weft.from_numpy(x)), (truth, truth.sum(0), truth.sum(1), truth.sum(), x.astype(np.float64).mean(0)), strict=True):
        _close(value, expected)


def test_ones_do_not_stop_counting(run: Callable[..., Any]) -> None:
    ones = weft.ones(1, 1).expand(2**24 + 6, 1)
    assert run(lambda v: v.sum(0))(ones).tolist() == [2.0**24 + 6]
    assert run(lambda v: v.sum())(ones).item() == 2.0**24 + 6
    assert run(lambda v: v.cumsum(0)[-1])(ones).tolist() == [2.0**24 + 6]


def test_products_of_numbers_near_one(run: Callable[..., Any], rng: np.random.Generator) -> None:
    x = (1 + rng.uniform(0, 1e-4, (200_003, 3))).astype(np.float32)
    _close(run(lambda v: v.prod(0))(weft.from_numpy(x)), x.astype(np.float64).prod(0), 2)


@pytest.fixture(params=["eager", "compiled"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A function as it is, or compiled."""
    compiles: Callable[..., Any] = weft.compile
    return compiles if request.param == "compiled" else lambda f: f


def test_float64_down_many_rows(rng: np.random.Generator) -> None:
    """Compiled: what one addition after the other would round away is held beside the sum."""
    x = rng.uniform(0, 1, (1_000_003, 3)) + 1e4
    truth = [math.fsum(column) for column in x.T]
    np.testing.assert_allclose(weft.compile(lambda v: v.sum(0))(weft.from_numpy(x)).numpy(), truth, rtol=1e-15, atol=0)
    x[5, 1] = np.inf
    assert weft.compile(lambda v: v.sum(0))(weft.from_numpy(x))[1] == np.inf
