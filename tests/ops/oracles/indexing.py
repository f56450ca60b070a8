"""Elements by position and by mask: loops over the places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.oracles.table import given, given_floats
from weft.catalogue.samples import F, I, case

Array = Any
REDUCERS: dict[str, Callable[..., Any]] = {
    "sum": np.add, "add": np.add, "prod": np.multiply, "multiply": np.multiply, "amax": np.maximum, "amin": np.minimum,
    "mean": np.add,
}


def place(at: tuple[int, ...], dim: int, i: Any) -> tuple[int, ...]:
    """The place `at` with another coordinate along dim."""
    return (*at[:dim], int(i), *at[dim + 1:]) if at else ()


def gather(x: Array, dim: int, index: Array, *_: Any) -> Array:
    out = np.zeros(index.shape, x.dtype)
    for at in np.ndindex(index.shape):
        out[at] = x[place(at, dim % max(x.ndim, 1), index[at])]
    return out


def scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None = None, include_self: bool = True) -> Array:
    out, counts = np.array(x), np.ones(x.shape, int) if include_self else np.zeros(x.shape, int)
    for at in np.ndindex(index.shape):
        to, value = (
            place(at, dim % max(x.ndim, 1), index[at]), src[at] if isinstance(src, np.ndarray) and src.ndim else src
        )
        out[to] = value if reduce is None or not counts[to] else REDUCERS[reduce](out[to], value)
        counts[to] += 1
    if reduce == "mean":
        means = out / np.maximum(counts, 1)
        return np.floor(means).astype(x.dtype) if x.dtype.kind in "iu" else means
    return out


def slices(
    x: Array, dim: int, index: Array, source: Array, reduce: str | None = None, include_self: bool = True,
    alpha: Any = 1,
) -> Array:
    """As scatter, whole slices at once: index is a vector."""
    if not x.ndim:
        return scatter(x.reshape(1), 0, index.reshape(-1), source.reshape(-1) * alpha, reduce, include_self).reshape(())
    shape = [1] * x.ndim
    shape[dim] = index.size
    source = np.asarray(source)
    wide = np.broadcast_to(
        index.reshape(shape), tuple(index.size if i == dim % x.ndim else n for i, n in enumerate(x.shape))
    )
    return scatter(
        x, dim, wide, np.broadcast_to(source * alpha if alpha != 1 else source, wide.shape), reduce, include_self
    )


def index_put(x: Array, indices: Any, values: Array, accumulate: bool) -> Array:
    out, at = np.array(x), tuple(slice(None) if i is None else i for i in indices)
    if accumulate:
        np.add.at(out, at, values)
    else:
        out[at] = values
    return out


def put(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    out = np.array(x).reshape(-1)
    for i, value in zip(index.reshape(-1), source.reshape(-1), strict=True):
        out[i] = out[i] + value if accumulate else value
    return out.reshape(x.shape)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    out = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)))
    mask = np.broadcast_to(mask, out.shape)
    out[mask] = source.reshape(-1)[:mask.sum()]
    return out


def masked_scatter_backward(grad: Array, mask: Array, sizes: Any) -> Array:
    out = np.zeros(int(np.prod(sizes)), grad.dtype)
    picked = grad[np.broadcast_to(mask, grad.shape)]
    out[:picked.size] = picked
    return out.reshape(sizes)


def masked_select(x: Array, mask: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


def searchsorted(
    rows: Array, values: Any, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    if sorter is not None:
        rows = np.take_along_axis(rows, sorter, -1)
    values, is_right = np.asarray(values), right or side == "right"
    out = np.zeros(values.shape, np.int64)
    for at in np.ndindex(values.shape):
        row = rows if rows.ndim == 1 else rows[at[:-1]]
        out[at] = sum(bool(r <= values[at] if is_right else r < values[at]) for r in row)
    return out


def embedding_backward(grad: Array, indices: Array, rows: int, padding: int, by_frequency: bool) -> Array:
    out = np.zeros((rows, grad.shape[-1]), grad.dtype)
    for at in np.ndindex(indices.shape):
        if indices[at] != padding:
            out[indices[at]] += grad[at] / ((indices == indices[at]).sum() if by_frequency else 1)
    return out


given("gather", gather)
# Each place is written once: which of two writers wins, and has the gradient, is nobody's promise.
given("scatter.src", scatter, lambda rng: [((
    rng.uniform(-2, 2, (3, 4)), 0, rng.permuted(np.tile(np.arange(3)[:, None], 3), axis=0)[:2],
    rng.uniform(-2, 2, (2, 3)),
), {}), ((rng.uniform(
    -2, 2, (3, 4)
), -1, rng.permuted(np.tile(np.arange(4), (3, 1)), axis=1)[:, :2], rng.uniform(-2, 2, (3, 2))), {})])
given("scatter.value", scatter)
given("scatter_add", lambda x, dim, index, src: scatter(x, dim, index, src, "sum"))
given_floats(
    "scatter.reduce", scatter, case(F(3, 4), 0, I(2, 4, high=3), F(2, 4), reduce="add"),
    case(F(3, 4), 1, I(3, 2, high=4), F(3, 2), reduce="multiply"),
)
given_floats(
    "scatter.value_reduce", scatter, case(F(3, 4), 0, I(2, 4, high=3), 1.5, reduce="add"),
    case(F(3, 4), 1, I(3, 2, high=4), 0.5, reduce="multiply"),
)
given("scatter_reduce.two", scatter)
given("index_add", lambda x, dim, index, source, alpha: slices(x, dim, index, source, "sum", alpha=alpha))
given("index_copy index_fill.int_Scalar index_fill.int_Tensor", slices)
given("index_reduce", slices)
given("index_put", index_put)
given("put", put)
given("take", lambda x, index: x.reshape(-1)[index], case(F(3, 4), I(2, 3, high=12)), case(F(5), I(high=5)))
given("masked_scatter", masked_scatter)
given("masked_scatter_backward", masked_scatter_backward)
given("masked_select", masked_select)
given("argwhere", np.argwhere)
given(
    "nonzero.as_tuple", lambda x, as_tuple: np.nonzero(x) if as_tuple else np.argwhere(x), case(F(3, 4), as_tuple=True),
    case(F(5), as_tuple=True),
)
given("nonzero_numpy", np.nonzero)
given(
    "repeat_interleave.Tensor", lambda repeats, *_: np.repeat(np.arange(len(repeats)), repeats), case(I(5, high=4)),
    case(I(1, high=3)),
)
given_floats("searchsorted.Tensor", searchsorted, lambda rng: [
    ((np.sort(rng.uniform(-2, 2, 6)), rng.uniform(-2, 2, (2, 3))), {}),
    ((np.sort(rng.uniform(-2, 2, (2, 5)), -1), rng.uniform(-2, 2, (2, 3))), {"right": True}),
])
given_floats("searchsorted.Scalar", searchsorted, lambda rng: [
    ((np.sort(rng.uniform(-2, 2, 6)), 0.3), {}), ((np.array([-1.0, 0.5, 0.5, 1.0]), 0.5), {"side": "right"})
])
given_floats(
    "bucketize.Tensor", lambda x, rows, out_int32, right: searchsorted(rows, x, out_int32, right), lambda rng: [
        ((rng.uniform(-2, 2, (2, 3)), np.sort(rng.uniform(-2, 2, 6))), {}),
        ((np.array([0.5, 1.0]), np.array([0.0, 0.5, 0.5, 1.0])), {"right": True}),
    ],
)
given_floats(
    "bucketize.Scalar", lambda x, rows, out_int32, right: searchsorted(rows, x, out_int32, right),
    lambda rng: [((0.3, np.sort(rng.uniform(-2, 2, 6))), {}), ((0.5, np.array([0.0, 0.5, 0.5, 1.0])), {"right": True})],
)
given(
    "one_hot", lambda x, n: (x[..., None] == np.arange(x.max() + 1 if n < 0 else n)).astype(np.int64),
    case(I(2, 3, high=4), 5), case(I(6, high=3)),
)
given("checked_index", lambda index, size: index, case(I(3, 4, high=5), 5))
given("embedding_dense_backward", embedding_backward)
