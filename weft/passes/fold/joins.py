"""Stacks and concatenations of many values: of what loops have computed they are views of what those have stacked; of
other values of one type, a loop puts them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Node, Operand, Value
from weft.ir.structure import LOOP, TABLE
from weft.ops.packet import aten
from weft.passes.fold.loop_plan import Inner, LoopPlan, Slot
from weft.passes.fold.plan import Planner
from weft.types.tensor_type import INT, TensorType

_STACK = aten.stack.default.op
JOINING = (_STACK, aten.cat.default.op)
MANY = 64  # values that one kernel joins; its code grows with them

Stacks = Mapping[tuple[LoopPlan, Inner | Slot], Value]


@dataclass
class _Piece:
    """Values that follow each other in a list: one, or what successive iterations of a loop have computed, from the
    first one on or back from there."""

    loop: LoopPlan | None
    source: Inner
    first: int
    values: list[Value]
    step: int = 0

    def takes(self, other: _Piece) -> bool:
        """Make the first value of another piece the next one of this, if it is."""
        step = other.first - self.first - self.step * (len(self.values) - 1)
        is_next = step in (1, -1) and self.step in (0, step)  # (the same value twice is not the next one)
        if self.loop is None or (other.loop, other.source) != (self.loop, self.source) or not is_next:
            return False
        self.step = step
        self.values += other.values
        return True


def _pieces(planner: Planner, values: Sequence[Value]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for value in values:
        piece = _Piece(None, Inner(0, 0), 0, [value])
        place = planner.place(value)
        if place is not None:
            loop, iteration, position = place
            source = loop.skipped.get(position, Inner(position, value.index))
            if isinstance(source, Inner):
                piece = _Piece(loop, source, iteration, [value])
        if not pieces or not pieces[-1].takes(piece):
            pieces.append(piece)
    return pieces


def joins_rows(planner: Planner, node: Node) -> bool:
    """Whether a node joins what loops have computed, mostly one iteration after the other."""
    return node.op in JOINING and 2 * len(_pieces(planner, node.args[0])) <= len(node.args[0])


def joins_many(node: Node) -> bool:
    """Whether a node joins many values of one type that lie in memory of their own."""
    if node.op not in JOINING or len(node.args[0]) < MANY:
        return False
    values, dim = node.args
    kind = values[0].type
    is_in_front = dim == 0 or (node.op is _STACK and dim == -1 - kind.ndim) or dim == -kind.ndim != 0
    return (
        is_in_front and isinstance(kind, TensorType) and kind.is_complete and (node.op is _STACK or kind.ndim > 0)
        and all([v.type is kind and _has_own_memory(v) for v in values])
    )


def _has_own_memory(value: Value) -> bool:
    """Whether a value is no view of another one, nor of an operator that is still to be opened and may give one: a
    gradient that is found to fit its tensor is what it was, say a row."""
    return value.node is None or (value.node.op.view is None and value.node.op.decompose is None)


def joined(
    builder: Builder, planner: Planner, node: Node, stacks: Stacks, outer: Callable[[Operand], Operand]
) -> Operand | None:
    """What stands for a node that joins values; None where it is to stay. stacks: what loops have stacked; outer: what
    stands for a value."""
    if node.op not in JOINING:
        return None
    values, dim = node.args
    pieces = _pieces(planner, values)
    has_stacks = all([p.loop is None or len(p.values) == 1 or (p.loop, p.source) in stacks for p in pieces])
    if 2 * len(pieces) > len(values) or not has_stacks:
        return _copied(builder, node, [outer(v) for v in values]) if joins_many(node) else None
    is_stack = node.op is _STACK
    parts = []
    for piece in pieces:
        if piece.loop is None or len(piece.values) == 1:
            part = builder.handle(outer(piece.values[0]))
            parts.append(aten.unsqueeze(part, dim) if is_stack else part)
            continue
        rows = builder.handle(stacks[piece.loop, piece.source])
        at = dim % (rows.ndim if is_stack else rows.ndim - 1)
        # along another dim in two pieces: what is joined lies row-major in memory of its own, and the order in
        # which its elements are added up is that of the memory
        count = len(piece.values)
        ends = [(0, count // 2), (count // 2, count)] if at else [(0, count)]
        parts += [_part(rows, piece, start, end, at, is_stack) for start, end in ends]
    return builder.operand(parts[0] if len(parts) == 1 else aten.cat(parts, dim))


def _part(rows: Handle, piece: _Piece, start: int, end: int, at: int, is_stack: bool) -> Handle:
    """Some values of a piece, stacked or joined along a dim. rows: what its loop has stacked."""
    assert piece.loop is not None
    first, last = (piece.first + piece.step * i for i in (start, end - 1))
    if piece.loop.is_reversed:
        first, last = (piece.loop.run.iterations - 1 - i for i in (first, last))
    if end - start < rows.dims[0]:
        rows = aten.slice(rows, 0, min(first, last), max(first, last) + 1, 1)
    if last < first:
        rows = aten.flip(rows, (0,))
    return laid_along(rows, 0, at, is_stack)


def laid_along(rows: Handle, dim: int, at: int, is_stack: bool) -> Handle:
    """Rows that follow each other along a dim, stacked along another one, or joined."""
    if dim != at:
        rows = aten.movedim(rows, dim, at)
    if not is_stack:
        dims = rows.dims
        rows = aten.reshape(rows, (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]))
    return rows


def _copied(builder: Builder, node: Node, values: list[Operand]) -> Operand:
    """Values joined along their first dim by a loop that copies one in each iteration."""
    table = builder.emit(TABLE, (tuple(values),)).output
    with builder.inner() as body, body.active():
        body.param(INT, "step")
        row = body.param(table.tensor_type.row)
        block = body.block([True, row])
    copies = builder.emit_raw(LOOP, (len(values), True, (), (table,), False), (table.type,), (block,), node.where)
    return builder.operand(aten.reshape(builder.handle(copies.output), node.output.tensor_type.shape))
