"""prim::If and prim::Loop as branches and loops of a native segment. What a loop carries stays in one place;
rows are read and written where they lie."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.emit import I8, I64, Value, const
from weft.codegen.program.functions import SegmentEmitter
from weft.ir.graph import Operand
from weft.ir.graph import Value as GraphValue
from weft.plan.items import BlockItem
from weft.plan.numbers import is_number
from weft.plan.storage import crossing, value_bytes
from weft.types.dims import Dim

Body = Callable[[int], None]  # emits the items of one of the blocks


def emit_if(emitter: SegmentEmitter, block: BlockItem, body: Body) -> None:
    """Run one of two arms and move its results to the node's."""
    with emitter.f.if_else(emitter.condition(block.node.args[0])) as branches:
        for arm, place in enumerate((branches.then, branches.otherwise)):
            with place:
                body(arm)
                _move_all(emitter, block.node.outputs, tuple(block.lowered[arm].results))


def emit_loop(emitter: SegmentEmitter, block: BlockItem, body: Body) -> None:
    """Run the body while it goes on, `trip` times at most."""
    f = emitter.f
    trip_operand, going, carried, _, reverse = block.node.args
    _move_all(emitter, block.node.outputs, tuple(carried))
    trip = emitter.count(trip_operand, block.params[0])
    with f.while_loop([(const(I64, 0), "step"), (emitter.condition(going), "going")]) as loop:
        step, goes_on = loop.carried
        loop.test(f.and_(f.icmp("slt", step, trip), goes_on))
        index = f.sub(f.sub(trip, 1), step, "index") if reverse else step
        emitter.write_number(block.params[0], index)
        _place_rows(emitter, block, index)
        body(0)
        following = emitter.condition(block.results[0])
        _stack(emitter, block, index)
        _carry(emitter, block)
        loop.next(f.add(step, 1, "step"), following)
    if going is not True or block.results[0] is not True:
        _clear_rest(emitter, block, loop.results[0], trip)


def _place_rows(emitter: SegmentEmitter, block: BlockItem, index: Value) -> None:
    starts = dict(zip(block.sliced, block.starts, strict=True))
    for owner, row, buffer in emitter.storage.rows:
        if owner is block:
            first = starts.get(buffer, 0)
            emitter.place(emitter.storage.of(row), _row_address(emitter, block, buffer, first, index, value_bytes(row)))


def _row_address(
    emitter: SegmentEmitter, block: BlockItem, buffer: GraphValue, start: Dim, index: Value, size: Dim
) -> Value:
    """Where the row of an iteration is. start: where the first row is in its buffer, in bytes."""
    if buffer in block.tables:
        return emitter.listed_address([emitter.storage.of(row) for row in block.tables[buffer]], index)
    return emitter.row_address(emitter.storage.of(buffer), start, index, size)


def _stack(emitter: SegmentEmitter, block: BlockItem, index: Value) -> None:
    """Copy the rows that no kernel could write in place."""
    count, storage = len(block.carried), emitter.storage
    direct = {buffer: row for owner, row, buffer in storage.rows if owner is block}
    for row, buffer in zip(block.results[1 + count :], block.node.outputs[count:], strict=True):
        if direct.get(buffer) is storage.owner(row):
            continue
        target = _row_address(emitter, block, buffer, 0, index, value_bytes(row))
        emitter.f.memcpy(target, emitter.address(storage.of(row)), emitter.read_dim(value_bytes(row)))


def _clear_rest(emitter: SegmentEmitter, block: BlockItem, steps: Value, trip: Value) -> None:
    """Zeros in the rows of steps that were not made, those from `steps` on (before them, if the loop runs backwards).
    """
    f = emitter.f
    left = f.select(f.icmp("slt", steps, trip), f.sub(trip, steps), const(I64, 0), "left")
    count = len(block.carried)
    for row, buffer in zip(block.results[1 + count :], block.node.outputs[count:], strict=True):
        size = emitter.read_dim(value_bytes(row))
        first = const(I64, 0) if block.node.args[4] else f.mul(steps, size, "first")
        target = f.gep(I8, emitter.address(emitter.storage.of(buffer)), first, "rest")
        f.memset(target, 0, f.mul(left, size))


def _carry(emitter: SegmentEmitter, block: BlockItem) -> None:
    """Move what is carried on into its place. Old values that cross over are kept aside first."""
    storage, results = emitter.storage, list(block.results[1 : 1 + len(block.carried)])
    crossed = crossing(block, storage)
    for output, source in crossed:
        emitter.move(storage.root[block, output], storage.of(source), value_bytes(output))
    for output, _ in crossed:
        emitter.move(storage.of(output), storage.root[block, output], value_bytes(output))
    done = {output for output, _ in crossed}
    pairs = [(o, r) for o, r in zip(block.node.outputs, results, strict=False) if o not in done]
    _move_all(emitter, tuple(o for o, _ in pairs), tuple(r for _, r in pairs))


def _move_all(emitter: SegmentEmitter, targets: tuple[GraphValue, ...], sources: tuple[Operand, ...]) -> None:
    """Numbers are all read before the first is written: one may be another's old value."""
    pairs = list(zip(targets, sources, strict=False))  # what a loop stacks has no source
    numbers = [(t, emitter.operand(s, t)) for t, s in pairs if is_number(t)]
    for target, number in numbers:
        emitter.write_number(target, number)
    for target, source in pairs:
        if not is_number(target):
            emitter.move(emitter.storage.of(target), emitter.storage.of(source), value_bytes(target))
