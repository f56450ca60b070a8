"""Max pooling: the greatest element of each window, and where it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.catalogue.nn.pooling import (
    Ints,
    check_windows,
    counts_of_windows,
    paddings_after,
    per_dim,
    pooled_order,
    pooled_size,
)
from weft.catalogue.samples import F, I, case, draw
from weft.catalogue.shapes.slicing import along
from weft.ops.batching import same, unary
from weft.ops.layout import ROW_MAJOR, Follows, Operand, Orders
from weft.ops.op import NodeBy, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.ops.tangents import linear
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
_PLACE = ("nn.functional",)


def _lowest(dtype: dt.DType) -> float:
    if dtype.is_floating_point:
        return float("-inf")
    return -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0


def _padded(spatial: Sequence[Dim], before: Ints, after: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(p + d + q for d, p, q in zip(spatial, before, after, strict=True))


# ---- kernels: they go over all windows at once, one element of a window after another


def _pieces(x: Array, counts: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Iterator[tuple[int, Array]]:
    """Element number k of every window, for each k: views of x, which holds the padding."""
    lead = x.ndim - len(kernel)
    for number, place in enumerate(itertools.product(*[range(k) for k in kernel])):
        steps = [
            slice(at * d, at * d + (n - 1) * s + 1, s)
            for at, d, n, s in zip(place, dilation, counts, stride, strict=True)
        ]
        yield number, x[along(lead, *steps)]


def _maxima(
    x: Array, kernel: Ints, stride: Ints, before: Ints, after: Ints, dilation: Ints
) -> tuple[Array, Array]:
    lead = x.ndim - len(kernel)
    kind = dt.from_numpy(x.dtype)
    pads = [(0, 0)] * lead + list(zip(before, after, strict=True))
    framed = np.pad(x, pads, constant_values=_lowest(kind)) if any(map(any, pads)) else x
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(framed.shape[lead:], kernel, stride, dilation, strict=True)
    ]
    best = np.full((*x.shape[:lead], *counts), _lowest(kind), x.dtype)
    picked = np.zeros(best.shape, np.int64)
    for number, piece in _pieces(framed, counts, kernel, stride, dilation):
        is_better = (piece > best) | (piece != piece)  # of equals the first wins, of NaN the last
        picked[is_better] = number
        np.copyto(best, piece, where=is_better)
    return best, picked


def _maxima_back(
    g: Array, picked: Array, size: Ints, kernel: Ints, stride: Ints, before: Ints, dilation: Ints
) -> Array:
    lead = g.ndim - len(kernel)
    counts, kind = g.shape[lead:], dt.compute_dtype(dt.from_numpy(g.dtype)).numpy
    frame = [
        max(b + n, (m - 1) * s + (k - 1) * d + 1)
        for b, n, m, s, k, d in zip(before, size, counts, stride, kernel, dilation, strict=True)
    ]
    out = np.zeros((*g.shape[:lead], *frame), kind)
    for number, piece in _pieces(out, counts, kernel, stride, dilation):
        piece += np.where(picked == number, g, 0).astype(kind, copy=False)
    inner = [slice(b, b + n) for b, n in zip(before, size, strict=True)]
    return np.ascontiguousarray(out[along(lead, *inner)]).astype(g.dtype, copy=False)


def _at_picked(x: Array, picked: Array, kernel: Ints, stride: Ints, before: Ints, dilation: Ints) -> Array:
    lead = x.ndim - len(kernel)
    counts = picked.shape[lead:]
    pads = [(0, 0)] * lead + [
        (b, max(0, (m - 1) * s + (k - 1) * d + 1 - n - b))
        for b, n, m, s, k, d in zip(before, x.shape[lead:], counts, stride, kernel, dilation, strict=True)
    ]
    framed = np.pad(x, pads) if any(map(any, pads)) else x
    out = np.zeros(picked.shape, x.dtype)
    for number, piece in _pieces(framed, counts, kernel, stride, dilation):
        np.copyto(out, piece, where=picked == number)
    return out


# ---- rules


def _greatest_back(
    g: Any, result1: Any, self_dims: Sequence[Dim], kernel: Ints, stride: Ints, before: Ints, dilation: Ints
) -> Any:
    size = self_dims[len(self_dims) - len(kernel) :]
    return aten._max_pool_input(g, result1, size, kernel, stride, before, dilation)


def _picked_along(op: Any, values: Any, tangents: Any, results: Any) -> tuple[Any, None]:
    kernel, stride, before, _, dilation = values[1:]
    return aten._max_pool_picked(tangents[0], results[1], kernel, stride, before, dilation), None


def _picked_type(self: TensorType, picked: TensorType, *rest: Any) -> TensorType:
    return tensor_type(self.dtype, picked.dims, self.device)


def _back_type(
    self: TensorType, picked: TensorType, size: Sequence[Dim], kernel: Ints, *rest: Any
) -> TensorType:
    if self.dims is None:
        return tensor_type(self.dtype, None, self.device)
    return tensor_type(self.dtype, (*self.dims[: len(self.dims) - len(kernel)], *size), self.device)


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
    kernel=_maxima,
    vjp={"self": _greatest_back},
    batch=unary,
    lies=Follows(lambda self, kernel, *rest: (pooled_order(len(kernel), self),) * 2),
    jvp=_picked_along,
    public=(),
    samples=draw(
        case(F(2, 7), (3,), (2,), (1,), (1,), (1,)), case(F(2, 6, 7), (2, 3), (2, 1), (0, 1), (0, 1), (1, 2)),
        case(F(1, 5, 6), (2, 2), (2, 2), (0, 0), (1, 0), (1, 1)),
    ),
)
define(
    "aten::_max_pool_input(Tensor self, Tensor picked, int[] size, int[] kernel, int[] stride, int[] before, "
    "int[] dilation) -> Tensor",
    "The adjoint of _max_pool: each element of self goes to the place of its window that was picked, where those of "
    "several windows are added up; `size`: of the last dims of the result.",
    type=_back_type,
    kernel=_maxima_back,
    vjp={"self": lambda g, picked, kernel, stride, before, dilation: aten._max_pool_picked(
        g, picked, kernel, stride, before, dilation
    )},
    batch=same, jvp=linear,
    public=(),
    samples=draw(
        case(F(2, 3), I(2, 3, high=3), (7,), (3,), (2,), (0,), (1,)),
        case(F(2, 3, 4), I(2, 3, 4, high=4), (6, 6), (2, 2), (2, 1), (0, 0), (1, 2)),
    ),
)
define(
    "aten::_max_pool_picked(Tensor self, Tensor picked, int[] kernel, int[] stride, int[] before, int[] dilation) "
    "-> Tensor",
    "The element of each window that was picked, zero where it is none of self: the adjoint of _max_pool_input.",
    type=_picked_type,
    kernel=_at_picked,
    vjp={"self": lambda g, picked, self_dims, kernel, stride, before, dilation: aten._max_pool_input(
        g, picked, self_dims[len(self_dims) - len(kernel) :], kernel, stride, before, dilation
    )},
    batch=same, jvp=linear,
    public=(),
    samples=draw(
        case(F(2, 7), I(2, 3, high=3), (3,), (2,), (0,), (1,)),
        case(F(2, 6, 6), I(2, 3, 4, high=4), (2, 2), (2, 1), (0, 0), (1, 2)),
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
        precision="float32" if rank == 3 else "",
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
        precision="float32" if rank == 3 else "",
        decompose=functional,
        lies=Follows(orders) if rank == 1 else None,
        more=("return_indices",),
        public=_PLACE,
    )


for _rank in (1, 2, 3):
    _define_max_pool(_rank)
