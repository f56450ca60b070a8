"""Structural equality of graphs: the same operators on the same values in the same order,
whatever the values are called."""

from __future__ import annotations

from weft.ir.builder import memo_key
from weft.ir.graph import Block, Graph, Node, Operand, Value


def difference(a: Graph, b: Graph) -> str | None:
    """The first difference between two graphs in words, or None if they are equal. Source lines and names of values do
    not count."""
    if a.name != b.name:
        return f"names differ: @{a.name}, @{b.name}"
    if sorted(a.writes) != sorted(b.writes):
        return f"writes differ: {a.writes}, {b.writes}"
    if a.env.examples != b.env.examples:
        return f"examples differ: {a.env.examples}, {b.env.examples}"
    answers = [{str(r): g.answer for r, g in env.guards.items()} for env in (a.env, b.env)]
    if answers[0] != answers[1]:
        return f"guards differ: {answers[0]}, {answers[1]}"
    return _blocks(a.block, b.block, {}, "graph")


Pairs = dict[Value, Value]


def _blocks(a: Block, b: Block, pairs: Pairs, where: str) -> str | None:
    if len(a.params) != len(b.params) or len(a.nodes) != len(b.nodes):
        return f"{where}: {len(a.params)} parameters and {len(a.nodes)} nodes, {len(b.params)} and {len(b.nodes)}"
    for p, q in zip(a.params, b.params, strict=True):
        if p.type is not q.type:
            return f"{where}: parameter types differ: {p.type}, {q.type}"
        pairs[p] = q
    for i, (m, n) in enumerate(zip(a.nodes, b.nodes, strict=True)):
        found = _nodes(m, n, pairs, f"{where}, node {i} ({m.op.name})")
        if found is not None:
            return found
    return None if _operands(a.results, b.results, pairs) else f"{where}: results differ"


def _nodes(a: Node, b: Node, pairs: Pairs, where: str) -> str | None:
    if a.op is not b.op:
        return f"{where}: the operator is {b.op.name}"
    if not _operands(a.args, b.args, pairs):
        return f"{where}: arguments differ: {a.args}, {b.args}"
    if [v.type for v in a.outputs] != [v.type for v in b.outputs] or len(a.blocks) != len(b.blocks):
        return f"{where}: results differ: {a.outputs}, {b.outputs}"
    pairs.update(zip(a.outputs, b.outputs, strict=True))
    for i, (x, y) in enumerate(zip(a.blocks, b.blocks, strict=True)):
        found = _blocks(x, y, pairs, f"{where}, block {i}")
        if found is not None:
            return found
    return None


def _operands(a: Operand, b: Operand, pairs: Pairs) -> bool:
    if type(a) is not type(b):
        return False
    if type(a) is Value:
        return pairs.get(a) is b
    if type(a) is tuple:
        return len(a) == len(b) and all(_operands(x, y, pairs) for x, y in zip(a, b, strict=True))
    return bool(memo_key(a) == memo_key(b))
