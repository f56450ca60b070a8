"""A block with loops in place of what repeats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Block, Node, Operand, Value, values_in
from weft.ir.structure import LOOP, ROWS, TABLE
from weft.ops.packet import aten
from weft.passes.fold.joins import joined, joins_rows
from weft.passes.fold.loop_plan import (
    Counting,
    Inner,
    Invariant,
    ListedRows,
    LoopPlan,
    LoopRows,
    MemoryRows,
    NoLoop,
    NumberRows,
    Rows,
    Slot,
    Source,
)
from weft.passes.fold.plan import Planner, is_typed
from weft.passes.fold.repeats import with_operands
from weft.passes.fold.rows import Moving, read, written
from weft.passes.rebuild import append
from weft.types.tensor_type import INT, TensorType, Type


def needed_rows(planner: Planner, loops: Sequence[LoopPlan], results: Iterable[Operand]) -> dict[LoopPlan, _Needs]:
    """What is read of each loop from outside. Raises Unreadable where that cannot be had."""
    needs = {loop: _Needs() for loop in loops}

    def note(operand: Operand, joins: bool = False) -> None:
        for value in values_in(operand):
            place = planner.place(value)
            if place is not None:
                loop, iteration, position = place
                needs[loop].read(loop, iteration, position, value.index, joins)

    for number, node in enumerate(planner.nodes):
        if number not in planner.loop_at:
            is_joining = joins_rows(planner, node)
            for value in node.needs():
                note(value, is_joining)
    for result in results:
        note(result)
    for loop in loops:
        for operand in _outer_operands(loop):
            note(operand)
        for rows in loop.rows:
            if isinstance(rows, LoopRows):
                source = rows.source
                if not is_typed(rows.loop.node(0, source.position).outputs[source.index]):
                    raise Unreadable(loop, "a value of unknown sizes is read")
                needs[rows.loop].stacked[source] = None
    return needs


class Unreadable(NoLoop):
    """Something is read from outside that a loop does not keep."""

    def __init__(self, loop: LoopPlan, text: str) -> None:
        super().__init__(text)
        self.loop = loop


class _Needs:
    """What is read of a loop. stacked: what it keeps of each iteration; last: what it keeps of the last one;
    alone: the iterations of which a value is read by itself."""

    def __init__(self) -> None:
        self.stacked: dict[Inner | Slot, None] = {}
        self.last: dict[Inner, None] = {}
        self.alone: dict[Inner, set[int]] = {}

    def is_spread(self, source: Inner | Slot, iterations: int) -> bool:
        """Whether what a loop keeps of each iteration is mostly read by itself, and had better lie by itself."""
        return isinstance(source, Inner) and 2 * len(self.alone.get(source, ())) > iterations

    def read(self, loop: LoopPlan, iteration: int, position: int, index: int, joins: bool) -> None:
        """A value is read. joins: by what joins it to others."""
        is_last = iteration == loop.run.iterations - 1
        if position in loop.records or position in loop.sums:
            if not is_last:
                raise Unreadable(loop, "memory is read from outside as it was in the middle of the loop")
            return
        if position in loop.skipped:
            source = loop.skipped[position]
            if not isinstance(source, Inner):  # (of what the loop goes over: read again)
                if not isinstance(source, MemoryRows):
                    raise Unreadable(loop, "a part of memory that the loop writes is read from outside")
                return
            position, index = source.position, source.index
        if not is_typed(loop.node(0, position).outputs[index]):
            raise Unreadable(loop, "a value of unknown sizes is read from outside")
        inner = Inner(position, index)
        if not joins:
            self.alone.setdefault(inner, set()).add(iteration)
        if loop.slot_of(inner, loop.run.iterations - iteration) is None:  # (else it is still carried at the end)
            (self.last if is_last else self.stacked)[inner] = None


def _outer_operands(loop: LoopPlan) -> list[Operand]:
    """What a loop reads of values around it."""
    operands: list[Operand] = []
    for sources in loop.sources:
        operands += [s.operand for s in sources if isinstance(s, Invariant)]
    for slot in loop.slots:
        operands.append(slot.initial[0] if isinstance(slot.initial, tuple) else slot.initial)
    for rows in loop.rows:
        if isinstance(rows, MemoryRows):
            operands.append(rows.value)
        elif isinstance(rows, ListedRows):
            operands += rows.values
    operands += [record.initial for record in loop.records.values()]
    operands += [total.initial for total in loop.sums.values()]
    return operands + [row.operand for row in loop.written_rows if isinstance(row, Invariant)]


class Folder:
    """Writes a block's nodes into a builder, with loops."""

    def __init__(self, builder: Builder, planner: Planner, needs: dict[LoopPlan, _Needs]) -> None:
        self.builder, self.planner, self.needs = builder, planner, needs
        self.env: dict[Value, Operand] = builder.replaced
        self.stacks: dict[tuple[LoopPlan, Inner | Slot], Value] = {}
        self.finals: dict[tuple[LoopPlan, Inner, int], Value] = {}  # by iteration

    def fold(self, loops: Sequence[LoopPlan]) -> None:
        """Write all nodes."""
        starts = {loop.run.start: loop for loop in loops}
        nodes, at = self.planner.nodes, 0
        while at < len(nodes):
            loop = starts.get(at)
            if loop is None:
                self._node(nodes[at])
                at += 1
                continue
            self.builder.where = nodes[at].where
            _LoopWriter(self, loop).write()
            at = loop.run.end

    def outer(self, operand: Operand) -> Operand:
        """What stands for an operand at the top."""
        kind = type(operand)
        if kind is tuple:
            return tuple([self.outer(part) for part in operand])
        if kind is not Value:
            return operand
        if operand not in self.env:
            place = self.planner.place(operand)
            if place is None:
                return operand
            self.env[operand] = self._of_loop(operand, *place)
        return self.env[operand]

    def _of_loop(self, value: Value, loop: LoopPlan, iteration: int, position: int) -> Operand:
        inner = Inner(position, value.index)
        skipped = loop.skipped.get(position)
        if isinstance(skipped, MemoryRows):
            return self._row(skipped.value, skipped.moves, iteration)
        if isinstance(skipped, Inner):
            inner = skipped
        if (loop, inner, iteration) in self.finals:
            return self.finals[loop, inner, iteration]
        stack = self.stacks[loop, inner]
        row = loop.run.iterations - 1 - iteration if loop.is_reversed else iteration
        return self.builder.operand(aten.select(self.builder.handle(stack), 0, row))

    def _row(self, value: Value, moves: Moving, iteration: int) -> Operand:
        source = self.builder.handle(self.outer(value))
        return self.builder.operand(aten.select(read(source, moves.shifted(iteration), 1), 0, 0))

    def _node(self, node: Node) -> None:
        """A node that is in no loop."""
        self.builder.where = node.where
        whole = joined(self.builder, self.planner, node, self.stacks, self.outer)
        if whole is not None:
            self.env[node.output] = whole
            return
        for value in node.needs():
            self.outer(value)
        append(self.builder, Block((), (node,), ()), self.env)


class _LoopWriter:
    """Writes one loop."""

    def __init__(self, folder: Folder, loop: LoopPlan) -> None:
        self.folder, self.loop, self.builder = folder, loop, folder.builder
        self.count = loop.run.iterations
        self.needs = folder.needs[loop]
        self.own: dict[Inner, Operand] = {}

    def write(self) -> None:
        """Write the loop, and note where what it gives is."""
        loop, builder, folder = self.loop, self.builder, self.folder
        invariants = {
            v: folder.outer(v) for operand in _outer_operands(loop) for v in values_in(operand)
        }
        slots, all_rows = list(loop.slots), list(loop.rows)
        initial = [self._initial(slot) for slot in slots]
        sliced = [self._rows(rows) for rows in all_rows]
        last = [inner for inner in self.needs.last if inner not in self.needs.stacked]
        kinds = [loop.node(1, inner.position).outputs[inner.index].type for inner in last]
        zeros = [self._zeros(kind) for kind in kinds]
        stacked = list(self.needs.stacked)
        with builder.inner() as body, body.active():
            index = body.param(INT, "step")
            carried = [body.param(v.type) for v in initial]
            for kind in kinds:
                body.param(kind)
            rows = [body.param(v.tensor_type.row) for v in sliced]
            places: dict[Any, Operand] = {**dict(zip(slots, carried, strict=True)),
                                          **dict(zip(all_rows, rows, strict=True))}
            self._body(body, index, places, invariants)

            def operand(source: Source | Inner | Slot) -> Value:
                value = self._operand(body, source, index, places, invariants)
                assert isinstance(value, Value)
                return value

            following = [operand(s.newer if s.newer is not None else Inner(s.position, s.index)) for s in slots]
            ends = [operand(inner) for inner in last]
            ys = [operand(source) for source in stacked] + [operand(row) for row in loop.written_rows]
            block = body.block([True, *following, *ends, *ys])
        types = [*[v.type for v in initial], *kinds, *[y.tensor_type.stacked(self.count) for y in ys]]
        args = (self.count, True, (*initial, *zeros), tuple(sliced), loop.is_reversed)
        node = builder.emit_raw(LOOP, args, tuple(types), (block,), loop.node(0, 0).where)
        outputs = iter(node.outputs)
        for slot, output in zip(slots, outputs, strict=False):
            folder.finals[loop, Inner(slot.position, slot.index), self.count - slot.lag] = output
        self._note_results(node, len(slots), last, stacked)

    def _note_results(self, node: Node, count: int, last: list[Inner], stacked: list[Inner | Slot]) -> None:
        folder, loop, outputs = self.folder, self.loop, iter(node.outputs[count:])
        for inner, output in zip(last, outputs, strict=False):
            folder.finals[loop, inner, self.count - 1] = output
        for source in stacked:
            stack = next(outputs)
            if isinstance(source, Inner) and self.needs.is_spread(source, self.count):
                rows = self.builder.emit(ROWS, (stack,)).outputs
                for t, row in enumerate(rows[::-1] if loop.is_reversed else rows):
                    folder.finals[loop, source, t] = row
            else:
                folder.stacks[loop, source] = stack
        for record in loop.records.values():
            base = self.builder.handle(folder.outer(record.initial))
            self._note_memory(record.position, self._written(base, record.moves, next(outputs)))
        for total in loop.sums.values():
            sum_of_rows = aten.add(self.builder.handle(folder.outer(total.initial)), 0)  # (other rows get zeros too)
            zeros = aten.zeros(sum_of_rows.dims, dtype=sum_of_rows.dtype)
            for moves, _ in total.parts:
                sum_of_rows = aten.add(sum_of_rows, self._written(zeros, moves, next(outputs)))
            self._note_memory(total.position, sum_of_rows)

    def _note_memory(self, position: int, handle: Handle) -> None:
        self.folder.env[self.loop.node(self.count - 1, position).output] = self.builder.operand(handle)

    def _written(self, base: Handle, moves: Moving, stack: Value) -> Handle:
        """Memory with the rows that the loop has stacked."""
        rows = self.builder.handle(stack)
        if moves.is_backwards is not self.loop.is_reversed:
            rows = aten.flip(rows, (0,))
        return written(base, moves, rows, self.count)

    # ---- what goes in
    def _initial(self, slot: Slot) -> Value:
        if isinstance(slot.initial, tuple):
            value = self.folder._row(*slot.initial, 0)
        else:
            value = self.folder.outer(slot.initial)
        assert isinstance(value, Value)
        return value

    def _zeros(self, kind: Type) -> Value:
        assert isinstance(kind, TensorType)
        zeros = aten.zeros(kind.shape, dtype=kind.dtype)
        value = self.builder.operand(zeros)
        assert isinstance(value, Value)
        return value

    def _rows(self, rows: Rows) -> Value:
        """What the loop goes over, in the order of its index."""
        builder, reverse = self.builder, self.loop.is_reversed
        handle: Any
        if isinstance(rows, NumberRows):
            handle = builder.handle(builder.constant(np.array(rows.numbers[::-1] if reverse else rows.numbers)))
        elif isinstance(rows, ListedRows):
            return self._table([self.folder.outer(v) for v in rows.values])
        elif isinstance(rows, MemoryRows):
            handle = read(builder.handle(self.folder.outer(rows.value)), rows.moves, self.count)
            if rows.moves.is_backwards is not reverse:
                handle = aten.flip(handle, (0,))
        elif (rows.loop, rows.source) not in self.folder.stacks:
            iterations = range(rows.first, rows.first + rows.direction * self.count, rows.direction)
            assert isinstance(rows.source, Inner)
            return self._table([self.folder.finals[rows.loop, rows.source, t] for t in iterations])
        else:
            handle = self._loop_rows(rows)
        value = builder.operand(handle)
        assert isinstance(value, Value)
        return value

    def _table(self, values: Sequence[Operand]) -> Value:
        """Values of the iterations as a table."""
        return self.builder.emit(TABLE, (tuple(values[::-1] if self.loop.is_reversed else values),)).output

    def _loop_rows(self, rows: LoopRows) -> Handle:
        other = rows.loop
        stack = self.builder.handle(self.folder.stacks[other, rows.source])
        ends = [rows.first, rows.first + rows.direction * (self.count - 1)]
        if other.is_reversed:
            ends = [other.run.iterations - 1 - at for at in ends]
        if min(ends) != 0 or max(ends) != other.run.iterations - 1:
            stack = aten.slice(stack, 0, min(ends), max(ends) + 1, 1)
        is_backwards = ends[0] > ends[1]
        turned: Handle = aten.flip(stack, (0,)) if is_backwards is not self.loop.is_reversed else stack
        return turned

    # ---- one iteration
    def _body(
        self, body: Builder, index: Value, places: dict[Any, Operand], invariants: dict[Value, Operand]
    ) -> None:
        loop = self.loop
        for position, sources in enumerate(loop.sources):
            if position in loop.skipped or position in loop.records:
                continue
            node = loop.node(1, position)
            body.where = node.where
            leaves = iter([self._operand(body, source, index, places, invariants) for source in sources])
            emitted = body.emit_like(node, with_operands(node.args, leaves))
            for i, (output, expected) in enumerate(zip(emitted.outputs, node.outputs, strict=True)):
                if output.type is not expected.type:
                    raise Unreadable(loop, f"{node.op.name}: the type of its result changes")
                self.own[Inner(position, i)] = output

    def _operand(
        self, body: Builder, source: Source, index: Value, places: dict[Any, Operand], invariants: dict[Value, Operand]
    ) -> Operand:
        if isinstance(source, Invariant):
            operand = source.operand
            return invariants[operand] if type(operand) is Value else operand
        if isinstance(source, Inner):
            if source in self.own:
                return self.own[source]
            skipped = self.loop.skipped[source.position]
            assert skipped is not None
            return self._operand(body, skipped, index, places, invariants)
        if isinstance(source, Counting):
            return self._number(body, source, index)
        return places[source]

    def _number(self, body: Builder, source: Counting, index: Value) -> Operand:
        first, step = source.first, source.step
        if self.loop.is_reversed:
            first, step = first + (self.count - 1) * step, -step
        number = body.emit(aten.mul.Tensor.op, (index, step)).output
        return body.emit(aten.add.Tensor.op, (number, first, 1)).output
