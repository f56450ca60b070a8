"""dce: leave out nodes whose results nobody reads, in blocks too, and what prim::If and prim::Loop give
that nobody takes.

Nodes with effects stay, and so does control flow around one.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.ir.copies import fitted_block
from weft.ir.graph import Block, Graph, Node, Operand, Value, each_value, map_operands, values_in
from weft.ir.structure import IF, LATER, WHOLE
from weft.passes.effects import STAYS, must_stay
from weft.passes.unbacked import binders, mentioned_by, symbols_in

_AS_A_WHOLE = frozenset((*WHOLE, *LATER))  # whose block is kept with all its results
Kept = dict[Block, list[Node]]  # the nodes of each block that stay


def dce(graph: Graph, effects: frozenset[str] = STAYS) -> Graph:
    """The graph without dead nodes. Values keep their identity, but for results of control flow that gives
    fewer than before. effects: those whose nodes stay."""
    live = _Live(values_in(graph.results))
    live.effects = effects
    if graph.env.has_unbacked:
        live.binders = binders(graph.block)
        live.bind(symbols_in(graph.results))
    kept: Kept = {}
    _mark(graph.block, live, kept)
    block = _swept(graph.block, live, kept, {})
    return graph if block is graph.block else Graph(graph.name, block, graph.env, graph.writes)


# ---- what lives
class _Live(set[Value]):
    """The values that are read. effects: those whose nodes stay. binders: the values that unbacked sizes come from, one
    in each block that finds them; a size that is mentioned reads them."""

    effects = STAYS
    binders: dict[str, list[Value]] = {}  # noqa: RUF012  most programs have none, and share this

    def bind(self, symbols: Iterable[str]) -> None:
        """Read the values that these sizes come from."""
        for symbol in symbols:
            self.update(self.binders.get(symbol, ()))


def _mark(block: Block, live: _Live, kept: Kept) -> None:
    """Find the nodes of a block to keep, from the last to the first, and the values that they need."""
    nodes: list[Node] = []
    for node in reversed(block.nodes):
        if live.isdisjoint(node.outputs) and not must_stay(node, live.effects):
            continue
        nodes.append(node)
        if live.binders:
            live.bind(mentioned_by(node))
        if not node.blocks:
            each_value(node.args, live.add)  # (most are looked at once: no list is kept of them)
        elif node.op is IF:
            _mark_if(node, live, kept)
        elif node.op in _AS_A_WHOLE:
            live.update((*node.inputs(), *values_in(node.blocks[0].results)))
            _mark(node.blocks[0], live, kept)
        else:
            _mark_loop(node, live, kept)
    nodes.reverse()
    kept[block] = nodes


def _mark_if(node: Node, live: _Live, kept: Kept) -> None:
    live.update(node.inputs())
    for block in node.blocks:
        for output, result in zip(node.outputs, block.results, strict=True):
            if output in live:
                live.update(values_in(result))
        _mark(block, live, kept)


def _mark_loop(node: Node, live: _Live, kept: Kept) -> None:
    """What a step reads of the step before lives too, so the block is looked at until nothing is added."""
    (block,) = node.blocks
    trip, condition, carried, xs, _ = node.args
    live.update(values_in((trip, condition, block.results[0])))
    before = -1
    while len(live) != before:
        before = len(live)
        for i in _loop_slots(node, live):
            live.update(values_in(block.results[1 + i]))
        _mark(block, live, kept)
    slots = _loop_slots(node, live)
    live.update(values_in(tuple(carried[i] for i in slots if i < len(carried))))
    live.update(values_in(tuple(xs[i] for i in _loop_slices(node, live))))


def _loop_slots(node: Node, live: set[Value]) -> list[int]:
    """Positions of the results that a loop must still make: what somebody reads after it, or the next step."""
    params, carried = node.blocks[0].params, len(node.args[2])
    return [i for i, v in enumerate(node.outputs) if v in live or (i < carried and params[1 + i] in live)]


def _loop_slices(node: Node, live: set[Value]) -> list[int]:
    """Positions of the xs whose slices the block reads."""
    params = node.blocks[0].params[1 + len(node.args[2]) :]
    return [i for i, p in enumerate(params) if p in live]


# ---- what is left
def _swept(block: Block, live: set[Value], kept: Kept, env: dict[Value, Operand]) -> Block:
    """The block with the kept nodes only; itself if that is all of it and `env` (values that were replaced)
    changes nothing."""
    nodes = [_fitted(node, live, kept, env) if env or node.blocks else node for node in kept[block]]
    results = map_operands(block.results, env)
    return fitted_block(block, nodes, results)


def _fitted(node: Node, live: set[Value], kept: Kept, env: dict[Value, Operand]) -> Node:
    """A kept node over replaced values, with what is still wanted of it."""
    args = map_operands(node.args, env)
    if not node.blocks:
        return node if args == node.args else _replaced(node, args, list(range(len(node.outputs))), (), env)
    blocks = tuple([_swept(b, live, kept, env) for b in node.blocks])
    if node.op in _AS_A_WHOLE:
        slots, new_blocks = list(range(len(node.outputs))), blocks
    elif node.op is IF:
        slots = [i for i, v in enumerate(node.outputs) if v in live]
        new_blocks = tuple([Block(b.params, b.nodes, tuple([b.results[i] for i in slots])) for b in blocks])
    else:
        slots = _loop_slots(node, live)
        slices = _loop_slices(node, live)
        args, new_blocks = _narrowed(node, args, blocks[0], slots, slices)
    unchanged = (
        len(slots) == len(node.outputs) and args == node.args
        and all(a is b for a, b in zip(blocks, node.blocks, strict=True))
    )
    return node if unchanged else _replaced(node, args, slots, new_blocks, env)


def _narrowed(
    node: Node, args: tuple[Operand, ...], block: Block, slots: list[int], slices: list[int]
) -> tuple[tuple[Operand, ...], tuple[Block, ...]]:
    """A loop's arguments and block with some of what it carries, goes over and stacks."""
    trip, condition, carried, xs, reverse = args
    states = [i for i in slots if i < len(carried)]
    params = (
        block.params[0], *(block.params[1 + i] for i in states), *(block.params[1 + len(carried) + i] for i in slices)
    )
    results = (block.results[0], *(block.results[1 + i] for i in slots))
    narrowed = (trip, condition, tuple([carried[i] for i in states]), tuple([xs[i] for i in slices]), reverse)
    return narrowed, (Block(params, block.nodes, results),)


def _replaced(
    node: Node, args: tuple[Operand, ...], slots: list[int], blocks: tuple[Block, ...], env: dict[Value, Operand]
) -> Node:
    fresh = Node(node.op, args, tuple([node.outputs[i].type for i in slots]), blocks, node.where)
    for i, new in zip(slots, fresh.outputs, strict=True):
        new.name = node.outputs[i].name
        env[node.outputs[i]] = new
    return fresh
