"""gather_as_mask: one element picked from each row, or put into each row of zeros, becomes a comparison with
the column's number.

`gather` with an index of one column, as losses over classes use it, would force the rows into memory; as
`sum(where(columns == index, rows, 0))` it fuses with what makes the rows, and its gradient with what reads it.
The bounds check stays. `one_hot` is that comparison itself.
"""

from __future__ import annotations

from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.group import is_zeros
from weft.passes.rebuild import Rewrites, results_of
from weft.types import dtype as dt
from weft.types.dims import Dim

gather_as_mask = Rewrites()


@gather_as_mask.of(aten.gather)
def _gather(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    source, dim, index = args[:3]
    producer = source.node
    if (
        producer is None or (producer.op.scalar is None and producer.op.reduce is None)
        or not _is_single(builder, source, dim, index)
    ):
        return None
    dtype = source.tensor_type.dtype
    if dtype is None or not dtype.is_floating_point:
        return None
    hit = _hits(builder, source, dim, index)
    picked = aten.where(hit, builder.handle(source), 0)
    return results_of(builder, aten.sum(picked, (dim,), True))


@gather_as_mask.of(aten.scatter_add, aten.scatter.src)
def _scatter(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    base, dim, index, source = args
    if type(source) is not Value or not is_zeros(base) or not _is_single(builder, base, dim, index):
        return None
    if (
        source.tensor_type.shape != index.tensor_type.shape
        and not _same(builder, source.tensor_type.shape, index.tensor_type.shape)
    ):
        return None
    if source.tensor_type.dtype is not base.tensor_type.dtype:
        return None
    nothing = False if base.tensor_type.dtype is dt.bool_ else 0
    return results_of(builder, aten.where(_hits(builder, base, dim, index), builder.handle(source), nothing))


@gather_as_mask.of(aten.one_hot_of)
def _one_hot(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    classes, count = args
    rank = len(classes.tensor_type.shape)
    checked = aten.unsqueeze(aten.checked_index(builder.handle(classes), count), rank)
    return results_of(builder, aten._to_copy(aten.eq(numbers_along(count, rank + 1, rank), checked), dtype=dt.int64))


def numbers_along(size: Dim, rank: int, axis: int) -> Any:
    """0, 1, 2, ... along one of `rank` dims; the others have size 1."""
    return aten.reshape(aten._iota(size), tuple(size if i == axis else 1 for i in range(rank)))


def _hits(builder: Builder, rows: Value, dim: int, index: Value) -> Any:
    """Where a column's number is the row's index."""
    dims = rows.tensor_type.shape
    axis = normalize_dim("gather", dim, len(dims))
    checked = aten.checked_index(builder.handle(index), dims[axis])
    return aten.eq(numbers_along(dims[axis], len(dims), axis), checked)


def _is_single(builder: Builder, rows: Value, dim: int, index: Value) -> bool:
    """Whether the index has one entry for each row of `rows` along dim."""
    dims, picked = rows.tensor_type.shape, index.tensor_type.shape
    if not dims or len(dims) != len(picked):
        return False
    axis = normalize_dim("gather", dim, len(dims))
    if not (isinstance(picked[axis], int) and picked[axis] == 1):
        return False
    return _same(builder, (*dims[:axis], *dims[axis + 1 :]), (*picked[:axis], *picked[axis + 1 :]))


def _same(builder: Builder, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(builder.env.proves_equal(x, y) for x, y in zip(a, b, strict=False))
