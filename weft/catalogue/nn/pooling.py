"""Pooling over windows (max, average), adaptive pooling, and windows as columns (unfold)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.catalogue.reductions.extrema import picked_gradient
from weft.catalogue.samples import F, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

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


def _check(name: str, input: Any, rank: int, kernel: Ints, stride: Ints, padding: Ints) -> None:
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
    after = _paddings_after(x.dims[x.ndim - len(kernel) :], kernel, stride, padding, dilation, sizes)
    pads = [p for i in reversed(range(len(kernel))) for p in (padding[i], after[i])]
    return x if all(isinstance(p, int) and p == 0 for p in pads) else aten.constant_pad_nd(x, pads, value)


def _paddings_after(
    spatial: Sequence[Dim], kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, sizes: Sequence[Dim]
) -> list[Dim]:
    """The padding behind each spatial dim: as before it, or up to where the last window ends."""
    pads: list[Dim] = []
    for i in range(len(kernel)):
        reach = (sizes[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
        after = reach - spatial[i] - padding[i]
        pads.append(after if shape_env.less(padding[i], after) else padding[i])
    return pads


def _counts_of_windows(framed: Sequence[Dim], kernel: Ints, stride: Ints, dilation: Ints) -> tuple[Dim, ...]:
    """How many windows fit along each dim."""
    return tuple(
        dm.floordiv(n - (k - 1) * d - 1, s) + 1 for n, k, s, d in zip(framed, kernel, stride, dilation, strict=True)
    )


def _windows_back(x: Any, framed: Sequence[Dim], kernel: Ints, stride: Ints, dilation: Ints) -> Any:
    """The adjoint of _windows, for all that fit into spatial dims `framed`: each element goes back to its place."""
    rank = len(kernel)
    lead = x.ndim - rank - 1
    x = aten.reshape(x, (*x.dims[:-1], *kernel))
    for i in reversed(range(rank)):
        span = (kernel[i] - 1) * dilation[i] + 1
        if dilation[i] != 1:
            whole = aten.zeros((*x.dims[:-1], span), dtype=x.dtype)
            x = aten.slice_scatter(whole, x, x.ndim - 1, None, None, dilation[i])
        sizes = (*x.dims[: lead + i], framed[i], *x.dims[lead + i + 1 : -1])
        x = aten.unfold_backward(x, sizes, lead + i, span, stride[i])
    return x


# ---- max


def _lowest(dtype: dt.DType) -> float:
    if dtype.is_floating_point:
        return float("-inf")
    return -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0


def _padded(spatial: Sequence[Dim], before: Ints, after: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(p + d + q for d, p, q in zip(spatial, before, after, strict=True))


def _shown(x: Any, kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim], dilation: Ints, value: Any) -> Any:
    """The windows of x with its padding."""
    pads = [p for pair in zip(reversed(before), reversed(after), strict=True) for p in pair]
    framed = x if all(isinstance(p, int) and p == 0 for p in pads) else aten.constant_pad_nd(x, pads, value)
    sizes = _counts_of_windows(framed.dims[framed.ndim - len(kernel) :], kernel, stride, dilation)
    return windows_of(framed, kernel, stride, dilation, sizes)


def _greatest(self: Any, kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim], dilation: Ints) -> Any:
    return aten.max(_shown(self, kernel, stride, before, after, dilation, _lowest(self.dtype)), -1)


def _greatest_back(
    g: Any, result1: Any, self_dims: Sequence[Dim], kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim],
    dilation: Ints,
) -> Any:
    lead = len(self_dims) - len(kernel)
    spatial = self_dims[lead:]
    placed = picked_gradient(g, result1, (*g.dims, math.prod(kernel)), -1, False)
    out = _windows_back(placed, _padded(spatial, before, after), kernel, stride, dilation)
    for i, (p, d) in enumerate(zip(before, spatial, strict=True)):
        out = aten.slice(out, lead + i, p, p + d)
    return out


def _greatest_along(op: Any, values: Any, tangents: Any, results: Any) -> tuple[Any, None]:
    kernel, stride, before, after, dilation = values[1:]
    picked = aten.unsqueeze(results[1], -1)
    return (
        aten.squeeze(aten.gather(_shown(tangents[0], kernel, stride, before, after, dilation, 0), -1, picked), -1), None
    )


def _greatest_type(
    self: TensorType, kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim], dilation: Ints
) -> Any:
    if self.dtype is not None and self.dtype.is_complex:
        raise DTypeError(f"max(): does not support complex input, got {self.dtype}")
    if self.dims is None:
        return tuple(tensor_type(dtype, None, self.device) for dtype in (self.dtype, dt.int64))
    lead = len(self.dims) - len(kernel)
    framed = _padded(self.shape[lead:], before, after)
    for n, k, d in zip(framed, kernel, dilation, strict=True):
        if shape_env.less(n, (k - 1) * d + 1):
            raise ShapeError(f"max_pool: windows of {(k - 1) * d + 1} elements do not fit into a dim of size {n}")
    sizes = _counts_of_windows(framed, kernel, stride, dilation)
    return tuple(tensor_type(dtype, (*self.dims[:lead], *sizes), self.device) for dtype in (self.dtype, dt.int64))


define(
    "aten::_max_pool(Tensor self, int[] kernel, int[] stride, int[] before, int[] after, int[] dilation) "
    "-> (Tensor values, Tensor picked)",
    "The greatest element of each window over the last dims, padded before and after, and its place within the window.",
    type=_greatest_type,
    decompose=_greatest,
    vjp={"self": _greatest_back},
    jvp=_greatest_along,
    public=(),
    samples=draw(
        case(F(2, 7), (3,), (2,), (1,), (1,), (1,)), case(F(2, 6, 7), (2, 3), (2, 1), (0, 1), (0, 1), (1, 2)),
        case(F(1, 5, 6), (2, 2), (2, 2), (0, 0), (1, 0), (1, 1)),
    ),
)


def _max_pool(
    is_placed: bool, rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Any, Any]:
    name = f"max_pool{rank}d"
    kernel = per_dim("kernel_size", kernel_size, rank)
    steps = per_dim("stride", stride, rank, kernel)
    pads, spread = per_dim("padding", padding, rank), per_dim("dilation", dilation, rank)
    _check(name, input, rank, kernel, steps, pads)
    spatial = input.dims[-rank:]
    sizes = [pooled_size(*each, ceil_mode) for each in zip(spatial, kernel, steps, pads, spread, strict=True)]
    if any(shape_env.less(s, 1) for s in sizes):
        raise ShapeError(
            f"{name}: Given input size: {dims_text(input.dims)}. Calculated output size: {dims_text(sizes)}. "
            "Output size is too small"
        )
    after = _paddings_after(spatial, kernel, steps, pads, spread, sizes)
    values, picked = aten._max_pool(input, kernel, steps, pads, after, spread)
    return values, _flat_places(picked, kernel, steps, pads, spread, spatial) if is_placed else None


def _flat_places(picked: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, spatial: Sequence[Dim]) -> Any:
    """Positions within windows as positions in the input's flattened spatial dims."""
    rank = len(kernel)
    place: Any = None
    rest = picked
    offsets = []
    for i in reversed(range(rank)):
        offsets.append(aten.remainder(rest, kernel[i]))
        rest = aten.floor_divide(rest, kernel[i])
    for i in range(rank):
        at = picked.ndim - rank + i
        starts = aten.reshape(
            aten.arange(picked.dims[at]), tuple(picked.dims[at] if j == at else 1 for j in range(picked.ndim))
        )
        along = starts * stride[i] - padding[i] + offsets[rank - 1 - i] * dilation[i]
        place = along if place is None else place * spatial[i] + along
    return place


def _define_max_pool(rank: int) -> None:
    size = f"int[{rank}]"
    arguments = (
        f"Tensor self, {size} kernel_size, {size} stride=[], {size} padding=0, {size} dilation=1, bool ceil_mode=False"
    )

    def both(*arguments: Any) -> Any:
        return _max_pool(True, rank, *arguments)

    def values(*arguments: Any) -> Any:
        return _max_pool(False, rank, *arguments)[0]

    def functional(
        input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool
    ) -> Any:
        return (both if return_indices else values)(input, kernel_size, stride, padding, dilation, ceil_mode)

    doc = f"The greatest element of each window over the last {rank} dims"
    define(f"aten::max_pool{rank}d({arguments}) -> Tensor", doc + ".", decompose=values, public=("weft",))
    define(
        f"aten::max_pool{rank}d_with_indices({arguments}) -> (Tensor, Tensor)", doc + ", and where it is.",
        decompose=both, public=("weft", "nn.functional"),
    )
    define(
        f"nn::max_pool{rank}d(Tensor input, {size} kernel_size, {size}? stride=None, {size} padding=0, "
        f"{size} dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor",
        doc + "; with return_indices also where it is.",
        decompose=functional,
        public=_PLACE,
    )


# ---- average


def _avg_pool(
    rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor: int | None,
) -> Any:
    name = f"avg_pool{rank}d"
    kernel = per_dim("kernel_size", kernel_size, rank)
    steps, pads = per_dim("stride", stride, rank, kernel), per_dim("padding", padding, rank)
    ones = (1,) * rank
    _check(name, input, rank, kernel, steps, pads)
    if divisor is not None and shape_env.equal(divisor, 0):
        raise ShapeError("divisor must be not zero")
    spatial = input.dims[-rank:]
    sizes = [pooled_size(*each, 1, ceil_mode) for each in zip(spatial, kernel, steps, pads, strict=True)]
    if any(shape_env.less(s, 1) for s in sizes):
        raise ShapeError(
            f"{name}: Given input size: {dims_text(input.dims)}. Calculated output size: {dims_text(sizes)}. "
            "Output size is too small"
        )

    def totals(x: Any) -> Any:
        return aten.sum(windows_of(in_frame(x, kernel, steps, pads, ones, sizes, 0), kernel, steps, ones, sizes), -1)

    out = totals(input)
    whole = not input.dtype.is_differentiable
    if divisor is not None:
        return aten.to(aten.div(out, divisor, rounding_mode="trunc"), input.dtype) if whole else out / divisor
    if not ceil_mode and (count_include_pad or not any(pads)):
        count = 1
        for k in kernel:
            count *= k
        return aten.to(aten.div(out, count, rounding_mode="trunc"), input.dtype) if whole else out / count
    counts = _counts(input, kernel, steps, pads, sizes, spatial, count_include_pad)
    return aten.to(aten.div(out, counts, rounding_mode="trunc"), input.dtype) if whole else out / counts


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
        decompose=rule,
        public=("weft", "nn.functional") if rank == 1 else _PLACE,
        out=rank > 1,
    )


for _rank in (1, 2, 3):
    _define_max_pool(_rank)
    _define_avg_pool(_rank)

# ---- adaptive


def adaptive_average(rank: int, input: Any, output_size: Any) -> Any:
    """Averages over n windows that cover each dim: separable, so one matrix of weights for each dim."""
    if input.ndim not in (rank + 1, rank + 2):
        raise (ValueProblem if rank > 1 and input.ndim <= rank else ShapeError)(
            f"adaptive_avg_pool{rank}d(): Expected {rank + 1}D or {rank + 2}D tensor, but got {dims_text(input.dims)}"
        )
    wanted = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != rank:
        raise ShapeError(f"adaptive_avg_pool{rank}d: output_size must be {rank} ints, got {list(wanted)}")
    for i in range(rank):
        dim = input.ndim - rank + i
        if wanted[i] is None or wanted[i] == input.dims[dim]:
            continue
        weights = _cover(input.dims[dim], wanted[i], input.dtype)
        input = aten.transpose(aten.matmul(aten.transpose(input, dim, -1), weights), dim, -1)
    return input


def _cover(size: Dim, count: Dim, dtype: dt.DType) -> Any:
    """[size, count]: column j averages elements floor(j size / count) up to ceil((j + 1) size / count)."""
    j = aten.arange(count)
    start = aten.floor_divide(j * size, count)
    end = -aten.floor_divide(-((j + 1) * size), count)
    places = aten.unsqueeze(aten.arange(size), 1)
    inside = aten.logical_and(places >= start, places < end)
    return aten.to(inside, dtype) / aten.to(end - start, dtype)


for _rank in (1, 2, 3):
    define(
        f"nn::adaptive_avg_pool{_rank}d(Tensor input, Object output_size) -> Tensor",
        f"Means over windows that cover the last {_rank} dims evenly, as many as output_size says (None keeps a size).",
        decompose=lambda input, output_size, rank=_rank: adaptive_average(rank, input, output_size),
        public=_PLACE,
    )
