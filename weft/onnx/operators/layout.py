"""Operators that repeat, pad, turn and rearrange elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Host, number, numbers
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor


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
    reversed_rows = by_batch[weft.arange(by_batch.shape[0])[:, None], places]
    return reversed_rows.movedim((0, 1), (batch_axis, time_axis))


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


@symbolic("aten::copy")
def write_copy(g: Any, x: Any, source: Any, *others: Any) -> Any:
    return g.op("Expand", g.cast(source, g.dtype(x)), g.op("Shape", x))


@symbolic("aten::diagonal")
def write_diagonal(g: Any, x: Any, offset: Any, first: Any, second: Any) -> Any:
    """The elements of every matrix in a row, of which each rows + 1st is on the diagonal."""
    a, b, k = g.axis(first, x), g.axis(second, x), g.known(offset)
    rows, columns = g.size(x, a), g.size(x, b)
    down, right = max(-k, 0), max(k, 0)
    count = g.arithmetic("max", g.arithmetic("min", rows - down, columns - right), 0)
    others = [i for i in range(g.ndim(x)) if i not in (a, b)]
    flat = g.op("Transpose", x, perm=[*others, a, b])
    flat = g.op("Reshape", flat, g.shape([*(g.size(x, i) for i in others), rows * columns]))
    steps = g.op("Mul", g.steps(count), g.number(columns + 1))
    return g.op("Gather", flat, g.op("Add", steps, g.number(columns * down + right)), axis=len(others))


@symbolic("aten::diag")
def write_diag(g: Any, x: Any, diagonal: Any) -> Any:
    if g.ndim(x) == 2:
        return write_diagonal(g, x, diagonal, 0, 1)
    g.require(g.known(diagonal) == 0, "a vector beside the diagonal")
    steps = g.steps(g.size(x, 0))
    on = g.op("Equal", g.op("Unsqueeze", steps, g.ints([1])), steps)
    return g.op("Where", on, x, g.like(x, 0))


@symbolic("aten::unfold")
def write_unfold(g: Any, x: Any, dim: Any, size: Any, step: Any) -> Any:
    at, width, by = g.axis(dim, x), g.known(size), g.known(step)
    count = g.arithmetic("floordiv", g.size(x, at) - width, by) + 1
    starts = g.op("Mul", g.steps(count), g.numbers(by, weft.int64))
    places = g.op("Add", g.op("Unsqueeze", starts, g.ints([1])), g.steps(width))
    windows = g.op("Gather", x, places, axis=at)
    return g.op("Transpose", windows, perm=[i for i in range(g.ndim(x) + 1) if i != at + 1] + [at + 1])
