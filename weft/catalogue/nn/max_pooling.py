"""Max pooling: the greatest element of each window, and where it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from weft.catalogue.nn.pooling import (
    Ints,
    check_windows,
    counts_of_windows,
    paddings_after,
    per_dim,
    pooled_order,
    pooled_size,
    windows_of,
)
from weft.catalogue.reductions.extrema import picked_gradient
from weft.catalogue.samples import F, case, draw
from weft.ops.layout import ROW_MAJOR, Follows, Operand, Orders
from weft.ops.op import NodeBy, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

_PLACE = ("nn.functional",)


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


def _lowest(dtype: dt.DType) -> float:
    if dtype.is_floating_point:
        return float("-inf")
    return -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0


def _padded(spatial: Sequence[Dim], before: Ints, after: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(p + d + q for d, p, q in zip(spatial, before, after, strict=True))


def _framed(x: Any, before: Ints, after: Sequence[Dim], value: Any) -> Any:
    """x with its padding."""
    pads = [p for pair in zip(reversed(before), reversed(after), strict=True) for p in pair]
    return x if all(isinstance(p, int) and p == 0 for p in pads) else aten.constant_pad_nd(x, pads, value)


def _shown(x: Any, kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim], dilation: Ints, value: Any) -> Any:
    """The windows of x with its padding."""
    framed = _framed(x, before, after, value)
    sizes = counts_of_windows(framed.dims[framed.ndim - len(kernel) :], kernel, stride, dilation)
    return windows_of(framed, kernel, stride, dilation, sizes)


_FEW = 16  # elements of a window that are compared one after another, over all windows at once


def _greatest(self: Any, kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim], dilation: Ints) -> Any:
    if math.prod(kernel) > _FEW:
        return aten.max(_shown(self, kernel, stride, before, after, dilation, _lowest(self.dtype)), -1)
    framed = _framed(self, before, after, _lowest(self.dtype))
    lead = framed.ndim - len(kernel)
    sizes = counts_of_windows(framed.dims[lead:], kernel, stride, dilation)
    best = picked = None
    for number, place in enumerate(itertools.product(*[range(k) for k in kernel])):
        x = framed
        for i, at in enumerate(place):
            start = at * dilation[i]
            x = aten.slice(x, lead + i, start, start + (sizes[i] - 1) * stride[i] + 1, stride[i])
        if best is None:
            best = x
            continue
        is_better = aten.bitwise_and(aten.bitwise_not(aten.le(x, best)), aten.eq(best, best))  # the first NaN wins
        picked = aten.where(is_better, number, 0 if picked is None else picked)
        best = aten.where(is_better, x, best)
    return (aten.clone(best), aten.zeros_like(best, dtype=dt.int64)) if picked is None else (best, picked)


def _greatest_back(
    g: Any, result1: Any, self_dims: Sequence[Dim], kernel: Ints, stride: Ints, before: Ints, after: Sequence[Dim],
    dilation: Ints,
) -> Any:
    lead = len(self_dims) - len(kernel)
    spatial = self_dims[lead:]
    framed = _padded(spatial, before, after)
    if tuple(stride) == tuple(kernel) and all(d == 1 for d in dilation):
        out = _side_by_side(g, result1, kernel, framed)
    else:
        placed = picked_gradient(g, result1, (*g.dims, math.prod(kernel)), -1, False)
        out = _windows_back(placed, framed, kernel, stride, dilation)
    for i, (p, d) in enumerate(zip(before, spatial, strict=True)):
        out = aten.slice(out, lead + i, p, p + d)
    return out


def _side_by_side(g: Any, picked: Any, kernel: Ints, framed: Sequence[Dim]) -> Any:
    """The gradient of windows that neither overlap nor leave gaps: each has its own block of the result."""
    rank = len(kernel)
    lead = g.ndim - rank
    inner: Any = 0  # the number of each place of a block
    for i in range(g.ndim, lead, -1):
        g, picked = aten.unsqueeze(g, i), aten.unsqueeze(picked, i)
    for i, k in enumerate(kernel):
        dims = tuple(k if j == 2 * i + 1 else 1 for j in range(2 * rank))
        inner = inner * k + aten.reshape(aten.arange(k), dims)
    blocks = aten.where(aten.eq(picked, inner), g, 0)
    out = aten.reshape(blocks, (*g.dims[:lead], *[g.dims[lead + 2 * i] * k for i, k in enumerate(kernel)]))
    pads = [p for i in reversed(range(rank)) for p in (0, framed[i] - out.dims[lead + i])]
    return out if all(isinstance(p, int) and p == 0 for p in pads) else aten.constant_pad_nd(out, pads, 0)


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
    sizes = counts_of_windows(framed, kernel, stride, dilation)
    return tuple(tensor_type(dtype, (*self.dims[:lead], *sizes), self.device) for dtype in (self.dtype, dt.int64))


define(
    "aten::_max_pool(Tensor self, int[] kernel, int[] stride, int[] before, int[] after, int[] dilation) "
    "-> (Tensor values, Tensor picked)",
    "The greatest element of each window over the last dims, padded before and after, and its place within the window.",
    node=NodeBy(
        "kernel", "MaxPool2DWithIndicesBackward0", "MaxPool3DWithIndicesBackward0", lambda kernel: len(kernel) < 3
    ),
    type=_greatest_type,
    decompose=_greatest,
    vjp={"self": _greatest_back},
    lies=Follows(lambda self, kernel, *rest: (pooled_order(len(kernel), self),) * 2),
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
    check_windows(name, input, rank, kernel, steps, pads)
    if any(d <= 0 for d in spread):
        raise ShapeError(f"{name}() dilation must be greater than zero, but got {list(spread)}")
    spatial = input.dims[-rank:]
    sizes = [pooled_size(*each, ceil_mode) for each in zip(spatial, kernel, steps, pads, spread, strict=True)]
    if any(shape_env.less(s, 1) for s in sizes):
        raise ShapeError(
            f"{name}: Given input size: {dims_text(input.dims)}. Calculated output size: {dims_text(sizes)}. "
            "Output size is too small"
        )
    after = paddings_after(spatial, kernel, steps, pads, spread, sizes)
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

    def orders(self: Operand, *arguments: Any) -> Orders:
        return (pooled_order(rank, self),) * 2 if arguments[-1] else (None,)

    doc = f"The greatest element of each window over the last {rank} dims"
    define(
        f"aten::max_pool{rank}d({arguments}) -> Tensor", doc + ".", decompose=values, public=("weft",),
        lies=ROW_MAJOR if rank == 1 else None,
    )
    define(
        f"aten::max_pool{rank}d_with_indices({arguments}) -> (Tensor, Tensor)", doc + ", and where it is.",
        decompose=both, public=("weft", "nn.functional"),
    )
    define(
        f"nn::max_pool{rank}d(Tensor input, {size} kernel_size, {size}? stride=None, {size} padding=0, "
        f"{size} dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor",
        doc + "; with return_indices also where it is.",
        decompose=functional,
        lies=Follows(orders) if rank == 1 else None,
        more=("return_indices",),
        public=_PLACE,
    )


for _rank in (1, 2, 3):
    _define_max_pool(_rank)
