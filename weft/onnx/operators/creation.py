"""Tensors from nothing but numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.onnx.dependency import numpy_helper
from weft.onnx.dtypes import dtype_of, element_of
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import SMALL, Host, Known, constant, number, numbers
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


@operator("Constant")
def constant_(
    *, value: Any = None, value_float: float | None = None, value_floats: list[float] | None = None,
    value_int: int | None = None, value_ints: list[int] | None = None, value_string: str | None = None,
    value_strings: list[str] | None = None, sparse_value: Any = None,
) -> Known:
    if value is not None:
        return constant(numpy_helper.to_array(value))
    if value_float is not None or value_floats is not None:
        return constant(np.array(value_float if value_floats is None else value_floats, np.float32))
    if value_int is not None or value_ints is not None:
        return constant(np.array(value_int if value_ints is None else value_ints, np.int64))
    raise Unsupported("onnx: Constant: weft has no tensors of texts and no sparse ones")


@operator("ConstantOfShape")
def constant_of_shape(shape: Host, *, value: Any = None) -> Any:
    dims = numbers(shape, "the shape of ConstantOfShape")
    array = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    dtype = dt.from_numpy(array.dtype)
    if all(type(n) is int for n in dims) and np.prod(dims, dtype=object) <= SMALL and not dtype.is_floating_point:
        return Known(np.full(dims, array[0], array.dtype), dtype)
    return weft.full(dims, array[0].item(), dtype=dtype)


@symbolic("aten::full", "aten::zeros", "aten::ones", "aten::empty")
def write_full(g: Any, size: Any, *arguments: Any) -> Any:
    return g.filled(g.shape(size), _fill_of(g, arguments))


@symbolic("aten::full_like", "aten::zeros_like", "aten::ones_like", "aten::empty_like")
def write_full_like(g: Any, x: Any, *arguments: Any) -> Any:
    return g.filled(g.op("Shape", x), _fill_of(g, arguments))


@symbolic("aten::new_full", "aten::new_zeros", "aten::new_ones", "aten::new_empty")
def write_new_full(g: Any, x: Any, size: Any, *arguments: Any) -> Any:
    return g.filled(g.shape(size), _fill_of(g, arguments))


def _fill_of(g: Any, arguments: Any) -> Any:
    base = g.node.op.schema.base
    return arguments[0] if "full" in base else int("ones" in base)


@symbolic("aten::scalar_tensor")
def write_scalar_tensor(g: Any, value: Any, *others: Any) -> Any:
    return g.cast(g.number(value), g.result_dtype())


@symbolic("aten::fill.Scalar", "aten::fill.Tensor")
def write_fill(g: Any, x: Any, value: Any) -> Any:
    return g.op("Expand", g.cast(g.number(value), g.dtype(x)), g.op("Shape", x))


@symbolic("aten::zero")
def write_zero(g: Any, x: Any) -> Any:
    return g.filled(g.op("Shape", x), 0)


@operator("Range")
def range_(start: Host, limit: Host, delta: Host, *, stash_type: int = 1) -> Any:
    bounds = (start, limit, delta)
    dtype = start.dtype
    first, last, step = (number(v, "an end of Range") for v in bounds)
    if all(isinstance(v, Known) and v.folds and v.array.dtype != object for v in bounds):
        array = np.arange(first, last, step)
        if array.size <= SMALL and not dtype.is_floating_point:
            return Known(array.astype(dtype.numpy), dtype)
    if dtype.is_floating_point:
        count = max(int(np.ceil((last - first) / step)), 0)
        return (first + weft.arange(count) * step).to(dtype)
    return weft.arange(first, last, step, dtype=dtype)


@symbolic("aten::arange", "aten::arange.start_step")
def write_arange(g: Any, *arguments: Any) -> Any:
    bounds = arguments[:3] if g.node.op.schema.overload == "start_step" else (0, arguments[0], 1)
    dtype = g.result_dtype()
    wide = weft.int64 if not dtype.is_floating_point else dtype
    return g.cast(g.op("Range", *(g.cast(g.number(v), wide) for v in bounds)), dtype)


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    rows, columns = weft.arange(x.shape[0])[:, None], weft.arange(x.shape[1])[None, :]
    return (rows + k == columns).to(x.dtype if dtype is None else dtype_of(dtype))


@symbolic("aten::eye", "aten::eye.m")
def write_eye(g: Any, n: Any, *arguments: Any) -> Any:
    m = arguments[0] if g.node.op.schema.overload == "m" else n
    return g.op("EyeLike", g.filled(g.shape([n, m]), 0), dtype=element_of(g.result_dtype()))


@operator("OneHot")
def one_hot(indices: Tensor, depth: Host, values: Tensor, *, axis: int = -1) -> Tensor:
    count = number(depth, "the depth of OneHot")
    count = int(count) if isinstance(count, float) else count
    places = weft.remainder(indices.to(weft.int64), count)
    inside = (indices >= -count) & (indices < count)
    axis = axis % (indices.ndim + 1)
    steps = weft.arange(count).reshape([-1] + [1] * (indices.ndim - axis))
    hit = (places.unsqueeze(axis) == steps) & inside.unsqueeze(axis)
    return weft.where(hit, values[1], values[0])


@symbolic("aten::one_hot", "aten::one_hot_of")
def write_one_hot(g: Any, x: Any, classes: Any) -> Any:
    g.require(g.known(classes) != -1, "one_hot without num_classes")
    return g.op("OneHot", x, g.number(classes), g.ints([0, 1]), axis=-1)


@symbolic("aten::linspace")
def write_linspace(g: Any, start: Any, end: Any, steps: Any, *others: Any) -> Any:
    parameters = [g.known(v) for v in (start, end, steps)]
    dtype = g.result_dtype()
    if all(v is not None for v in parameters):
        return g.constant(np.linspace(*parameters).astype(dtype.numpy), dtype)
    g.require(dtype.is_floating_point, f"linspace of {dtype} by numbers that are computed")
    first, last, count = (g.cast(g.number(v), weft.float64) for v in (start, end, steps))
    zero, one = g.like(first, 0.0), g.like(first, 1.0)
    places = g.op("Range", zero, count, one)
    gaps = g.op("Sub", count, one)
    gap = g.op("Div", g.op("Sub", last, first), g.op("Max", gaps, one))
    begin = g.op("Add", first, g.op("Mul", places, gap))  # each half is counted from its own end
    end = g.op("Sub", last, g.op("Mul", g.op("Sub", gaps, places), gap))
    is_first = g.op("Or", g.op("Less", places, g.op("Div", count, g.like(first, 2.0))), g.op("Equal", gaps, zero))
    return g.cast(g.op("Where", is_first, begin, end), dtype)
