"""fold_cat: a cat of cats along the same dim is one cat of all the parts."""

from __future__ import annotations

from functools import partial

import weft.catalogue  # noqa: F401  # defines the operators
from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value
from weft.ops.packet import aten
from weft.passes.rebuild import rebuild
from weft.passes.scripted.memory import Memory

_CATS = frozenset(aten.cat.overloads)


def fold_cat(graph: Graph) -> Graph:
    """The graph with the parts of inner cats in the outer one. An inner cat that is written to stays, and so does one
    whose parts are: it holds what they were.
    """
    memory = Memory(graph)
    while True:
        after = rebuild(graph, partial(_folded, memory), keep_order=True, same=memory.same)
        if after is graph:
            return graph
        graph = after


def _folded(memory: Memory, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    if node.op not in _CATS or not isinstance(args[0], tuple):
        return None
    parts: list[Operand] = []
    for part in args[0]:
        inner = _parts(memory, part, node)
        parts += [part] if inner is None else inner
    if len(parts) == len(args[0]):
        return None
    return builder.emit_raw(node.op, (tuple(parts), *args[1:]), tuple([v.type for v in node.outputs])).outputs


def _parts(memory: Memory, operand: Operand, outer: Node) -> list[Operand] | None:
    """What a part of a cat is a cat of, along the same dim, if it is one and nobody writes any of it."""
    producer = operand.node if isinstance(operand, Value) else None
    if producer is None or producer.op is not outer.op or producer.args[1:] != outer.args[1:]:
        return None
    items = producer.args[0]
    if not isinstance(items, tuple) or len(items) < 2 or any(memory.is_written(v) for v in (operand, *items)):
        return None
    return list(items)
