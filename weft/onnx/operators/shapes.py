"""Operators that give elements other places without changing them, and those that ask for sizes."""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any

import numpy as np

import weft
from weft.onnx.lists import Parts
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Either, Host, Known, numbers, sizes
from weft.support.errors import ParseError, Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def dims_of(x: Either) -> tuple[Any, ...]:
    """Sizes; symbols while a program is captured."""
    return tuple(x.array.shape) if isinstance(x, Known) else tuple(x.shape)


@operator("Shape")
def shape(data: Either, *, start: int = 0, end: int | None = None) -> Known:
    return sizes(dims_of(data)[slice(start, end)])


@operator("Size")
def size(data: Either) -> Known:
    return Known(math.prod(dims_of(data)), dt.int64)


def _reshaped(data: Any, shape: Any, *, allowzero: int = 0) -> Any:
    wanted = [int(n) if type(n) is np.int64 else n for n in shape]
    return data.reshape([data.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(wanted)])


@operator("Reshape", on_host=_reshaped)
def reshape(data: Tensor, shape: Host, *, allowzero: int = 0) -> Tensor:
    wanted = numbers(shape, "the shape of Reshape")
    kept = [data.shape[i] if type(n) is int and n == 0 and not allowzero else n for i, n in enumerate(wanted)]
    if any(type(n) is int and n == -1 for n in kept) and 0 in [n for n in kept if type(n) is int]:
        others = math.prod(n for n in kept if not (type(n) is int and n == -1))
        kept = [(0 if others == 0 else n) if type(n) is int and n == -1 else n for n in kept]
    return data.reshape(kept)


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose", on_host=lambda x, perm=None: np.transpose(x, perm))
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return x.permute(perm if perm is not None else list(range(x.ndim - 1, -1, -1)))


def _squeezed(data: Any, axes: Any = None, *, axes_: Any = None) -> Any:
    named = axes_ if axes is None else [int(a) for a in axes.reshape(-1)]
    return np.squeeze(data, None if named is None else tuple(named))


@operator("Squeeze", on_host=_squeezed)
def squeeze(data: Tensor, axes: Host = None, *, axes_: list[int] | None = None) -> Tensor:
    named = axes_ if axes is None else [int(a) for a in numbers(axes, "axes")]
    if named is None:
        return weft.squeeze(data)
    wrong = [a for a in named if type(data.shape[a]) is int and data.shape[a] != 1]
    if wrong:
        raise Unsupported(f"onnx: Squeeze of axis {wrong[0]}, whose size is {data.shape[wrong[0]]} and not 1")
    return weft.squeeze(data, tuple(named))


def _unsqueezed(data: Any, axes: Any = None, *, axes_: Any = None) -> Any:
    return np.expand_dims(data, tuple(axes_ if axes is None else (int(a) for a in axes.reshape(-1))))


@operator("Unsqueeze", on_host=_unsqueezed)
def unsqueeze(data: Tensor, axes: Host = None, *, axes_: list[int] | None = None) -> Tensor:
    named = axes_ if axes is None else [int(a) for a in numbers(axes, "axes")]
    rank = data.ndim + len(named or ())
    for axis in sorted(a % rank for a in named or ()):
        data = data.unsqueeze(axis)
    return data


@operator("Concat", on_host=lambda *arrays, axis: np.concatenate(arrays, axis))
def concat(*inputs: Tensor, axis: int) -> Tensor:
    return weft.cat(list(inputs), axis)


@operator("Split")
def split(
    data: Tensor, split: Host = None, *, axis: int = 0, split_: list[int] | None = None,
    num_outputs: int | None = None, outputs: int,
) -> Any:
    parts = split_ if split is None else [int(n) for n in numbers(split, "split")]
    if parts is None:
        count = num_outputs or outputs
        width = -(-data.shape[axis] // count)
        parts = [width] * (count - 1)
        parts.append(data.shape[axis] - width * (count - 1))
    return tuple(weft.split(data, parts, axis))


def _on_host_slice(data: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None, **old: Any) -> Any:
    named = range(len(starts)) if axes is None else axes
    index: list[Any] = [slice(None)] * data.ndim
    for i, axis in enumerate(named):
        index[int(axis)] = slice(int(starts[i]), int(ends[i]), 1 if steps is None else int(steps[i]))
    return data[tuple(index)]


@operator("Slice", on_host=_on_host_slice)
def slice_(
    data: Tensor, starts: Host = None, ends: Host = None, axes: Host = None, steps: Host = None, *,
    starts_: list[int] | None = None, ends_: list[int] | None = None, axes_: list[int] | None = None,
) -> Tensor:
    first = starts_ if starts is None else numbers(starts, "the starts of Slice")
    last = ends_ if ends is None else numbers(ends, "the ends of Slice")
    if first is None or last is None:
        raise ParseError("onnx: Slice without starts or ends")
    named = axes_ if axes is None else numbers(axes, "axes")
    named = list(range(len(first))) if named is None else named
    by = [1] * len(first) if steps is None else numbers(steps, "steps")
    for axis, start, end, step in zip(named, first, last, by, strict=True):
        data = _sliced(data, int(axis) % data.ndim, start, end, step)
    return data


def _sliced(x: Tensor, axis: int, start: Any, end: Any, step: int) -> Tensor:
    if step > 0:
        part: Tensor = x[(slice(None),) * axis + (slice(start, end, step),)]
        return part
    places = range(*slice(start, end, step).indices(int(x.shape[axis])))
    return weft.index_select(x, axis, weft.arange(places.start, max(places.stop, -1), step, dtype=weft.int64))


# ---- written
@symbolic("aten::size.int")
def write_size(g: Any, x: Any, dim: Any) -> Any:
    return g.size(x, g.axis(dim, x))


@symbolic("aten::size")
def write_sizes(g: Any, x: Any) -> Any:
    return [g.size(x, i) for i in range(g.ndim(x))]


@symbolic("aten::numel")
def write_numel(g: Any, x: Any) -> Any:
    return g.product([g.size(x, i) for i in range(g.ndim(x))])


@symbolic("prim::len")
def write_len(g: Any, x: Any) -> Any:
    return g.size(x, 0)


@symbolic("aten::item")
def write_item(g: Any, x: Any) -> Any:
    dtype = g.dtype(x)
    wide = dtype if dtype is weft.bool else weft.float64 if dtype.is_floating_point else weft.int64
    return g.as_number(g.cast(g.op("Reshape", x, g.ints([])), wide))


@symbolic("aten::dim")
def write_dim(g: Any, x: Any) -> Any:
    return g.ndim(x)


@symbolic("aten::reshape", "aten::view", "aten::_unsafe_view", "aten::view_copy", "aten::reshape_copy")
def write_reshape(g: Any, x: Any, shape: Any) -> Any:
    # in ONNX a size of 0 says: keep; only with allowzero it says: none
    zero = any(n == 0 for n in shape if isinstance(n, int)) if isinstance(shape, (tuple, list)) else False
    return g.op("Reshape", x, g.shape(shape), **({"allowzero": 1} if zero else {}))


@symbolic("aten::view_as", "aten::reshape_as")
def write_view_as(g: Any, x: Any, other: Any) -> Any:
    return g.op("Reshape", x, g.op("Shape", other))


@symbolic("aten::flatten.using_ints")
def write_flatten(g: Any, x: Any, start: Any, end: Any) -> Any:
    if g.ndim(x) == 0:
        return g.op("Reshape", x, g.ints([1]))
    first, last = g.axis(start, x), g.axis(end, x)
    if first == 1 and last == g.ndim(x) - 1:
        return g.op("Flatten", x, axis=1)
    kept = [g.size(x, i) for i in range(first)]
    return g.op("Reshape", x, g.shape([*kept, -1, *(g.size(x, i) for i in range(last + 1, g.ndim(x)))]))


@symbolic("aten::ravel")
def write_ravel(g: Any, x: Any) -> Any:
    return g.op("Reshape", x, g.ints([-1]))


@symbolic("aten::unflatten.int")
def write_unflatten(g: Any, x: Any, dim: Any, shape: Any) -> Any:
    at = g.axis(dim, x)
    before = [g.size(x, i) for i in range(at)]
    return g.op("Reshape", x, g.shape([*before, *shape, *(g.size(x, i) for i in range(at + 1, g.ndim(x)))]))


@symbolic("aten::permute", "aten::permute_copy")
def write_permute(g: Any, x: Any, order: Any) -> Any:
    return g.op("Transpose", x, perm=[d % g.ndim(x) for d in g.known(order)]) if g.ndim(x) else x


@symbolic("aten::transpose.int", "aten::swapaxes", "aten::swapdims", "aten::transpose_copy.int")
def write_transpose(g: Any, x: Any, a: Any, b: Any) -> Any:
    order = list(range(g.ndim(x)))
    i, j = g.axis(a, x), g.axis(b, x)
    order[i], order[j] = order[j], order[i]
    return g.op("Transpose", x, perm=order)


@symbolic("aten::t", "aten::numpy_T", "aten::t_copy")
def write_t(g: Any, x: Any) -> Any:
    return x if g.ndim(x) < 2 else g.op("Transpose", x, perm=list(range(g.ndim(x) - 1, -1, -1)))


@symbolic("aten::mT", "aten::adjoint", "aten::mH")
def write_mt(g: Any, x: Any) -> Any:
    return write_transpose(g, x, -2, -1)


@symbolic("aten::movedim.int", "aten::moveaxis.int", "aten::movedim.intlist", "aten::moveaxis.intlist")
def write_movedim(g: Any, x: Any, source: Any, destination: Any) -> Any:
    rank = g.ndim(x)
    start, end = ([d % rank for d in (v if isinstance(v, (tuple, list)) else (v,))]
                  for v in (g.known(source), g.known(destination)))  # fmt: skip
    others = iter(i for i in range(rank) if i not in start)
    return g.op("Transpose", x, perm=[start[end.index(i)] if i in end else next(others) for i in range(rank)])


@symbolic("aten::unsqueeze", "aten::unsqueeze_copy")
def write_unsqueeze(g: Any, x: Any, dim: Any) -> Any:
    return g.op("Unsqueeze", x, g.ints([g.known(dim) % (g.ndim(x) + 1)]))


@symbolic("aten::squeeze.dim", "aten::squeeze.dims", "aten::squeeze", "aten::squeeze_copy.dim")
def write_squeeze(g: Any, x: Any, dim: Any = None) -> Any:
    dims = g.known(dim)
    asked = range(g.ndim(x)) if dims is None else dims if isinstance(dims, (tuple, list)) else (dims,)
    axes = [a % max(g.ndim(x), 1) for a in asked if g.ndim(x)]
    gone = [a for a in axes if g.extent(x, a) == 1]
    return g.op("Squeeze", x, g.ints(gone)) if gone else x


@symbolic("aten::cat", "aten::concat", "aten::concatenate")
def write_cat(g: Any, tensors: Any, dim: Any) -> Any:
    parts = g.promoted([t for t in g.parts(tensors) if g.ndim(t) != 1 or g.extent(t, 0) != 0 or len(tensors) == 1])
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=g.axis(dim, parts[0]))


@symbolic("aten::stack")
def write_stack(g: Any, tensors: Any, dim: Any) -> Any:
    parts = g.promoted(g.parts(tensors))
    at = g.known(dim) % (g.ndim(parts[0]) + 1)
    return g.op("Concat", *[g.op("Unsqueeze", p, g.ints([at])) for p in parts], axis=at)


@symbolic("aten::split.Tensor", "aten::chunk", "aten::split.sizes", "aten::split_with_sizes", "aten::unbind.int")
def write_split(g: Any, x: Any, *arguments: Any) -> Any:
    """By what the example's parts are: a list of tensors is known by their number."""
    base = g.node.op.schema.base
    dim = arguments[-1]
    at = g.axis(dim, x)
    parts = g.parts_of_result(at)
    if base == "unbind":
        g.require(g.extent(x, at) is not None, "unbind of a dynamic size: the number of tensors hangs on it")
        return [g.op("Gather", x, g.numbers(i, weft.int64), axis=at) for i in range(len(parts))]
    if g.extent(x, at) is None and isinstance(arguments[0], int):
        size, count = g.size(x, at), len(parts)
        width = arguments[0] if base == "split" else g.arithmetic("max", 1, (size + arguments[0] - 1) // arguments[0])
        sizes = [g.arithmetic("min", width, size - width * i) for i in range(count)]
        if count > 1:
            sizes = [g.arithmetic("max", 1, s) for s in sizes]
        # their sum is the axis's size only where there are as many parts, and else Reshape raises
        fits = [0] * at + [reduce(partial(g.arithmetic, "add"), sizes)] + [0] * (g.ndim(x) - at - 1)
        checked = g.op("Reshape", x, g.shape(fits))
        split = g.op("Split", checked, g.shape(sizes), axis=at, outputs=count) if count > 1 else [checked]
        return Parts(split, g.arithmetic("max", 1, (size + width - 1) // width))
    if len(parts) == 1:
        return [x]
    return list(g.op("Split", x, g.ints(parts), axis=at, outputs=len(parts)))


@symbolic("aten::select.int", "aten::select_copy.int")
def write_select(g: Any, x: Any, dim: Any, index: Any) -> Any:
    return g.op("Gather", x, g.number(index), axis=g.axis(dim, x))


@symbolic("aten::slice.Tensor", "aten::slice_copy.Tensor")
def write_slice(g: Any, x: Any, dim: Any, start: Any, end: Any, step: Any) -> Any:
    first, last = 0 if start is None else start, 2**63 - 1 if end is None else end
    if g.known(first) == 0 and g.known(last) == 2**63 - 1 and g.known(step) == 1:
        return x
    return g.op("Slice", x, g.shape([first]), g.shape([last]), g.ints([g.axis(dim, x)]), g.shape([step]))


@symbolic("aten::narrow")
def write_narrow(g: Any, x: Any, dim: Any, start: Any, length: Any) -> Any:
    end = g.number_op("Add", start, length)
    return write_slice(g, x, dim, start, end, 1)
