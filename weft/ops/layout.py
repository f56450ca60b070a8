"""Strides of results whose elements follow their operands' order in memory, as PyTorch's pointwise operators
and `*_like` factories give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.ops.geometry import Geometry, contiguous_strides, is_contiguous, reach
from weft.support.errors import ShapeError, ValueProblem
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.formats import DIM_ORDERS

Dims = tuple[Dim, ...]
Orders = Sequence[tuple[int, ...] | None]  # of the dims of results, from the outermost in memory; None: row-major


@dataclass(frozen=True)
class Operand(Geometry):
    """How an operand lies, as an entry's `lies` is told, and its dtype. Sizes and strides are integers."""

    dtype: DType | None = None


def joint_strides(dims: Dims, operands: Sequence[Geometry]) -> Dims:
    """Dense strides for a result of these (integer) dims: dims are ordered as the first operand
    that can tell orders them.

    An operand of fewer dims, or with dims that broadcast, has stride 0 there and tells nothing about those dims.
    """
    rows = [_aligned(g, dims) for g in operands]
    order = list(range(len(dims) - 1, -1, -1))  # innermost first
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            comparison = _compare(order[before], order[at], rows, dims)
            if comparison > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif comparison < 0:
                break
    return _dense(dims, order)


def like_strides(g: Geometry) -> Dims:
    """Strides of a new tensor laid out like `g`: the same if they are dense, else dense ones in the same order."""
    return g.strides if is_dense(g) else joint_strides(g.dims, [g])


def is_dense(g: Geometry) -> bool:
    """Whether the elements fill one block of memory without gaps or overlaps, in any order of dims.
    Sizes are integers."""
    expected: Dim = 1
    for stride, size in sorted((s, d) for s, d in zip(g.strides, g.dims, strict=True) if d != 1):
        if stride != expected:
            return 0 in g.dims
        expected = expected * size
    return True


def blocks_meet(a: Geometry, b: Geometry) -> bool:
    """Whether two views of one storage fill a block of memory each, and the blocks have a place in common. Of views
    with gaps it is not found out, as in PyTorch. Asks about sizes that are symbols."""
    if not (_fills_block(a) and _fills_block(b)):
        return False
    if any(shape_env.is_zero(d) for d in (*a.dims, *b.dims)):
        return False
    return shape_env.less(a.offset, reach(b)) and shape_env.less(b.offset, reach(a))


def _fills_block(g: Geometry) -> bool:
    if all(type(n) is int for n in (*g.dims, *g.strides)):
        return is_dense(g)
    return is_contiguous(g)


def _aligned(g: Geometry, dims: Dims) -> Dims:
    """Strides over the result's dims; 0 where the operand broadcasts."""
    missing = len(dims) - g.ndim
    own = tuple(0 if d == 1 and n != 1 else s for d, s, n in zip(g.dims, g.strides, dims[missing:], strict=True))
    return (0,) * missing + own


def _compare(a: int, b: int, rows: Sequence[Dims], dims: Dims) -> int:
    """1 when dim `a` must lie outside dim `b`, -1 when inside, 0 when no operand tells."""
    for strides in rows:
        x, y = strides[a], strides[b]
        if x == 0 or y == 0:
            continue
        if x != y:
            return 1 if x > y else -1
        if dims[a] > dims[b]:
            return 1
    return 0


def _dense(dims: Dims, order: Sequence[int]) -> Dims:
    inner_last = tuple(dims[i] for i in reversed(order))
    dense = contiguous_strides(inner_last)
    strides: list[Dim] = [1] * len(dims)
    for place, i in enumerate(reversed(order)):
        strides[i] = dense[place]
    return tuple(strides)


class Follows:
    """How results lie that are row-major where all operands are: an entry's `lies`. rule: as there."""

    def __init__(self, rule: Callable[..., Orders]) -> None:
        self.rule = rule

    def __call__(self, *args: Any) -> Orders:
        return self.rule(*args)


def order_like(g: Geometry) -> tuple[int, ...]:
    """The order of dims, the outermost first, of a new tensor laid out like `g`."""
    strides: Any = like_strides(g)  # integers
    return tuple(sorted(range(g.ndim), key=lambda i: (-strides[i] if g.dims[i] != 1 else 0, i)))


LIKE_SELF = Follows(lambda self, *rest: (order_like(self),))
ROW_MAJOR = Follows(lambda *args: (None,))


def channels_last(g: Geometry) -> tuple[int, ...] | None:
    """The order of dims that what is computed of images or volumes has: channels innermost where those of `g` lie
    so, as PyTorch's suggest_memory_format tells from strides; None: row-major.
    """
    sizes: Any = g.dims  # integers
    strides: Any = g.strides
    order = _CHANNELS_INNERMOST.get(g.ndim)
    if order is None or sizes[1] == 1 or all(n == 1 for n in sizes[2:]) or not strides[1]:
        return None  # (of one channel, or one place, nothing can be told)
    least = 0
    for i in reversed(order):
        if sizes[i] != 1:
            if not sizes[i] or strides[i] < least:
                return None
            least = strides[i] * sizes[i]
    return order


_CHANNELS_INNERMOST = {len(order): order for order in DIM_ORDERS.values()}
LIKE_IMAGES = Follows(lambda self, *rest: (channels_last(self),))


def order_of_format(memory_format: object, ndim: int) -> tuple[int, ...]:
    """The dims of a tensor of so many dims that lies as the memory format says, from the outermost in memory.
    Raises ValueProblem for a format that is not known, ShapeError where it is one of other dims."""
    if memory_format == "contiguous_format":
        return tuple(range(ndim))
    order = DIM_ORDERS.get(str(memory_format)) if isinstance(memory_format, str) else None
    if order is None:
        names = ", ".join(map(str, DIM_ORDERS))
        raise ValueProblem(f"unknown memory format {memory_format!r}; there are contiguous_format, {names}")
    if len(order) != ndim:
        raise ShapeError(f"required rank {len(order)} tensor to use {memory_format!s} format, got rank {ndim}")
    return order


def column_major(ndim: int) -> tuple[int, ...]:
    """The order of dims of matrices that lie column by column, as LAPACK leaves them."""
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def innermost(g: Geometry, dim: int) -> tuple[int, ...]:
    """The order of dims where one lies innermost and the others as they did."""
    at = dim % g.ndim
    strides: Any = g.strides  # integers
    return (*sorted([i for i in range(g.ndim) if i != at], key=lambda i: -strides[i]), at)


def ordered(dims: Dims, order: tuple[int, ...]) -> Geometry:
    """Dense geometry whose dims lie in this order in memory, the outermost first."""
    packed = contiguous_strides(tuple(dims[i] for i in order))
    return Geometry(dims, tuple(packed[order.index(i)] for i in range(len(dims))))
