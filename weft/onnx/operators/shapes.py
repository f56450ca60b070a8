"""Operators that move elements, and those that ask for sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Either, Host, Known, number, numbers, sizes
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
    found = np.empty((), object)
    found[()] = math.prod(dims_of(data))
    return Known(found if type(found[()]) is not int else np.array(found[()], np.int64), dt.int64)


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
        found: Tensor = x[(slice(None),) * axis + (slice(start, end, step),)]
        return found
    places = range(*slice(start, end, step).indices(int(x.shape[axis])))
    return weft.index_select(x, axis, weft.arange(places.start, max(places.stop, -1), step, dtype=weft.int64))


@operator("Expand", on_host=lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(map(int, shape)))))
def expand(x: Tensor, shape: Host) -> Tensor:
    wanted = numbers(shape, "the shape of Expand")
    rank = max(x.ndim, len(wanted))
    mine = [1] * (rank - x.ndim) + list(x.shape)
    wanted = [1] * (rank - len(wanted)) + wanted
    return weft.broadcast_to(x, [m if type(w) is int and w == 1 else w for m, w in zip(mine, wanted, strict=True)])


@operator("Tile", on_host=lambda x, repeats: np.tile(x, tuple(map(int, repeats))))
def tile(x: Tensor, repeats: Host) -> Tensor:
    return x.repeat(*numbers(repeats, "the repeats of Tile"))


# ---- padding
@operator("Pad")
def pad(
    data: Tensor, pads: Host = None, constant_value: Host = None, axes: Host = None, *, mode: str = "constant",
    pads_: list[int] | None = None, value: float = 0.0,
) -> Tensor:
    amounts = pads_ if pads is None else numbers(pads, "the pads of Pad")
    assert amounts is not None
    named = range(data.ndim) if axes is None else [int(a) % data.ndim for a in numbers(axes, "axes")]
    count = len(named)
    pairs = {a: (amounts[i], amounts[count + i]) for i, a in enumerate(named)}
    if mode == "constant":
        fill = value if constant_value is None else number(constant_value, "the value of Pad")
        flat = [n for axis in range(data.ndim - 1, -1, -1) for n in pairs.get(axis, (0, 0))]
        return F.pad(data, flat, value=fill)
    for axis, (before, after) in pairs.items():
        if type(before) is not int or type(after) is not int or before or after:
            data = _padded(data, axis, before, after, mode)
    return data


def _padded(x: Tensor, axis: int, before: Any, after: Any, mode: str) -> Tensor:
    """With elements of its own around: the nearest, the mirrored ones, or those of the other end."""
    n = x.shape[axis]
    places = weft.arange(n + before + after) - before
    if mode == "edge":
        places = weft.clamp(places, 0, n - 1)
    elif mode == "wrap":
        places = weft.remainder(places, n)
    elif mode == "reflect":
        period = 2 * (n - 1)
        places = weft.remainder(places, period)
        places = weft.where(places < n, places, period - places)
    else:
        raise Unsupported(f"onnx: Pad has no mode {mode!r}")
    return weft.index_select(x, axis, places)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    b, c, h, w = x.shape
    n = blocksize
    if mode == "CRD":
        parts = x.reshape((b, c // (n * n), n, n, h, w)).permute([0, 1, 4, 2, 5, 3])
    else:
        parts = x.reshape((b, n, n, c // (n * n), h, w)).permute([0, 3, 4, 1, 5, 2])
    return parts.reshape((b, c // (n * n), h * n, w * n))


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    b, c, h, w = x.shape
    n = blocksize
    parts = x.reshape((b, c, h // n, n, w // n, n))
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return parts.permute(order).reshape((b, c * n * n, h // n, w // n))


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    by_batch = x.movedim((batch_axis, time_axis), (0, 1))
    steps = weft.arange(by_batch.shape[1])[None, :]
    lengths = sequence_lens[:, None]
    places = weft.where(steps < lengths, lengths - 1 - steps, steps)
    found = by_batch[weft.arange(by_batch.shape[0])[:, None], places]
    return found.movedim((0, 1), (batch_axis, time_axis))


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
    return g.op("Transpose", x, perm=[d % g.ndim(x) for d in g.known(order)])


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
    found = g.known(dim)
    asked = range(g.ndim(x)) if found is None else found if isinstance(found, (tuple, list)) else (found,)
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
        return [g.op("Gather", x, g.numbers(i, weft.int64), axis=at) for i in range(len(parts))]
    if len(parts) == 1:
        return [x]
    if g.extent(x, at) is None and isinstance(arguments[0], int):  # the last part is what is left of a dynamic size
        g.require(base == "split", f"{base} of a dynamic size")
        rest = g.size(x, at) - arguments[0] * (len(parts) - 1)
        return list(g.op("Split", x, g.shape([*parts[:-1], rest]), axis=at, outputs=len(parts)))
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


@symbolic("aten::expand", "aten::broadcast_to", "aten::expand_copy")
def write_expand(g: Any, x: Any, shape: Any, *others: Any) -> Any:
    kept = [1 if isinstance(n, int) and n == -1 else n for n in shape]
    return g.op("Expand", x, g.shape(kept))


@symbolic("aten::expand_as")
def write_expand_as(g: Any, x: Any, other: Any) -> Any:
    return g.op("Expand", x, g.op("Shape", other))


@symbolic("aten::repeat", "aten::tile")
def write_repeat(g: Any, x: Any, repeats: Any) -> Any:
    count = len(repeats)
    if g.ndim(x) < count:
        x = g.op("Unsqueeze", x, g.ints(range(count - g.ndim(x))))
    return g.op("Tile", x, g.shape([*([1] * (g.ndim(x) - count)), *repeats]))


@symbolic("aten::flip")
def write_flip(g: Any, x: Any, dims: Any) -> Any:
    axes = [d % g.ndim(x) for d in g.known(dims)]
    ends = [-(2**63) for _ in axes]
    return g.op("Slice", x, g.ints([-1] * len(axes)), g.ints(ends), g.ints(axes), g.ints([-1] * len(axes)))


@symbolic("aten::roll")
def write_roll(g: Any, x: Any, shifts: Any, dims: Any) -> Any:
    for shift, dim in zip(g.known(shifts), g.known(dims), strict=True):
        at = g.ints([dim % g.ndim(x)])
        cut = g.ints([-shift])
        tail = g.op("Slice", x, cut, g.ints([2**63 - 1]), at) if shift else x
        head = g.op("Slice", x, g.ints([0]), cut, at)
        x = g.op("Concat", tail, head, axis=dim % g.ndim(x)) if shift else x
    return x


@symbolic("aten::constant_pad_nd", "aten::pad", "nn::pad")
def write_pad(g: Any, x: Any, pads: Any, mode: Any = "constant", value: Any = None) -> Any:
    if g.node.op.schema.base == "constant_pad_nd":
        mode, value = "constant", mode
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    name = names[g.known(mode)]
    g.require(name != "wrap" or g.opset >= 19, "pad with mode circular below opset 19")
    axes = [g.ndim(x) - 1 - i for i in range(len(pads) // 2)]
    amounts = g.shape([*pads[0::2], *pads[1::2]])
    fill = None if name != "constant" else g.like(x, g.known(value) or 0)
    if g.opset >= 18:
        return g.op("Pad", x, amounts, fill, g.ints(axes), mode=name)
    rank = g.ndim(x)
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[2 * i], pads[2 * i + 1]
    return g.op("Pad", x, g.shape([*before, *after]), fill, mode=name)


@symbolic("aten::tril", "aten::triu")
def write_tril(g: Any, x: Any, diagonal: Any) -> Any:
    return g.op("Trilu", x, g.number(diagonal), upper=int(g.node.op.schema.base == "triu"))


@operator("Trilu")
def trilu(x: Tensor, k: Host = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else number(k, "k")
    return weft.triu(x, diagonal) if upper else weft.tril(x, diagonal)


@symbolic("aten::pixel_shuffle")
def write_pixel_shuffle(g: Any, x: Any, factor: Any) -> Any:
    return g.op("DepthToSpace", x, blocksize=g.known(factor), mode="CRD")


@symbolic("aten::pixel_unshuffle")
def write_pixel_unshuffle(g: Any, x: Any, factor: Any) -> Any:
    n = g.known(factor)
    b, c, h, w = (g.size(x, i) for i in range(4))
    rows, columns = (g.number_op("Div", v, n) for v in (h, w))
    parts = g.op("Reshape", x, g.shape([b, c, rows, n, columns, n]))
    turned = g.op("Transpose", parts, perm=[0, 1, 3, 5, 2, 4])
    return g.op("Reshape", turned, g.shape([b, g.number_op("Mul", c, n * n), rows, columns]))
