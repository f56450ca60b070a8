"""batch_products: equal small products become one batched product: a matrix product of its own costs more than its
arithmetic where the matrices are small. Sizes are what shape_analysis has found out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import weft.catalogue  # noqa: F401  # defines the operators
from weft.ir.builder import Builder
from weft.ir.copies import Values, fitted, fitted_block
from weft.ir.graph import Block, Graph, Node, Value, map_operand, values_in
from weft.ops.packet import aten
from weft.passes.scripted.memory import Memory, writes_anything
from weft.passes.scripted.product_trees import fold_product_trees
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

_MM, _BMM, _STACK, _UNBIND = (p.overloads[0] for p in (aten.mm, aten.bmm, aten.stack, aten.unbind))
_CALL = 3000.0  # what a call of an operator costs, in elements that are moved
_CALLS = 4  # of those that make one product of many: two stacks, the product, its parts
_MOVE = 2.0  # an element that is stacked is read and written
_Kind = tuple[DType, int, int, int]


@dataclass(eq=False)
class _Group:
    """Products of one kind: `ready` is where all their operands are known, `needed` where the first result is read."""

    kind: _Kind
    members: list[Node] = field(default_factory=list)
    ready: int = -1
    needed: int = 1 << 60

    def takes(self, node: Node, ready: int, needed: int) -> bool:
        """Add a product, if there is a place where all can be computed at once."""
        mine = {m.output for m in self.members}
        if max(self.ready, ready) >= min(self.needed, needed) or any(v in mine for v in node.inputs()):
            return False
        self.members.append(node)
        self.ready, self.needed = max(self.ready, ready), min(self.needed, needed)
        return True

    @property
    def gains(self) -> bool:
        """Whether one batched product costs less."""
        _, n, k, m = self.kind
        moved = len(self.members) * (n * k + k * m)
        return (len(self.members) - _CALLS) * _CALL > moved * _MOVE


def batch_products(graph: Graph) -> Graph:
    """The graph with sums of products as one product, and groups of equal small products in one batched product, where
    that gains; the same object where it does not.
    """
    graph = fold_product_trees(graph, _CALL, _MOVE)
    block = _block(graph.block, {}, Memory(graph))
    return graph if block is graph.block else Graph(graph.name, block, graph.env, graph.writes)


def _block(block: Block, values: Values, memory: Memory) -> Block:
    groups = _groups(block, memory)
    members = {n for g in groups for n in g.members}
    builder = Builder()
    for i, node in enumerate(block.nodes):
        for group in groups:
            if group.ready + 1 == i:
                _emit(builder, group, values)
        if node not in members:
            _keep(builder, node, values, memory)
    return fitted_block(block, builder.nodes, tuple(map_operand(r, values) for r in block.results))


def _keep(builder: Builder, node: Node, values: Values, memory: Memory) -> None:
    args = tuple(map_operand(a, values) for a in node.args)
    kept = fitted(node, args, tuple(_block(b, dict(values), memory) for b in node.blocks))
    builder.nodes.append(kept)
    if kept is not node:
        values.update(zip(node.outputs, kept.outputs, strict=True))


def _emit(builder: Builder, group: _Group, values: Values) -> None:
    """One batched product, and its parts for the results."""
    dtype, n, k, m = group.kind
    count = len(group.members)
    builder.where = group.members[0].where
    sides = [tuple(map_operand(node.args[side], values) for node in group.members) for side in (0, 1)]
    kinds = (tensor_type(dtype, (count, n, k)), tensor_type(dtype, (count, k, m)))
    first, second = (
        builder.emit_raw(_STACK, (parts, 0), (kind,)).output for parts, kind in zip(sides, kinds, strict=True)
    )
    product = builder.emit_raw(_BMM, (first, second), (tensor_type(dtype, (count, n, m)),)).output
    parts = builder.emit_raw(_UNBIND, (product, 0), (tensor_type(dtype, (n, m)),) * count).outputs
    for node, part in zip(group.members, parts, strict=True):
        part.name = node.output.name
        values[node.output] = part


# ---- what goes together
def _groups(block: Block, memory: Memory) -> list[_Group]:
    defined_at = {v: i for i, node in enumerate(block.nodes) for v in node.outputs}
    read = _first_reads(block)
    open_groups: list[_Group] = []
    groups: list[_Group] = []
    since = -1
    for i, node in enumerate(block.nodes):
        if any(map(writes_anything, node.walk())):
            open_groups, since = [], i  # a mode is switched: nothing moves across
        kind = _kind(node, memory)
        if kind is None:
            continue
        ready = max((defined_at[v] for v in node.inputs() if v in defined_at), default=-1)
        needed = min(read.get(node.output, len(block.nodes)), len(block.nodes))
        if not any(g.kind == kind and g.takes(node, ready, needed) for g in open_groups):
            group = _Group(kind, ready=since)
            group.takes(node, ready, needed)
            open_groups.append(group)
            groups.append(group)
    return [g for g in groups if g.gains]


def _first_reads(block: Block) -> dict[Value, int]:
    first_reads: dict[Value, int] = {}
    for i, node in enumerate(block.nodes):
        for value in node.reads():
            first_reads.setdefault(value, i)
    for value in values_in(block.results):
        first_reads.setdefault(value, len(block.nodes))
    return first_reads


def _kind(node: Node, memory: Memory) -> _Kind | None:
    """dtype and sizes of a product whose operands and result nobody writes."""
    if node.op is not _MM or any(memory.is_written(v) for v in (*node.inputs(), node.output)):
        return None
    first, second = (v.type for v in node.args)
    if not _is_matrix(first) or not _is_matrix(second):
        return None
    return _sizes(first, second)


def _is_matrix(kind: object) -> bool:
    return isinstance(kind, TensorType) and kind.is_complete and kind.ndim == 2


def _sizes(first: TensorType, second: TensorType) -> _Kind | None:
    (n, k), m = first.shape, second.shape[1]
    dtype = first.dtype
    if dtype is None or dtype is not second.dtype or not all(type(d) is int for d in (n, k, m)):
        return None
    return dtype, n, k, m  # type: ignore[return-value]
