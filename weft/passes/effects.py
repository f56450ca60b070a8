"""Effects order a program: which nodes keep their places, and which must follow which though no value
flows between them.

random   is functional in a captured graph: offsets are inputs, and order nothing
raises   a check: it comes before any state is written (the planner's affair), and stays on its side of every
         io and python node. Those of numbers alone keep their order, which costs no fusion: the first error is raised
io, python   keep their order among each other, and with the checks around them: what a failed check would have
             prevented does not happen before it
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.ir.graph import Node
from weft.ops.op import Op

ORDERED = frozenset(("io", "python"))
KEPT = ORDERED | {"raises"}
STAYS = KEPT | {"random"}  # nodes that stay though nobody reads their results: a draw keeps its place among the draws


def has_effect(node: Node, effects: frozenset[str] = KEPT) -> bool:
    """Whether a node, or one in its blocks, has one of the effects."""
    return node.op.effect in effects or any(op.effect in effects for block in node.blocks for op in block.operators())


def must_stay(node: Node) -> bool:
    """Whether a node, or one in its blocks, does something that is not its result: it writes, draws from a generator of
    the program's, raises. One that only looks at what others write can go.
    """
    return _acts(node.op) or any(_acts(op) for block in node.blocks for op in block.operators())


def _acts(op: Op) -> bool:
    return (op.observes or op.effect) in STAYS


def _is_of_numbers(node: Node) -> bool:
    return not (node.blocks or node.op.tensor_positions or node.op.tensor_list_positions)


def effect_order(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """The nodes of a block that each node must directly follow because of effects; nothing for most programs."""
    predecessors: dict[Node, tuple[Node, ...]] = {}
    barrier: tuple[Node, ...] = ()  # the latest io or python node
    checks: list[Node] = []  # since then
    of_numbers: tuple[Node, ...] = ()  # the latest of them that is of numbers alone
    for node in nodes:
        if not has_effect(node):
            continue
        if has_effect(node, ORDERED):
            predecessors[node] = (*barrier, *checks)
            barrier, checks, of_numbers = (node,), [], ()
        else:
            predecessors[node] = of_numbers if _is_of_numbers(node) and of_numbers else barrier
            of_numbers = (node,) if _is_of_numbers(node) else of_numbers
            checks.append(node)
    return {node: before for node, before in predecessors.items() if before}
