"""Convolutions, forwards and transposed, and the sums of their windows."""

from __future__ import annotations

from typing import Any

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Host, numbers
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor

Pads = list[tuple[int, int]]


def pads_of(
    x: Tensor, kernel: list[int], strides: list[int], dilations: list[int], pads: list[int] | None, auto_pad: str
) -> Pads:
    """What is added before and behind each spatial axis."""
    rank = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        padding = []
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
            whole = max((-(-int(n) // s) - 1) * s + d * (k - 1) + 1 - int(n), 0)
            small = whole // 2
            padding.append((small, whole - small) if auto_pad == "SAME_UPPER" else (whole - small, small))
        return padding
    if pads is None or auto_pad == "VALID":
        return [(0, 0)] * rank
    return list(zip(pads[:rank], pads[rank:], strict=True))


def padded(x: Tensor, pads: Pads, value: float = 0) -> Tensor:
    """With a value around the spatial axes."""
    flat = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def _conv(rank: int) -> Any:
    if rank > 3:
        raise Unsupported(f"onnx: a convolution over {rank} axes; weft has those over 1, 2 and 3")
    return (F.conv1d, F.conv2d, F.conv3d)[rank - 1]


@operator("Conv")
def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:
    rank = weight.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    around = pads_of(x, list(weight.shape[2:]), strides, dilations, pads, auto_pad)
    if all(a == b for a, b in around):
        return _conv(rank)(x, weight, bias, strides, [a for a, _ in around], dilations, group)  # type: ignore[no-any-return]
    return _conv(rank)(padded(x, around), weight, bias, strides, 0, dilations, group)  # type: ignore[no-any-return]


@symbolic("aten::conv1d", "aten::conv2d", "aten::conv3d")
def write_conv(
    g: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Any:
    rank = g.ndim(weight) - 2
    around = g.each(padding, rank)
    return _of_batch(
        g, "Conv", x, weight, bias, strides=g.each(stride, rank), pads=[*around, *around],
        dilations=g.each(dilation, rank), group=g.known(groups),
    )  # fmt: skip


def _of_batch(g: Any, name: str, x: Any, weight: Any, bias: Any, **attributes: Any) -> Any:
    """A node that wants a batch; of one without it, as of a batch of one."""
    if g.ndim(x) == g.ndim(weight):
        return g.op(name, x, weight, bias, **attributes)
    return g.op("Squeeze", g.op(name, g.op("Unsqueeze", x, g.ints([0])), weight, bias, **attributes), g.ints([0]))


@symbolic("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding")
def write_conv_named(
    g: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Any:
    rank = g.ndim(weight) - 2
    mode = "VALID" if g.known(padding) == "valid" else "SAME_UPPER"
    return _of_batch(
        g, "Conv", x, weight, bias, strides=g.each(stride, rank), auto_pad=mode, dilations=g.each(dilation, rank),
        group=g.known(groups),
    )  # fmt: skip


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None, output_shape: list[int] | None = None, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = weight.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    spans = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    whole = [s * (n - 1) + e + span for n, s, e, span in zip(x.shape[2:], strides, extra, spans, strict=True)]
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = output_shape[-rank:] if output_shape is not None else [
            n * s for n, s in zip(x.shape[2:], strides, strict=True)
        ]
        around = []
        for has, want in zip(whole, wanted, strict=True):
            total = max(int(has - want), 0)
            small, large = total // 2, total - total // 2
            around.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    else:
        around = pads_of(x, list(weight.shape[2:]), strides, dilations, pads, "NOTSET")
        wanted = [n - a - b for n, (a, b) in zip(whole, around, strict=True)]
    output = function(x, weight, None, strides, 0, 0, group, dilations)
    output = padded(output, [(0, w + a - h) for w, (a, _), h in zip(wanted, around, output.shape[2:], strict=True)])
    for axis, ((before, _), want) in enumerate(zip(around, wanted, strict=True)):
        output = output.narrow(axis + 2, before, want)
    return output if bias is None else output + bias.reshape([1, -1] + [1] * rank)


@symbolic("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d")
def write_conv_transpose(
    g: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any
) -> Any:
    rank = g.ndim(weight) - 2
    around = g.each(padding, rank)
    return _of_batch(
        g, "ConvTranspose", x, weight, bias, strides=g.each(stride, rank), pads=[*around, *around],
        dilations=g.each(dilation, rank), output_padding=g.each(output_padding, rank), group=g.known(groups),
    )  # fmt: skip


@operator("ConvInteger")
def conv_integer(
    x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:
    """Sums of products of bytes: float64 holds them exactly."""
    a = x.to(weft.float64) - (0 if x_zero is None else x_zero.to(weft.float64))
    b = weight.to(weft.float64)
    if w_zero is not None:
        zero = w_zero.to(weft.float64)
        b = b - (zero.reshape([-1] + [1] * (weight.ndim - 1)) if zero.ndim else zero)
    sums = conv(a, b, None, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return sums.to(weft.int32)


@operator("Col2Im")
def col2im(
    x: Tensor, image_shape: Host, block_shape: Host, *, dilations: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:
    image = [int(n) for n in numbers(image_shape, "image_shape")]
    block = [int(n) for n in numbers(block_shape, "block_shape")]
    rank = len(image)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    around = [(0, 0)] * rank if pads is None else list(zip(pads[:rank], pads[rank:], strict=True))
    whole = [n + a + b for n, (a, b) in zip(image, around, strict=True)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(whole, dilations, block, strides, strict=True)]
    batch, channels = x.shape[0], x.shape[1] // _product(block)
    places = weft.zeros((1,), dtype=weft.int64)
    for i in range(rank):  # the place in the flattened image of each element of each window
        offsets = weft.arange(block[i]) * dilations[i]
        starts = weft.arange(counts[i]) * strides[i]
        steps = offsets.reshape([-1 if j == i else 1 for j in range(rank)] + [1] * rank) + starts.reshape(
            [1] * rank + [-1 if j == i else 1 for j in range(rank)]
        )
        places = places * whole[i] + steps
    flat = weft.broadcast_to(places, [*block, *counts]).reshape(-1)
    summed = weft.zeros((batch, channels, _product(whole)), dtype=x.dtype)
    summed = weft.index_add(summed, 2, flat, x.reshape((batch, channels, -1)))
    folded = summed.reshape((batch, channels, *whole))
    for i, ((before, _), n) in enumerate(zip(around, image, strict=True)):
        folded = folded.narrow(i + 2, before, n)
    return folded


def _product(numbers: list[int]) -> int:
    product = 1
    for n in numbers:
        product *= n
    return product


@operator("DeformConv")
def deform_conv(
    x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, *,
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None, offset_group: int = 1,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:
    rows, columns = weight.shape[2:]
    strides, dilations = strides or [1, 1], dilations or [1, 1]
    before = [0, 0] if pads is None else pads[:2]
    batch, channels, height, width = x.shape
    out_h, out_w = offset.shape[2:]
    moves = offset.reshape((batch, offset_group, rows, columns, 2, out_h, out_w))

    def base(axis: int, kernel: int, count: int) -> Tensor:
        steps = weft.arange(kernel) * dilations[axis] - before[axis]
        positions = steps[:, None] + (weft.arange(count) * strides[axis])[None, :]
        return positions.to(x.dtype)

    ys = base(0, rows, out_h)[None, None, :, None, :, None] + moves[:, :, :, :, 0]
    xs = base(1, columns, out_w)[None, None, None, :, None, :] + moves[:, :, :, :, 1]
    xs, ys = xs.to(weft.float64), ys.to(weft.float64)  # places and back: float32 would lose what lies on an element
    grid = weft.stack([(xs * 2 + 1) / width - 1, (ys * 2 + 1) / height - 1], -1)
    grid = grid.reshape((batch * offset_group, rows * columns, out_h * out_w, 2))
    groups = x.reshape((batch * offset_group, channels // offset_group, height, width))
    sampled = F.grid_sample(groups.to(weft.float64), grid, "bilinear", "zeros", False).to(x.dtype)
    shape = (batch, offset_group, channels // offset_group, rows * columns, out_h, out_w)
    sampled = sampled.reshape(shape)
    if mask is not None:
        sampled = sampled * mask.reshape((batch, offset_group, 1, rows * columns, out_h, out_w))
    windows = sampled.reshape((batch, group, channels // group * rows * columns, out_h * out_w))
    kernels = weight.reshape((1, group, weight.shape[0] // group, -1))
    result = weft.matmul(kernels, windows).reshape((batch, weight.shape[0], out_h, out_w))
    return result if bias is None else result + bias.reshape((1, -1, 1, 1))
