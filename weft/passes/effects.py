"""Effects order a program: which nodes keep their places, and which must follow which though no value
flows between them.

random   is functional in a captured graph: offsets are inputs, and order nothing
raises   a check: it comes before any state is written (the planner's affair), and stays on its side of every
         io and python node. Those of numbers alone keep their order, which costs no fusion: the first error is raised
io, python   keep their order among each other, and with the checks around them: what a failed check would have
             prevented does not happen before it

`overlap` has messages under way while a program computes: what an entry does in two halves (Op.halves) is started where
its operands are there, and waited for where nothing is left that could be computed without it. Starts keep their order,
among each other and among all else that has effects. The first start of a program carries the order of all of them as a
text, which is compared with that of the other processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ops.op import Op
from weft.passes.rebuild import rebuild

ORDERED = frozenset(("io", "python"))
KEPT = ORDERED | {"raises"}
STAYS = KEPT | {"random"}  # nodes that stay though nobody reads their results: a draw keeps its place among the draws


def has_effect(node: Node, effects: frozenset[str] = KEPT) -> bool:
    """Whether a node, or one in its blocks, has one of the effects."""
    return node.op.effect in effects or any(op.effect in effects for block in node.blocks for op in block.operators())


def must_stay(node: Node, effects: frozenset[str] = STAYS) -> bool:
    """Whether a node, or one in its blocks, does something that is not its result: it writes, draws from a generator of
    the program's, raises. One that only looks at what others write can go.
    """
    return _acts(node.op, effects) or any(_acts(op, effects) for block in node.blocks for op in block.operators())


def _acts(op: Op, effects: frozenset[str]) -> bool:
    return (op.observes or op.effect) in effects


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


def overlap(graph: Graph) -> Graph:
    """The graph with both halves in place of such nodes. Within loops and branches one follows the other; where sizes
    are bound on the way, which other nodes must follow, all stay whole."""
    calls = [node for node in graph.nodes if node.op.halves is not None]
    if not calls or graph.env.has_unbacked:
        return graph
    order = ["; ".join(map(_text, calls))]

    def split(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        if node.op.halves is None:
            return None
        start, wait = node.op.halves
        (ticket,) = builder.emit(start, (*args, order.pop() if order else "")).outputs
        return builder.emit(wait, (args[0], ticket)).outputs

    halved = rebuild(graph, split, lambda node: node.op.halves is not None)
    waits = {node.op.halves[1] for node in calls if node.op.halves is not None}
    nodes = _waiting_late(halved.nodes, {node for node in halved.nodes if node.op in waits})
    return Graph(halved.name, Block(halved.params, nodes, halved.results), halved.env, halved.writes)


def _text(node: Node) -> str:
    """`comm::all_reduce(f32[26], SUM, 0, False)`."""
    return f"{node.op.name}({', '.join(str(a.type) if isinstance(a, Value) else str(a) for a in node.args)})"


def _waiting_late(nodes: Sequence[Node], waits: set[Node]) -> tuple[Node, ...]:
    """The nodes in an order in which each wait comes when all is done that can be done without it."""
    follows = effect_order([node for node in nodes if node not in waits])
    ordered: list[Node] = []
    rest = list(nodes)
    while rest:
        put_off: list[Node] = []
        late: set[Node | Value] = set()
        for node in rest:
            is_late = node in waits or not late.isdisjoint(node.needs()) or not late.isdisjoint(follows.get(node, ()))
            if is_late:
                put_off.append(node)
                late.update((node, *node.outputs))
            else:
                ordered.append(node)
        rest = put_off
        if rest:
            ordered.append(rest.pop(next(i for i, node in enumerate(rest) if node in waits)))
    return tuple(ordered)
