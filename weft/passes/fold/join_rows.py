"""join_rows: a stack or concatenation of many rows that were taken apart before becomes a few of their tensors' parts.

A list of what a loop has given (`out.append(h)`) is a tensor whose rows are taken apart, and `weft.stack(out)` joins
them again: one kernel of thousands of operands otherwise, each with code of its own. So are their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.fold.joins import MANY, laid_along
from weft.passes.rebuild import Rewrites, results_of

_UNBIND = aten.unbind.overloads[0]
join_rows = Rewrites()


class _Piece(NamedTuple):
    """Rows that follow each other: those from `first` up to `end` of a tensor that was taken apart along a dim; or one
    value."""

    value: Value
    dim: int
    first: int
    end: int

    @property
    def is_rows(self) -> bool:
        """Whether there are several."""
        return self.end - self.first > 1


@join_rows.of(aten.stack, aten.cat)
def _join(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    values, dim = args
    if len(values) < MANY:
        return None
    pieces = list(_pieces(values))
    if 2 * len(pieces) > len(values):
        return None
    is_stack = node.op in aten.stack.overloads
    at = normalize_dim("stack", dim, values[0].type.ndim + is_stack)
    if len(pieces) == 1 and (at or pieces[0].dim):
        # (what is joined lies row-major in memory of its own, and the order in which its elements are added up is that
        # of the memory)
        value, along, first, end = pieces[0]
        middle = (first + end) // 2
        pieces = [_Piece(value, along, first, middle), _Piece(value, along, middle, end)]
    parts = [_part(builder, piece, at, is_stack) for piece in pieces]
    return results_of(builder, parts[0] if len(parts) == 1 else aten.cat(tuple(parts), at))


def _pieces(values: Sequence[Value]) -> Iterator[_Piece]:
    i = 0
    while i < len(values):
        node, first = values[i].node, values[i].index
        if node is None or node.op is not _UNBIND:
            yield _Piece(values[i], 0, 0, 1)
            i += 1
            continue
        end = first
        while i < len(values) and values[i].node is node and values[i].index == end:
            i, end = i + 1, end + 1
        source, dim = node.args
        if end - first == 1:
            yield _Piece(values[i - 1], 0, 0, 1)
        else:
            yield _Piece(source, normalize_dim("unbind", dim, source.type.ndim), first, end)


def _part(builder: Builder, piece: _Piece, at: int, is_stack: bool) -> Handle:
    """Its rows, joined along a dim."""
    value, dim, first, end = piece
    part: Handle = builder.handle(value)
    if not piece.is_rows:
        return aten.unsqueeze(part, at) if is_stack else part
    if end - first != value.tensor_type.shape[dim]:
        part = aten.slice(part, dim, first, end, 1)
    return laid_along(part, dim, at, is_stack)
