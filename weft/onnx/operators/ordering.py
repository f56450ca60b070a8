"""Operators that put elements in order, count them or go along them, written by the few that ONNX has for it."""

from __future__ import annotations

from typing import Any

import weft
from weft.onnx.operators.scanning import write_scan
from weft.onnx.registry import symbolic


def _ordered(g: Any, x: Any, at: int, place: Any, keepdim: Any) -> Any:
    """The element at a place in the order along an axis, and where it is."""
    values, indices = g.op("TopK", x, g.shape([g.size(x, at)]), axis=at, largest=0, outputs=2)
    return tuple(
        g.op("Gather", v, g.op("Reshape", g.number(place), g.ints([1] if g.known(keepdim) else [])), axis=at)
        for v in (values, indices)
    )


@symbolic("aten::kthvalue")
def write_kthvalue(g: Any, x: Any, k: Any, dim: Any, keepdim: Any) -> Any:
    g.require(g.ndim(x) > 0, "kthvalue of a number")
    return _ordered(g, x, g.axis(dim, x), g.arithmetic("sub", k, 1), keepdim)


@symbolic("aten::median.dim")
def write_median(g: Any, x: Any, dim: Any, keepdim: Any) -> Any:
    g.require(g.ndim(x) > 0, "the median of a number")
    at = g.axis(dim, x)
    return _ordered(g, x, at, g.arithmetic("floordiv", g.arithmetic("sub", g.size(x, at), 1), 2), keepdim)


@symbolic("aten::_unique2")
def write_unique(g: Any, x: Any, sorted: Any, return_inverse: Any, return_counts: Any) -> Any:
    values, _, inverse, counts = g.op("Unique", x, sorted=1, outputs=4)
    return values, g.op("Reshape", inverse, g.op("Shape", x)), counts


@symbolic("aten::bincount")
def write_bincount(g: Any, x: Any, weights: Any, minlength: Any) -> Any:
    g.require(weights is None, "bincount with weights")
    least = g.constant([max(g.known(minlength) - 1, -1)], weft.int64)
    most = g.op("ReduceMax", g.op("Concat", g.cast(x, weft.int64), least, axis=0), keepdims=0)
    labels = g.op("Unsqueeze", g.steps(g.op("Add", most, g.numbers(1, weft.int64))), g.ints([1]))
    hits = g.cast(g.op("Equal", labels, g.cast(x, weft.int64)), weft.int64)
    return g.op("ReduceSum", hits, g.ints([1]), keepdims=0)


@symbolic("aten::searchsorted.Tensor", "aten::bucketize.Tensor")
def write_searchsorted(
    g: Any, a: Any, b: Any, out_int32: Any = False, right: Any = False, side: Any = None, sorter: Any = None
) -> Any:
    """How many boundaries are below each value."""
    g.require(sorter is None, "searchsorted with a sorter")
    borders, values = (b, a) if g.node.op.schema.base == "bucketize" else (a, b)
    borders, values = g.promoted((borders, values), "inputs")
    is_right = g.known(right) or side == "right"
    borders = g.op("Unsqueeze", borders, g.ints([g.ndim(borders) - 1]))
    values = g.op("Unsqueeze", values, g.ints([g.ndim(values)]))
    hits = g.cast(g.op("LessOrEqual" if is_right else "Less", borders, values), weft.int64)
    return g.result_cast(g.op("ReduceSum", hits, g.ints([-1]), keepdims=0))


def _along(g: Any, x: Any, at: int, first: Any, step: Any) -> Any:
    """What `step(row, state)` gives, row by row along an axis; the state is what it gave."""
    order = [at, *(i for i in range(g.ndim(x)) if i != at)]
    rows = g.op("Transpose", x, perm=order)
    shape = g.shape([g.size(rows, i) for i in range(1, g.ndim(rows))])
    start = g.filled(shape, first, g.dtype(x))

    def stepped(t: Any, row: Any, state: Any) -> Any:
        current = step(row, state[0])
        return (current,), current

    _, stacked = write_scan(g, stepped, (start,), rows, False)
    return g.op("Transpose", stacked, perm=[order.index(i) for i in range(g.ndim(x))])


@symbolic("aten::cumprod")
def write_cumprod(g: Any, x: Any, dim: Any, dtype: Any = None) -> Any:
    x = g.result_cast(x)
    return x if g.ndim(x) == 0 else _along(g, x, g.axis(dim, x), 1, lambda row, so_far: g.op("Mul", so_far, row))


@symbolic("aten::logcumsumexp")
def write_logcumsumexp(g: Any, x: Any, dim: Any) -> Any:
    def added(row: Any, so_far: Any) -> Any:
        far = g.op("Neg", g.op("Abs", g.op("Sub", row, so_far)))
        far = g.op("Where", g.op("Equal", row, so_far), g.like(x, 0), far)  # of infinities, too
        return g.op("Add", g.op("Max", row, so_far), g.op("Log", g.op("Add", g.op("Exp", far), g.like(x, 1))))

    return x if g.ndim(x) == 0 else _along(g, x, g.axis(dim, x), float("-inf"), added)


@symbolic("aten::cummax", "aten::cummin")
def write_cummax(g: Any, x: Any, dim: Any) -> Any:
    """The index is that of the last element so far that is the extreme."""
    g.require(g.dtype(x).is_floating_point, "running extremes of integers")
    if g.ndim(x) == 0:
        return x, g.numbers(0, weft.int64)
    at, most = g.axis(dim, x), g.node.op.schema.base == "cummax"
    least = float("-inf") if most else float("inf")
    name = "Max" if most else "Min"
    values = _along(g, x, at, least, lambda row, so_far: g.op(name, so_far, row))
    places = g.op("Reshape", g.steps(g.size(x, at)), g.ints([-1 if i == at else 1 for i in range(g.ndim(x))]))
    here = g.op("Where", g.op("Equal", x, values), places, g.numbers(-1, weft.int64))
    return values, _along(g, here, at, -1, lambda row, so_far: g.op("Max", so_far, row))
