"""Writes in eager mode go into the memory that they name: nothing of the size of the base is made, and what overlaps
is read before it is written."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "index_put": lambda x, i: x.index_put_((i,), weft.ones(())),
    "setitem": lambda x, i: x.__setitem__((slice(None), i), 3.0),
    "index_fill": lambda x, i: x.index_fill_(1, i, 2.0),
    "index_copy": lambda x, i: x.index_copy_(1, i, weft.zeros(x.shape[0], i.shape[0])),
    "scatter": lambda x, i: x.scatter_(1, i[None], 5.0),
    "scatter_add": lambda x, i: x.scatter_add_(1, i[None], weft.ones(1, i.shape[0])),
    "copy": lambda x, i: x[:, 1:3].copy_(weft.ones(2)),
    "fill": lambda x, i: x[:, ::2].fill_(1.5),
    "zero": lambda x, i: x.t()[1].zero_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_makes_nothing_of_the_size_of_its_base(name: str) -> None:
    x, index = weft.zeros(250, 1000), weft.tensor([3, 1])
    WRITES[name](x, index)  # what is made once
    tracemalloc.start()
    try:
        WRITES[name](x, index)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes / 4


def test_what_overlaps_is_read_first() -> None:
    values = np.array([3, 1, 2, 0])
    x = weft.tensor(values)
    x.index_put_((x,), x + 10)
    expected = np.empty(4, values.dtype)
    expected[values] = values + 10
    np.testing.assert_array_equal(x.numpy(), expected)
    y = weft.arange(6.0).view(2, 3)
    y[weft.tensor([1, 0])] = y
    np.testing.assert_array_equal(y.numpy(), np.arange(6.0).reshape(2, 3)[::-1])
    z = weft.arange(5.0)
    z[1:].copy_(z[:-1])
    np.testing.assert_array_equal(z.numpy(), [0, 0, 1, 2, 3])


def test_a_refused_write_changes_nothing(rng: np.random.Generator) -> None:
    before = rng.standard_normal((3, 4)).astype(np.float32)
    x = weft.tensor(before)
    version = x._version
    i = weft.tensor([2, 0])
    for write in (
        lambda: x.fill_(weft.ones(2)), lambda: x.copy_(weft.ones(1, 3, 4)), lambda: x[0].copy_(weft.ones(3)),
        lambda: x.index_put_((weft.tensor([0, 3]),), weft.ones(4)), lambda: x.index_put_((i,), weft.ones(3)),
        lambda: x.index_put_((i,), weft.ones(4, dtype=weft.float64)), lambda: x.scatter_(0, weft.tensor([[0, 7]]), 1.0),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            write()
    np.testing.assert_array_equal(x.numpy(), before)
    assert x._version == version


def test_writes_through_views_with_history(rng: np.random.Generator) -> None:
    """y = 2 x, then rows of a transposed view are scaled by w and summed up in squares: closed forms."""
    rows, columns = (int(n) for n in rng.integers(2, 6, 2))
    values, scale = rng.standard_normal((rows, columns)), rng.standard_normal(rows)
    x, w = weft.tensor(values, requires_grad=True), weft.tensor(scale, requires_grad=True)
    y = x * 2
    y.t()[1].mul_(w)
    (y * y).sum().backward()
    factor = np.ones((rows, columns))
    factor[:, 1] = scale
    np.testing.assert_allclose(x.grad.numpy(), 8 * values * factor**2, rtol=1e-12)  # type: ignore[union-attr]
    np.testing.assert_allclose(w.grad.numpy(), 8 * values[:, 1] ** 2 * scale, rtol=1e-12)  # type: ignore[union-attr]
