"""Sums, products, extremes and norms over axes; cumulative sums; places of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Host, array_of, number, numbers
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def _axes(x: Tensor, input_axes: Host, attribute: list[int] | None, noop: int) -> list[int] | None:
    """The axes to reduce, all of them where none is named; None for none at all."""
    axes = attribute if input_axes is None else [int(a) for a in numbers(input_axes, "axes")]
    if axes:
        return [a % max(x.ndim, 1) for a in axes]
    return None if noop else list(range(x.ndim))


def _reduction(name: str, function: Callable[..., Tensor], host: Any = None) -> None:
    def run(
        data: Tensor, axes: Host = None, *, axes_: list[int] | None = None, keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        dims = _axes(data, axes, axes_, noop_with_empty_axes)
        return function(data, [] if dims is None else dims, bool(keepdims))

    def on_host(
        data: Any, axes: Any = None, *, axes_: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        named = axes_ if axes is None else [int(a) for a in axes.reshape(-1)]
        if not named and noop_with_empty_axes:
            return data
        reduced = array_of(host(data, axis=tuple(named) if named else None, keepdims=bool(keepdims)))
        return reduced if data.dtype == object else reduced.astype(data.dtype)

    operator(name, on_host=None if host is None else on_host)(run)


def _summed(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return weft.sum(x, axes, keepdim=keep, dtype=x.dtype) if axes else x


def _multiplied(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = weft.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _extreme(function: Callable[..., Tensor], largest: bool) -> Callable[..., Tensor]:
    def run(x: Tensor, axes: list[int], keep: bool) -> Tensor:
        if not axes:
            return x
        if x.dtype is weft.bool:
            return run(x.to(weft.uint8), axes, keep).to(weft.bool)
        if any(type(x.shape[a]) is int and x.shape[a] == 0 for a in axes):
            kept = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
            return weft.full(kept, _end(x.dtype, not largest), dtype=x.dtype)
        return function(x, axes, keepdim=keep)

    return run


def _end(dtype: dt.DType, largest: bool) -> Any:
    if dtype.is_floating_point:
        return float("inf") if largest else -float("inf")
    limits = np.iinfo(dtype.numpy)
    return int(limits.max if largest else limits.min)


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if any(type(x.shape[a]) is int and x.shape[a] == 0 for a in axes):
        return weft.log(_summed(x, axes, keep))
    return weft.logsumexp(x, axes, keepdim=keep) if axes else weft.log(weft.exp(x))


_reduction("ReduceSum", _summed, np.sum)
_reduction("ReduceProd", _multiplied, np.prod)
_reduction("ReduceMax", _extreme(lambda x, a, keepdim: weft.amax(x, a, keepdim=keepdim), True), np.max)
_reduction("ReduceMin", _extreme(lambda x, a, keepdim: weft.amin(x, a, keepdim=keepdim), False), np.min)
_reduction("ReduceMean", lambda x, a, k: weft.mean(x, a, keepdim=k) if a else x)
_reduction("ReduceL1", lambda x, a, k: _summed(weft.abs(x), a, k))
_reduction("ReduceL2", lambda x, a, k: weft.sqrt(_summed(x * x, a, k)).to(x.dtype))
_reduction("ReduceSumSquare", lambda x, a, k: _summed(x * x, a, k))
_reduction("ReduceLogSum", lambda x, a, k: weft.log(_summed(x, a, k)))
_reduction("ReduceLogSumExp", _log_sum_exp)


# ---- written
def _reduced(g: Any, name: str, x: Any, axes: list[int] | None, keep: bool) -> Any:
    """A reduction; axes became an input of ReduceSum with 13, of the others with 18."""
    if axes is None:
        return g.op(name, x, keepdims=int(keep))
    if name == "ReduceSum" or g.opset >= 18:
        return g.op(name, x, g.ints(axes), keepdims=int(keep))
    return g.op(name, x, axes=axes, keepdims=int(keep))


def _dims(g: Any, dim: Any, x: Any) -> list[int] | None:
    dims = g.known(dim)
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return None
    rank = max(g.ndim(x), 1)
    return [d % rank for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]


def write_reduction(onnx: str) -> Callable[..., Any]:
    """The rule of an operator `(self, dim, keepdim)`, with a dtype behind or not."""

    def rule(g: Any, x: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Any:
        return _reduced(g, onnx, g.result_cast(x), _dims(g, dim, x), bool(g.known(keepdim)))

    return rule


symbolic("aten::sum")(write_reduction("ReduceSum"))
symbolic("aten::mean")(write_reduction("ReduceMean"))
symbolic("aten::prod")(write_reduction("ReduceProd"))
symbolic("aten::amax")(write_reduction("ReduceMax"))
symbolic("aten::amin")(write_reduction("ReduceMin"))
symbolic("aten::max")(write_reduction("ReduceMax"))
symbolic("aten::min")(write_reduction("ReduceMin"))
symbolic("aten::logsumexp")(write_reduction("ReduceLogSumExp"))


@symbolic("aten::all", "aten::any")
def write_all(g: Any, x: Any, dim: Any = None, keepdim: Any = False) -> Any:
    name = "ReduceMin" if g.node.op.schema.base == "all" else "ReduceMax"
    flags = g.cast(g.cast(x, weft.bool), weft.int32)
    return g.cast(_reduced(g, name, flags, _dims(g, dim, x), bool(g.known(keepdim))), weft.bool)


def _variance(g: Any, x: Any, dim: Any, correction: Any, keepdim: Any) -> tuple[Any, Any]:
    axes, keep = _dims(g, dim, x), bool(g.known(keepdim))
    named = list(range(g.ndim(x))) if axes is None else axes
    centre = _reduced(g, "ReduceMean", x, named, True)
    gap = g.op("Sub", x, centre)
    squares = _reduced(g, "ReduceSum", g.op("Mul", gap, gap), named, keep)
    count = g.cast(g.product([g.size(x, a) for a in named]), g.dtype(x))
    less = g.known(correction)
    divisor = g.op("Sub", count, g.like(x, 1 if less is None else less))
    mean = centre if keep else g.op("Squeeze", centre, g.ints(named))
    return g.op("Div", squares, divisor), mean


@symbolic("aten::var.correction", "aten::std.correction", "aten::var_mean.correction", "aten::std_mean.correction")
def write_var(g: Any, x: Any, dim: Any, correction: Any = 1, keepdim: Any = False) -> Any:
    base = g.node.op.schema.base
    spread, mean = _variance(g, x, dim, correction, keepdim)
    spread = g.op("Sqrt", spread) if base.startswith("std") else spread
    return (spread, mean) if base.endswith("mean") else spread


@symbolic("aten::var", "aten::std", "aten::var_mean", "aten::std_mean")
def write_var_all(g: Any, x: Any, unbiased: Any = True) -> Any:
    return write_var(g, x, None, int(bool(g.known(unbiased))), False)


@symbolic("aten::var.dim", "aten::std.dim", "aten::var_mean.dim", "aten::std_mean.dim")
def write_var_dim(g: Any, x: Any, dim: Any, unbiased: Any = True, keepdim: Any = False) -> Any:
    return write_var(g, x, dim, int(bool(g.known(unbiased))), keepdim)


@symbolic("aten::linalg_vector_norm", "aten::norm")
def write_norm(g: Any, x: Any, p: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Any:
    order = g.known(p)
    order = 2 if order is None else order
    g.require(order in (1, 2), f"a norm of order {order}")
    name = "ReduceL1" if order == 1 else "ReduceL2"
    return _reduced(g, name, g.result_cast(x), _dims(g, dim, x), bool(g.known(keepdim)))


# ---- places of extremes
def _place(name: str, function: Callable[..., Tensor]) -> None:
    def run(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if not select_last_index:
            return function(data, axis, keepdim=bool(keepdims))
        indices = function(weft.flip(data, [axis]), axis, keepdim=bool(keepdims))
        return weft.rsub(indices, data.shape[axis] - 1)

    operator(name)(run)


_place("ArgMax", lambda x, axis, keepdim: weft.argmax(x, axis, keepdim=keepdim))
_place("ArgMin", lambda x, axis, keepdim: weft.argmin(x, axis, keepdim=keepdim))


@symbolic("aten::argmax", "aten::argmin")
def write_argmax(g: Any, x: Any, dim: Any = None, keepdim: Any = False) -> Any:
    name = "ArgMax" if g.node.op.schema.base == "argmax" else "ArgMin"
    if g.known(dim) is None:
        x, dim, keepdim = g.op("Reshape", x, g.ints([-1])), 0, False
    return g.op(name, x, axis=g.axis(dim, x), keepdims=int(bool(g.known(keepdim))))


@symbolic("aten::max.dim", "aten::min.dim")
def write_max_dim(g: Any, x: Any, dim: Any, keepdim: Any = False) -> Any:
    if g.ndim(x) == 0:
        return x, g.numbers(0, weft.int64)
    largest, keep = g.node.op.schema.base == "max", bool(g.known(keepdim))
    values = _reduced(g, "ReduceMax" if largest else "ReduceMin", x, [g.axis(dim, x)], keep)
    return values, g.op("ArgMax" if largest else "ArgMin", x, axis=g.axis(dim, x), keepdims=int(keep))


# ---- cumulative
def _cumulative(x: Tensor, axis: int, function: Any, exclusive: int, reverse: int, first: int) -> Tensor:
    x = weft.flip(x, [axis]) if reverse else x
    if exclusive:
        start = weft.full_like(x.narrow(axis, 0, 1), first)
        x = weft.cat([start, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    running = function(x, axis, dtype=x.dtype)
    return weft.flip(running, [axis]) if reverse else running


@operator("CumSum")
def cumsum(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _cumulative(x, number(axis, "axis"), weft.cumsum, exclusive, reverse, 0)


@operator("CumProd")
def cumprod(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _cumulative(x, number(axis, "axis"), weft.cumprod, exclusive, reverse, 1)


@symbolic("aten::cumsum")
def write_cumsum(g: Any, x: Any, dim: Any, dtype: Any = None) -> Any:
    return g.op("CumSum", g.result_cast(x), g.numbers(g.axis(dim, x), weft.int64))


__all__ = ["Unsupported", "write_reduction"]
