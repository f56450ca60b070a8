"""Windows over the last dims, average pooling over them, and adaptive pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.catalogue.widening import cast, widened
from weft.ops.geometry import Geometry
from weft.ops.layout import Follows, Operand, channels_last
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim

Ints = Sequence[int]
_PLACE = ("nn.functional",)


def per_dim(name: str, value: Any, rank: int, fallback: Ints = ()) -> tuple[int, ...]:
    """A setting for each of the pooled dims: one number is for all, none is the fallback."""
    if value is None or (not isinstance(value, int) and len(value) == 0):
        return tuple(fallback)
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) not in (1, rank):
        raise ShapeError(f"{name} must either be a single int, or a tuple of {rank} ints")
    return values * rank if len(values) == 1 else values


def pooled_size(size: Dim, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Dim:
    """How many windows fit along a dim."""
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return dm.floordiv(reach, stride) + 1
    out = dm.floordiv(reach + (stride - 1), stride) + 1
    # the last window must start inside the input or the padding before it
    return out - 1 if not shape_env.less((out - 1) * stride, size + padding) else out


def check_windows(name: str, input: Any, rank: int, kernel: Ints, stride: Ints, padding: Ints) -> None:
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D input, but got input of size {dims_text(input.dims)}"
        )
    for d in input.dims[input.ndim - rank - 1 :]:
        shape_env.refuse_equal(d, 0, lambda: ShapeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {dims_text(input.dims)}"))
    if any(k <= 0 for k in kernel):
        raise ShapeError(f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
    if any(s <= 0 for s in stride):
        raise ShapeError(f"{name}: stride should not be zero")
    for p, k in zip(padding, kernel, strict=True):
        if p < 0 or 2 * p > k:
            raise ShapeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k}"
            )


def windows_of(x: Any, kernel: Ints, stride: Ints, dilation: Ints, sizes: Sequence[Dim]) -> Any:
    """The windows over the last dims of x, as one more dim that holds each window's elements."""
    rank = len(kernel)
    lead = x.ndim - rank
    for i in range(rank):
        span = (kernel[i] - 1) * dilation[i] + 1
        x = aten.unfold(x, lead + i, span, stride[i])
        x = aten.slice(x, lead + i, 0, sizes[i])
        if dilation[i] != 1:
            x = aten.slice(x, x.ndim - 1, None, None, dilation[i])
    count = 1
    for k in kernel:
        count *= k
    return aten.reshape(x, (*x.dims[: lead + rank], count))


def in_frame(
    x: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, sizes: Sequence[Dim], value: Any
) -> Any:
    """x with its padding, and as much after it as the last (rounded up) window reaches."""
    after = paddings_after(x.dims[x.ndim - len(kernel) :], kernel, stride, padding, dilation, sizes)
    pads = [p for i in reversed(range(len(kernel))) for p in (padding[i], after[i])]
    return x if all(isinstance(p, int) and p == 0 for p in pads) else aten.constant_pad_nd(x, pads, value)


def paddings_after(
    spatial: Sequence[Dim], kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, sizes: Sequence[Dim]
) -> list[Dim]:
    """The padding behind each spatial dim: as before it, or up to where the last window ends."""
    pads: list[Dim] = []
    for i in range(len(kernel)):
        reach = (sizes[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
        after = reach - spatial[i] - padding[i]
        pads.append(after if shape_env.less(padding[i], after) else padding[i])
    return pads


def counts_of_windows(framed: Sequence[Dim], kernel: Ints, stride: Ints, dilation: Ints) -> tuple[Dim, ...]:
    """How many windows fit along each dim."""
    return tuple(
        dm.floordiv(n - (k - 1) * d - 1, s) + 1 for n, k, s, d in zip(framed, kernel, stride, dilation, strict=True)
    )


def averaged_order(rank: int, input: Operand) -> tuple[int, ...] | None:
    """How means of windows over the last dims lie: those of volumes row-major, as PyTorch's."""
    return None if rank == 3 else pooled_order(rank, input)


def pooled_order(rank: int, input: Operand) -> tuple[int, ...] | None:
    """How what is found in windows over the last dims lies: one dim is pooled as an image of one row."""
    if rank > 1 or input.ndim != 3:
        return channels_last(input)
    dims: Any = input.dims  # integers
    strides: Any = input.strides
    row = Geometry((*dims[:2], 1, dims[2]), (*strides[:2], dims[2] * strides[2], strides[2]))
    return None if channels_last(row) is None else (0, 2, 1)


# ---- average


def _avg_pool(
    rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor: int | None,
) -> Any:
    name = f"avg_pool{rank}d"
    kernel = per_dim("kernel_size", kernel_size, rank)
    steps, pads = per_dim("stride", stride, rank, kernel), per_dim("padding", padding, rank)
    check_windows(name, input, rank, kernel, steps, pads)
    if divisor is not None and shape_env.equal(divisor, 0):
        raise ShapeError("divisor must be not zero")
    spatial = input.dims[-rank:]
    sizes = [pooled_size(*each, 1, ceil_mode) for each in zip(spatial, kernel, steps, pads, strict=True)]
    if any(shape_env.less(s, 1) for s in sizes):
        raise ShapeError(
            f"{name}: Given input size: {dims_text(input.dims)}. Calculated output size: {dims_text(sizes)}. "
            "Output size is too small"
        )

    out = _totals(widened(input), kernel, steps, pads, sizes)
    counts: Any = divisor
    if divisor is None and not ceil_mode and (count_include_pad or not any(pads)):
        counts = math.prod(kernel)
    elif divisor is None:
        counts = _counts(out, kernel, steps, pads, sizes, spatial, count_include_pad)
    if not input.dtype.is_differentiable:
        return aten.to(aten.div(out, counts, rounding_mode="trunc"), input.dtype)
    return cast(out / counts, input.dtype)


def _totals(x: Any, kernel: Ints, stride: Ints, padding: Ints, sizes: Sequence[Dim]) -> Any:
    """Sums over windows. Of floats: a convolution of each channel by itself, with ones."""
    rank, ones = len(kernel), (1,) * len(kernel)
    if not x.dtype.is_floating_point:
        framed = in_frame(x, kernel, stride, padding, ones, sizes, 0)
        return aten.sum(windows_of(framed, kernel, stride, ones, sizes), -1)
    after = paddings_after(x.dims[x.ndim - rank :], kernel, stride, padding, ones, sizes)
    if any(a != b for a, b in zip(after, padding, strict=True)):  # the last windows reach further (ceil_mode)
        x, padding = in_frame(x, kernel, stride, padding, ones, sizes, 0), (0,) * rank
    planes = aten.reshape(x, (dm.product(x.dims[: x.ndim - rank]), 1, *x.dims[x.ndim - rank :]))
    weight = aten.ones((1, 1, *kernel), dtype=x.dtype)
    out = aten._convolve(planes, weight, sizes, stride, padding, ones, 1)
    return aten.reshape(out, (*x.dims[: x.ndim - rank], *sizes))


def _counts(
    like: Any, kernel: Ints, stride: Ints, padding: Ints, sizes: Sequence[Dim], spatial: Sequence[Dim],
    count_include_pad: bool,
) -> Any:
    """How many elements each window holds: those of the input, or of the input with its padding."""
    rank = len(kernel)
    total: Any = None
    for i in range(rank):
        margin = padding[i] if count_include_pad else 0
        start = aten.arange(sizes[i]) * stride[i] - padding[i]
        length = aten.clamp_max(start + kernel[i], spatial[i] + margin) - aten.clamp_min(start, -margin)
        column = aten.reshape(length, tuple(sizes[i] if j == i else 1 for j in range(rank)))
        total = column if total is None else total * column
    return aten.to(total, like.dtype)


def _define_avg_pool(rank: int) -> None:
    size = f"int[{rank}]"
    last = "" if rank == 1 else ", int? divisor_override=None"

    def rule(
        input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
        divisor: Any = None,
    ) -> Any:
        return _avg_pool(rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor)

    define(
        f"aten::avg_pool{rank}d(Tensor self, {size} kernel_size, {size}? stride=None, {size} padding=0, "
        f"bool ceil_mode=False, bool count_include_pad=True{last}) -> Tensor",
        f"The mean of each window over the last {rank} dims.",
        precision="float32" if rank == 3 else "",
        decompose=rule,
        lies=Follows(lambda self, *rest: (averaged_order(rank, self),)),
        public=("weft", "nn.functional") if rank == 1 else _PLACE,
        out=rank > 1,
    )


for _rank in (1, 2, 3):
    _define_avg_pool(_rank)

# ---- adaptive


def adaptive_average(rank: int, input: Any, output_size: Any) -> Any:
    """Averages over n windows that cover each dim: separable, so one dim after the other."""
    if input.ndim not in (rank + 1, rank + 2):
        raise (ValueProblem if rank > 1 and input.ndim <= rank else ShapeError)(
            f"adaptive_avg_pool{rank}d(): Expected {rank + 1}D or {rank + 2}D tensor, but got {dims_text(input.dims)}"
        )
    wanted = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != rank:
        raise ShapeError(f"adaptive_avg_pool{rank}d: output_size must be {rank} ints, got {list(wanted)}")
    if any(isinstance(count, int) and count < 0 for count in wanted):
        raise ShapeError(f"adaptive_avg_pool{rank}d: elements of output_size must not be negative, got {list(wanted)}")
    empty = [i for i in range(input.ndim - rank, input.ndim) if shape_env.is_zero(input.dims[i])]
    if empty and any(count != 1 for count in wanted):  # (the mean of nothing is NaN)
        raise ShapeError(
            f"adaptive_avg_pool{rank}d(): Expected input to have non-zero size for non-batch dimensions, but input has "
            f"sizes {dims_text(input.dims)} with dimension {empty[0]} being empty"
        )
    out = source = widened(input)
    for i in range(rank):
        dim = input.ndim - rank + i
        count = wanted[i]
        if count is None or count == input.dims[dim]:
            continue
        out = aten.mean(out, dim, True) if count == 1 else _means(out, dim, count)
    return aten.clone(input) if out is source else cast(out, input.dtype)


def _means(x: Any, dim: int, count: Dim) -> Any:
    """Means along a dim: window j has the elements from floor(j size / count) up to ceil((j + 1) size / count). Each
    reads its own elements alone, so that NaN and inf stay within it."""
    size = x.dims[dim]
    if isinstance(count, int) and count == 0:
        return aten.narrow(x, dim, 0, 0)
    if isinstance(size, int) and isinstance(count, int) and size % count == 0:  # (symbols are not asked)
        parts = aten.reshape(x, (*x.dims[:dim], count, size // count, *x.dims[dim + 1 :]))
        return aten.mean(parts, dim + 1)
    j = aten.arange(count)
    start = aten.floor_divide(j * size, count)
    length = -aten.floor_divide(-((j + 1) * size), count) - start
    steps = aten.arange(dm.floordiv(size + count - 1, count) + 1)  # no window is longer
    places = aten.clamp_max(aten.unsqueeze(start, 1) + steps, size - 1)
    trailing = x.ndim - 1 - dim
    inside = aten.reshape(steps < aten.unsqueeze(length, 1), (count, steps.dims[0], *(1,) * trailing))
    parts = aten.index_select(x, dim, aten.reshape(places, (-1,)))
    parts = aten.reshape(parts, (*x.dims[:dim], count, steps.dims[0], *x.dims[dim + 1 :]))
    zero = aten.zeros((), dtype=x.dtype)
    total = aten.sum(aten.where(inside, parts, zero), dim + 1)
    return total / aten.reshape(aten.to(length, x.dtype), (count, *(1,) * trailing))


for _rank in (1, 2, 3):
    define(
        f"nn::adaptive_avg_pool{_rank}d(Tensor input, Object output_size) -> Tensor",
        f"Means over windows that cover the last {_rank} dims evenly, as many as output_size says (None keeps a size).",
        precision="float32" if _rank == 3 else "",
        decompose=lambda input, output_size, rank=_rank: adaptive_average(rank, input, output_size),
        lies=Follows(lambda input, output_size, rank=_rank: (averaged_order(rank, input),)),
        public=_PLACE,
    )
