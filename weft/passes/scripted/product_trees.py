"""Sums of matrix products as one product: `a @ b + c @ d` is `cat([a, c], 1) @ cat([b, d], 0)`. Sizes are what
shape_analysis has found out.
"""

from __future__ import annotations

from collections import Counter

import weft.catalogue  # noqa: F401  # defines the operators
from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ops.packet import aten
from weft.passes.dce import dce
from weft.passes.rebuild import rebuild
from weft.passes.scripted.memory import Memory, writes_anything
from weft.types.tensor_type import TensorType, tensor_type

_ADD, _MM, _CAT = (p.overloads[0] for p in (aten.add, aten.mm, aten.cat))


def fold_product_trees(graph: Graph, call: float, move: float) -> Graph:
    """The graph with one product in place of each tree of sums of products, where that gains; the same object where it
    does not. call, move: what a call of an operator costs, and an element that is joined.
    """
    trees = _Trees(graph, call, move)
    after = rebuild(graph, trees.folded, keep_order=True, same=trees.memory.same)
    return graph if after is graph else dce(after)


class _Trees:
    """What is asked of one graph: who reads a value how often, and between which writes a node stands."""

    def __init__(self, graph: Graph, call: float, move: float) -> None:
        self.memory, self.call, self.move = Memory(graph), call, move
        self.reads: Counter[Value] = Counter(v for node in graph.walk() for v in node.reads())
        self.reads.update(values_in(graph.results))
        self.inner: set[Value] = set()  # sums that are read by another sum
        self.place: dict[Value, tuple[int, int]] = {}  # the block, and how many writes stand before
        self._visit(graph.block)

    def _visit(self, block: Block) -> None:
        writes = 0
        for node in block.nodes:
            for inner in node.blocks:
                self._visit(inner)
                self.reads.update(values_in(inner.results))
            writes += any(map(writes_anything, node.walk()))
            self.place.update((v, (id(block), writes)) for v in node.outputs)
            if _is_sum(node):
                self.inner.update(v for v in node.args[:2] if isinstance(v, Value))

    def folded(self, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        """One product for the tree that ends here."""
        if not _is_sum(node) or node.output in self.inner or node.output not in self.place:
            return None
        products: list[Node] = []
        if not all(self._collect(v, node.output, products) for v in node.args[:2]):
            return None
        kind, first = node.output.type, products[0].args[0].type
        assert isinstance(kind, TensorType) and isinstance(first, TensorType)
        inner = [p.args[0].type.shape[1] for p in products]
        moved = sum(k * (kind.shape[0] + kind.shape[1]) for k in inner)
        if (2 * len(products) - 1 - 3) * self.call <= moved * self.move:
            return None
        rows = tensor_type(first.dtype, (kind.shape[0], sum(inner)))
        columns = tensor_type(first.dtype, (sum(inner), kind.shape[1]))
        left = builder.emit_raw(_CAT, (tuple(p.args[0] for p in products), 1), (rows,)).output
        right = builder.emit_raw(_CAT, (tuple(p.args[1] for p in products), 0), (columns,)).output
        return builder.emit_raw(_MM, (left, right), (kind,)).outputs

    def _collect(self, value: Operand, root: Value, products: list[Node]) -> bool:
        """Whether a value is a product, or a sum of such, that only the tree reads and nobody writes."""
        node = value.node if isinstance(value, Value) else None
        if not isinstance(value, Value) or node is None or self.reads[value] != 1 or value.type != root.type:
            return False
        if self.place.get(value) != self.place[root] or self.memory.is_written(value) or not _is_sized(value.type):
            return False
        if _is_sum(node):
            return all(self._collect(v, root, products) for v in node.args[:2])
        if node.op is not _MM or any(self.memory.is_written(v) for v in node.inputs()):
            return False
        products.append(node)
        return all(isinstance(a, Value) and _is_sized(a.type) for a in node.args)


def _is_sum(node: Node) -> bool:
    return node.op is _ADD and (len(node.args) < 3 or node.args[2] == 1)


def _is_sized(kind: object) -> bool:
    return (
        isinstance(kind, TensorType) and kind.is_complete and kind.ndim == 2
        and all(type(n) is int for n in kind.shape)
    )
