"""unroll: small loops go several steps at a time.

A loop of n steps becomes one of n // 8 steps of eight bodies, and one of the n % 8 that remain; a loop of few steps
that are known becomes its bodies. A loop that may stop early asks between the bodies, and goes on only where none has
stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.structure import IF, LOOP
from weft.ops.op import OPS
from weft.passes.rebuild import rebuild, spliced
from weft.types.tensor_type import BOOL, INT, Type

FACTOR = 8
MAX_NODES = 32  # of a body
MAX_STEPS = 16  # of a loop that goes away
_ADD, _SUB, _MUL, _QUOTIENT, _LARGER = (OPS[f"prim::{n}"] for n in ("add", "sub", "mul", "floordiv", "max"))


def unroll(graph: Graph) -> Graph:
    """The graph with its innermost small loops unrolled."""
    mine: set[Block] = set()
    return rebuild(graph, lambda builder, node, args: _unrolled(builder, node, mine), keep_order=True)


def _unrolled(builder: Builder, node: Node, mine: set[Block]) -> tuple[Operand, ...] | None:
    if node.op is not LOOP or not _is_small(node, mine):
        return None
    trip, condition, carried, _, _ = node.args
    if type(trip) is int and trip <= MAX_STEPS:
        if trip <= 0 or condition is False:
            return tuple(carried)
        return _steps(builder, node.blocks[0], 0, trip, condition, tuple(carried))[1]
    return _split(builder, node, mine)


def _is_small(node: Node, mine: set[Block]) -> bool:
    """Whether a loop has a short body of plain nodes and choices, which is no unrolled one."""
    _, _, carried, xs, _ = node.args
    (block,) = node.blocks
    inner = list(block.walk())
    return (
        not xs and len(node.outputs) == len(carried) and block not in mine and len(inner) <= MAX_NODES
        and all(n.op is not LOOP for n in inner) and not _is_marked(inner) and not _is_rest(node.args[0])
    )


def _is_marked(inner: Sequence[Node]) -> bool:
    """Whether a body counts its steps by the factor: an unrolled loop that was read from text."""
    return any(n.op is _MUL and n.args[1] == FACTOR and type(n.args[1]) is int for n in inner)


def _is_rest(trip: Operand) -> bool:
    """Whether so many steps are what remained of a loop."""
    producer = trip.node if isinstance(trip, Value) else None
    done = producer.args[1] if producer is not None and producer.op is _SUB else None
    return isinstance(done, Value) and done.node is not None and _is_marked([done.node])


def _split(builder: Builder, node: Node, mine: set[Block]) -> tuple[Operand, ...]:
    trip, condition, carried, _, _ = node.args
    (block,) = node.blocks
    kinds = [v.type for v in node.outputs]
    count: Operand = max(trip, 0) if type(trip) is int else builder.emit_raw(_LARGER, (trip, 0), (INT,)).output
    eights = _number(builder, _QUOTIENT, count, FACTOR)
    ahead = _many(builder, block, eights, condition, tuple(carried), kinds, mine)
    again, states = (True, ahead) if _goes_on(block) else (ahead[0], ahead[1:])
    again = condition if again is True else again
    done = _number(builder, _MUL, eights, FACTOR)
    rest = _number(builder, _SUB, count, done)
    if type(rest) is int:
        return _steps(builder, block, done, rest, again, states)[1]
    return _rest(builder, block, done, rest, again, states, kinds)


def _goes_on(block: Block) -> bool:
    return block.results[0] is True


def _number(builder: Builder, op: object, a: Operand, b: Operand) -> Operand:
    """A number that is computed, now where both are known."""
    assert op in (_ADD, _SUB, _MUL, _QUOTIENT)
    if type(a) is int and type(b) is int:
        return {_ADD: a + b, _SUB: a - b, _MUL: a * b, _QUOTIENT: a // b if b else 0}[op]
    if b == 0 and type(b) is int and op is _ADD:
        return a
    return builder.emit_raw(op, (a, b), (INT,)).output


def _many(
    builder: Builder, block: Block, eights: Operand, condition: Operand, carried: tuple[Operand, ...],
    kinds: Sequence[Type], mine: set[Block],
) -> tuple[Operand, ...]:
    """The loop of so many times FACTOR bodies; its first result is whether to go on, if that is a question."""
    index, asked = Value(INT, "i"), not _goes_on(block)
    params = [Value(p.type, p.name) for p in block.params[1:]]
    inner = Builder()
    inner.where = builder.where
    first = _number(inner, _MUL, index, FACTOR)
    again, left = _steps(inner, block, first, FACTOR, True, tuple(params))
    flag = [Value(BOOL)] if asked else []
    body = Block((index, *flag, *params), tuple(inner.nodes), (again, *([again] if asked else []), *left))
    mine.add(body)
    start = (condition, *carried) if asked else carried
    types = (BOOL, *kinds) if asked else tuple(kinds)
    return builder.emit_raw(LOOP, (eights, condition, start, (), False), tuple(types), (body,)).outputs


def _steps(
    builder: Builder, block: Block, first: Operand, count: int, again: Operand, states: tuple[Operand, ...]
) -> tuple[Operand, tuple[Operand, ...]]:
    """`count` bodies, each where the one before went on: whether the last goes on, and what is carried."""
    for k in range(count):
        if again is False:
            return again, states
        if again is not True:
            return _asked(builder, block, _number(builder, _ADD, first, k), count - k, again, states)
        again, *left = spliced(builder, block, (_number(builder, _ADD, first, k), *states))
        states = tuple(left)
    return again, states


def _asked(
    builder: Builder, block: Block, first: Operand, count: int, again: Operand, states: tuple[Operand, ...]
) -> tuple[Operand, tuple[Operand, ...]]:
    """The bodies that follow, if the one before goes on."""
    inner = Builder()
    inner.where = builder.where
    last, left = _steps(inner, block, first, count, True, states)
    branches = (Block((), tuple(inner.nodes), (last, *left)), Block((), (), (False, *states)))
    types = [BOOL, *(p.type for p in block.params[1:])]
    branch = builder.emit_raw(IF, (again,), tuple(types), branches)
    return branch.outputs[0], branch.outputs[1:]


def _rest(
    builder: Builder, block: Block, done: Operand, rest: Operand, again: Operand, states: tuple[Operand, ...],
    kinds: Sequence[Type],
) -> tuple[Operand, ...]:
    """The loop over the steps that remain."""
    index = Value(INT, "i")
    params = [Value(p.type, p.name) for p in block.params[1:]]
    inner = Builder()
    inner.where = builder.where
    results = spliced(inner, block, (_number(inner, _ADD, index, done), *params))
    body = Block((index, *params), tuple(inner.nodes), results)
    return builder.emit_raw(LOOP, (rest, again, states, (), False), tuple(kinds), (body,)).outputs
