"""Writes at computed places run natively and give what eager gives: values (sums of repeats in another order),
gradients, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Draw = Callable[[np.random.Generator, int, int, int], tuple[Any, ...]]


def _f(rng: np.random.Generator, *dims: int, dtype: Any = np.float64) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(dims).astype(dtype))


def _i(rng: np.random.Generator, high: int, *dims: int, low: int = 0) -> weft.Tensor:
    return weft.from_numpy(rng.integers(low, high, dims))


def _distinct(rng: np.random.Generator, high: int) -> weft.Tensor:
    return weft.from_numpy(rng.permutation(high)[: max(1, high // 2)])


CALLS: dict[str, tuple[Callable[..., Any], Draw]] = {
    "scatter_add": (lambda x, i, v: x.scatter_add(1, i, v), lambda r, a, b, c: (
        _f(r, a, b, c), _i(r, b, a, b + 3, c), _f(r, a, b + 3, c)
    )),
    "scatter_add of a part": (
        lambda x, i, v: x.scatter_add(0, i, v), lambda r, a, b, c: (_f(r, a, b), _i(r, a, c, b - 1), _f(r, c, b - 1))
    ),
    "scatter": (lambda x, i, v: x.scatter(0, i[:1].expand(1, x.shape[1]), v), lambda r, a, b, c: (
        _f(r, a, b), _i(r, a, 1, 1), _f(r, 1, b)
    )),
    "scatter of a number": (lambda x, i: x.scatter(-1, i, 2.5), lambda r, a, b, c: (_f(r, a, b), _i(r, b, a, c))),
    "index_put": (lambda x, i, j, v: x.index_put((i, j), v), lambda r, a, b, c: (
        _f(r, a, b, c), _distinct(r, a), _i(r, b, 1), _f(r, c)
    )),
    "index_put, negative": (
        lambda x, i: x.index_put((i,), x[0] * 2, accumulate=True), lambda r, a, b, c: (_f(r, a, b), _i(r, a, c, low=-a))
    ),
    "index_put along a later dim": (
        lambda x, i, v: x.index_put((None, i), v, accumulate=True),
        lambda r, a, b, c: (_f(r, a, b, c), _i(r, b, 2, 3), _f(r, a, 2, 3, c))),
    "setitem": (
        lambda x, i, v: _set(x, (slice(None), i), v), lambda r, a, b, c: (_f(r, a, b), _distinct(r, b), _f(r, 1))
    ),
    "index_add": (
        lambda x, i, v: x.index_add(1, i, v, alpha=2), lambda r, a, b, c: (_f(r, a, b), _i(r, b, c), _f(r, a, c))
    ),
    "index_copy": (
        lambda x, i: x.index_copy(-1, i, x[:, : i.shape[0]] * 3), lambda r, a, b, c: (_f(r, a, b), _distinct(r, b))
    ),
    "index_copy of rows": (
        lambda x, i: x.index_copy(0, i, x[: i.shape[0]] * 3), lambda r, a, b, c: (_f(r, a, b), _distinct(r, a))
    ),
    "index_fill": (lambda x, i: x.index_fill(1, i, -1.0), lambda r, a, b, c: (_f(r, a, b), _i(r, b, c))),
    "by a mask": (lambda x, m: _set(x, x > 0, m[0, 0]), lambda r, a, b, c: (_f(r, a, b), _f(r, a, b))),
    "by a mask of leading dims": (
        lambda x, m: _set(x, m > 2, weft.tensor(1.5)), lambda r, a, b, c: (_f(r, a, b), _i(r, 5, a))
    ),
    "by a mask of later dims": (
        lambda x, m: _set(x, (slice(None), m > 2), 1.5), lambda r, a, b, c: (_f(r, a, b, c), _i(r, 5, b))
    ),
    "one_hot": (lambda x, i: weft.nn.functional.one_hot(i, 9) * x.sum(), lambda r, a, b, c: (_f(r, a), _i(r, 9, b, c))),
    "flip": (lambda x: x.flip(0, -1) + x.t().flip(0).t(), lambda r, a, b, c: (_f(r, a, b),)),
    "roll": (lambda x: x.roll((2, -1), (0, 1)) * x.roll(5, 1), lambda r, a, b, c: (_f(r, a, b),)),
}


def _set(x: weft.Tensor, index: Any, value: weft.Tensor) -> weft.Tensor:
    y = x * 1
    y[index] = value
    return y


@pytest.mark.parametrize("name", CALLS)
def test_natively_as_in_eager(name: str, rng: np.random.Generator) -> None:
    function, draw = CALLS[name]

    def step(*args: Any) -> Any:
        leaves = [a.detach().requires_grad_() if a.dtype.is_floating_point else a for a in args]
        y = function(*leaves)
        (y * y.detach().cos()).sum().backward()
        return y.detach(), [a.grad for a in leaves if a.dtype.is_floating_point]

    compiled = weft.compile(step)
    weft.counters.reset()
    for _ in range(3):
        args = draw(rng, *[int(n) for n in rng.integers(4, 9, 3)])
        (got, gradients), (expected, wanted) = compiled(*args), step(*args)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12, atol=1e-13)
        for g, w in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-12, atol=1e-12)
    assert weft.counters.captures <= 2 and weft.counters.foreign_segments == 0


@pytest.mark.parametrize("dtype", [weft.int64, weft.int32, weft.uint8, weft.bool, weft.float32, weft.bfloat16], ids=str)
def test_rows_of_every_dtype(dtype: weft.dtype, rng: np.random.Generator) -> None:
    x, v = (weft.from_numpy(rng.integers(0, 2, (n, 70))).to(dtype) for n in (6, 9))
    i, few = _i(rng, 6, 9), weft.from_numpy(rng.permutation(6)[:4])
    put = weft.compile(lambda x, i, v: x.index_copy(0, i, v))
    assert put(x, few, v[:4]).tolist() == x.index_copy(0, few, v[:4]).tolist()
    if dtype not in (weft.bool, weft.bfloat16):
        weft.counters.reset()
        add = weft.compile(lambda x, i, v: x.index_add(0, i, v))
        assert add(x, i, v).tolist() == x.index_add(0, i, v).tolist() and weft.counters.foreign_segments == 0


@pytest.mark.parametrize("bad", [7, -8])
def test_indices_out_of_bounds_are_refused_and_nothing_is_written(bad: int, rng: np.random.Generator) -> None:
    x, kept = _f(rng, 7, 3), weft.zeros(7, 3, dtype=weft.float64)

    def step(i: weft.Tensor) -> None:
        kept.add_(1)
        kept.index_put_((i,), x[0], accumulate=True)

    compiled = weft.compile(step)
    compiled(weft.tensor([0, -7, 6]))
    before = kept.clone()
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(weft.tensor([0, bad, 1]))
    assert weft.equal(kept, before)
    compiled(weft.tensor([2]))
    assert not weft.equal(kept, before)
