"""Sizes that the program counts before something has them.

count_steps: where a tensor says how many steps a loop makes, the number becomes a size that the program finds, as
the size of what nonzero gives is. Then what the loop stacks and goes over lies in memory of a known size, and native
code runs it. Within a block, the size is found each time that the block runs.

Such are the loops of the backward of weft.while_loop: an earlier loop has counted the steps.

count_picks: where a mask decides a size that only the run knows, how often it holds is counted first. The size is
then bound before the operator that picks, which native code runs in memory of that size. What an operator counts its
entry says (Op.counted).
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.ir.builder import Builder
from weft.ir.copies import remade
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.structure import LOOP, STEPS
from weft.passes.alias import dims_of
from weft.passes.rebuild import rebuild
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType, tensor_type


def count_steps(graph: Graph) -> Graph:
    """The graph with sizes in place of tensors as trip counts of loops over rows."""
    counted = _counted(graph.block, frozenset()) if graph.env.has_unbacked else {}
    if not counted:
        return graph
    open_nodes: list[Node] = []

    def sized(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        entry = counted.get(open_nodes.pop())
        if entry is None:
            return None
        length, is_first = entry
        if is_first:
            builder.emit_raw(STEPS, (args[0],), (tensor_type(dt.bool_, (length, 0)),))
        loop = remade(node, (length, *args[1:]), node.blocks)
        builder.nodes.append(loop)
        return loop.outputs

    return rebuild(graph, sized, keep_order=True, enter=open_nodes.append)


def _counted(block: Block, emitted: frozenset[tuple[Operand, Expr]]) -> dict[Node, tuple[Expr, bool]]:
    """The loops whose number of steps becomes a size, and whether it is not known by then."""
    lengths: dict[Node, tuple[Expr, bool]] = {}
    for node in block.nodes:
        for inner in node.blocks:
            lengths.update(_counted(inner, emitted))
        length = _length(node)
        if length is not None:
            lengths[node] = length, (node.args[0], length) not in emitted
            emitted |= {(node.args[0], length)}
    return lengths


def _length(node: Node) -> Expr | None:
    """The size of a loop's rows, if it is the number in a 0-dim tensor."""
    if node.op is not LOOP or not isinstance(node.args[0], Value) or not isinstance(node.args[0].type, TensorType):
        return None
    rows = (*node.args[3], *node.outputs[len(node.args[2]) :])
    length = rows[0].tensor_type.shape[0] if rows else None
    return length if isinstance(length, Expr) and (length.symbol_name or "")[:1] == "u" else None


# ---- picks
def count_picks(graph: Graph) -> Graph:
    """The graph with such sizes bound by the counts."""
    first = uncounted(graph)
    if not first:
        return graph

    def counted(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        assert node.op.counted is not None
        count = node.op.counted(*(builder.handle(a) for a in args))
        if count is None:
            return None
        size = _size_of(node)
        # as it stands: an equal count may have another name already
        builder.emit_raw(STEPS, (builder.operand(count),), (tensor_type(dt.bool_, (size, 0)),))
        return builder.emit_like(node, args).outputs

    return rebuild(graph, counted, first.__contains__)


def uncounted(graph: Graph) -> set[Node]:
    """The operators that would be counted and are not: they tell their sizes only once they have run."""
    return _first_with_a_size(graph.block, frozenset()) if graph.env.has_unbacked else set()


def _first_with_a_size(block: Block, bound: frozenset[Expr]) -> set[Node]:
    """The nodes that say how large their results are, and are the first to have that size."""
    nodes: set[Node] = set()
    for node in block.nodes:
        size = _size_of(node) if node.op.counted is not None else None
        if size is not None and size not in bound:
            nodes.add(node)
        for inner in node.blocks:
            nodes |= _first_with_a_size(inner, bound)
        bound |= _sizes(node.outputs)
    return nodes


def _size_of(node: Node) -> Expr | None:
    """The size that a node's results have and none of its arguments."""
    sizes = _sizes(node.outputs) - _sizes(node.inputs())
    return next(iter(sizes)) if len(sizes) == 1 else None


def _sizes(values: Iterable[Value]) -> frozenset[Expr]:
    """The sizes that only the run knows."""
    dims = [d for value in values for d in dims_of(value) if isinstance(d, Expr)]
    return frozenset(d for d in dims if (d.symbol_name or "")[:1] == "u")
