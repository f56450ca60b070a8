"""Pooling: extremes, means and norms of windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.nn import functional as F
from weft.onnx.operators.convolution import Pads, _conv, padded, pads_of
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Host, numbers
from weft.tensor.tensor import Tensor


def _around(
    x: Tensor, kernel: list[int], strides: list[int], dilations: list[int], pads: list[int] | None, auto_pad: str,
    ceil_mode: int,
) -> tuple[Pads, Pads]:
    """The declared padding, and what a last partial window needs besides."""
    declared = pads_of(x, kernel, strides, dilations, pads, auto_pad)
    if not ceil_mode:
        return declared, declared
    whole = []
    for n, k, s, d, (a, b) in zip(x.shape[2:], kernel, strides, dilations, declared, strict=True):
        span = d * (k - 1) + 1
        count = -(-(int(n) + a + b - span) // s) + 1
        if (count - 1) * s >= int(n) + a:  # no window starts in the padding behind
            count -= 1
        whole.append((a, b + max((count - 1) * s + span - (int(n) + a + b), 0)))
    return declared, whole


def _least(x: Tensor) -> Any:
    return -float("inf") if x.dtype.is_floating_point else int(np.iinfo(x.dtype.numpy).min)


@operator("MaxPool")
def max_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: list[int] | None = None, pads: list[int] | None = None, storage_order: int = 0,
    strides: list[int] | None = None, outputs: int,
) -> Any:
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    _, around = _around(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    whole = padded(x, around, _least(x))
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    if outputs == 1:
        return function(whole, kernel_shape, strides, 0, dilations)
    values, places = function(whole, kernel_shape, strides, 0, dilations, return_indices=True)
    return values, _whole_places(places, x, whole, around, storage_order)


def _whole_places(places: Tensor, x: Tensor, whole: Tensor, around: Pads, storage_order: int) -> Tensor:
    """Places within the padded image as places within the whole tensor without padding."""
    coordinates = []
    for n, (before, _) in reversed(list(zip(whole.shape[2:], around, strict=True))):
        coordinates.append(weft.remainder(places, n) - before)
        places = weft.div(places, n, rounding_mode="floor")
    ordered = list(zip(reversed(coordinates), x.shape[2:], strict=True))
    flat_places = weft.zeros_like(places)
    for at, n in reversed(ordered) if storage_order else ordered:
        flat_places = flat_places * n + at
    images = weft.arange(x.shape[0] * x.shape[1]).reshape([x.shape[0], x.shape[1]] + [1] * (x.ndim - 2))
    size = 1
    for n in x.shape[2:]:
        size = size * n
    return flat_places + images * size


def _window_sums(x: Tensor, kernel: list[int], strides: list[int], dilations: list[int], around: Pads) -> Tensor:
    """The sum of each window: a convolution with ones, image by image."""
    rank = len(kernel)
    images = padded(x, around).reshape([-1, 1] + [n + a + b for n, (a, b) in zip(x.shape[2:], around, strict=True)])
    ones = weft.ones([1, 1, *kernel], dtype=x.dtype)
    sums = _conv(rank)(images, ones, None, strides, 0, dilations)
    return sums.reshape((*x.shape[:2], *sums.shape[2:]))  # type: ignore[no-any-return]


@operator("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: list[int] | None = None, pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    declared, around = _around(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    one = weft.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    sums = _window_sums(x, kernel_shape, strides, dilations, around)
    if count_include_pad:
        one = padded(one, declared, 1)
        around = [(0, w - d) for (_, w), (_, d) in zip(around, declared, strict=True)]
    return sums / _window_sums(one, kernel_shape, strides, dilations, around)


@operator("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: list[int] | None = None, p: int = 2, pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    _, around = _around(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _window_sums(weft.abs(x) ** p, kernel_shape, strides, dilations, around) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return weft.mean(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return weft.amax(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return weft.sum(weft.abs(x) ** p, list(range(2, x.ndim)), keepdim=True) ** (1 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor, places: Tensor, output_shape: Host = None, *, kernel_shape: list[int], pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = len(kernel_shape)
    strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
    natural = [
        (n - 1) * s - (pads[i] + pads[rank + i]) + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    dims = [*x.shape[:2], *natural]
    size = 1
    for n in dims:
        size = size * n
    unpooled = weft.zeros((size,), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(dims)
    if output_shape is None:
        return unpooled
    wanted = numbers(output_shape, "output_shape")
    return F.pad(unpooled, [n for w, h in zip(reversed(wanted), reversed(dims), strict=True) for n in (0, w - h)])


# ---- written
def _pool(g: Any, name: str, x: Any, kernel: Any, stride: Any, padding: Any, rank: int, **attributes: Any) -> Any:
    size, around = g.each(kernel, rank), g.each(padding, rank)
    moved = g.each(stride, rank) if g.known(stride) not in (None, (), []) else size
    single = g.ndim(x) == rank + 1
    x = g.op("Unsqueeze", x, g.ints([0])) if single else x
    pooled = g.op(name, x, kernel_shape=size, strides=moved, pads=[*around, *around], **attributes)
    if isinstance(pooled, tuple):
        return tuple(g.op("Squeeze", f, g.ints([0])) for f in pooled) if single else pooled
    return g.op("Squeeze", pooled, g.ints([0])) if single else pooled


def _rank(g: Any) -> int:
    return int(g.node.op.schema.base.replace("_with_indices", "")[-2])


@symbolic("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d")
def write_avg_pool(
    g: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: Any, count_include_pad: Any, divisor: Any = None
) -> Any:
    rank, divisor = _rank(g), g.known(divisor)
    g.require(divisor is None or not g.known(ceil_mode), "average pooling with a divisor and ceil_mode")
    means = _pool(
        g, "AveragePool", x, kernel, stride, padding, rank, ceil_mode=int(g.known(ceil_mode)),
        count_include_pad=int(divisor is not None or g.known(count_include_pad)),
    )  # fmt: skip
    return means if divisor is None else g.op("Mul", means, g.like(means, math.prod(g.each(kernel, rank)) / divisor))


@symbolic(
    *(f"{space}::max_pool{n}d" for n in (1, 2, 3) for space in ("aten", "nn")),
    *(f"aten::max_pool{n}d_with_indices" for n in (1, 2, 3)),
)
def write_max_pool(
    g: Any, x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False,
    return_indices: Any = False,
) -> Any:
    rank = _rank(g)
    asks = bool(g.known(return_indices)) or "with_indices" in g.node.op.schema.base
    pooled = _pool(
        g, "MaxPool", x, kernel, stride, padding, rank, dilations=g.each(dilation, rank),
        ceil_mode=int(g.known(ceil_mode)), outputs=2 if asks else None,
    )  # fmt: skip
    if not asks:
        return pooled
    places = [g.extent(x, g.ndim(x) - rank + i) for i in range(rank)]
    g.require(None not in places, "places in a max pooling of dynamic sizes")
    return pooled[0], g.op("Mod", pooled[1], g.numbers(math.prod(places), weft.int64))  # ONNX counts in the whole input


@symbolic("nn::adaptive_avg_pool1d", "nn::adaptive_avg_pool2d", "nn::adaptive_avg_pool3d")
def write_adaptive_avg_pool(g: Any, x: Any, output_size: Any) -> Any:
    rank = _rank(g)
    wanted = g.each(output_size, rank)
    if all(n == 1 for n in wanted):
        single = g.ndim(x) == rank + 1
        x = g.op("Unsqueeze", x, g.ints([0])) if single else x
        pooled = g.op("GlobalAveragePool", x)
        return g.op("Squeeze", pooled, g.ints([0])) if single else pooled
    has = [g.extent(x, g.ndim(x) - rank + i) for i in range(rank)]
    fits = all(h is not None and (w is None or h % w == 0) for h, w in zip(has, wanted, strict=True))
    g.require(fits, "adaptive pooling of sizes that do not divide, or are dynamic")
    kernel = [1 if w is None else h // w for h, w in zip(has, wanted, strict=True)]
    return _pool(g, "AveragePool", x, kernel, kernel, 0, rank)
