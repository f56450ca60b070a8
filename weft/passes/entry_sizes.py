"""Unbacked sizes across a cut: what one half of a program finds while it runs (a `u` symbol) is bound on entry
(an `s`) to the half that goes on."""

from __future__ import annotations

from collections.abc import Collection

from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.passes.unbacked import mentioned
from weft.types import dims
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import TensorType, Type


def bind_on_entry(graph: Graph, found: Collection[str]) -> tuple[Graph, dict[str, str]]:
    """The graph with fresh `s` symbols in place of those in `found`, and which stands for which:
    new name -> found name."""
    used = sorted(set(mentioned(graph.block)).intersection(found))
    if not used:
        return graph, {}
    names = {name: graph.env.fresh("s") for name in used}
    block = _Renaming(dict(names)).block(graph.block)
    return Graph(graph.name, block, graph.env, graph.writes), {str(new): old for old, new in names.items()}


class _Renaming:
    """Copies blocks with symbols replaced."""

    def __init__(self, names: dict[str, Dim]) -> None:
        self.names = names
        self.values: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        params = tuple(self._value(v, Value(self._type(v.type), v.name)) for v in block.params)
        nodes = tuple(self._node(n) for n in block.nodes)
        return Block(params, nodes, tuple(self._operand(r) for r in block.results))

    def _node(self, node: Node) -> Node:
        blocks = tuple(self.block(b) for b in node.blocks)
        copy = Node(
            node.op, tuple(self._operand(a) for a in node.args), tuple(self._type(v.type) for v in node.outputs),
            blocks, node.where,
        )
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name = old.name
            self._value(old, new)
        return copy

    def _value(self, old: Value, new: Value) -> Value:
        self.values[old] = new
        return new

    def _operand(self, operand: Operand) -> Operand:
        if type(operand) is Value:
            return self.values.get(operand, operand)
        if type(operand) is tuple:
            return tuple(self._operand(part) for part in operand)
        return dims.substitute(operand, self.names) if type(operand) is Expr else operand

    def _type(self, kind: Type) -> Type:
        if not isinstance(kind, TensorType) or kind.dims is None:
            return kind
        return kind.with_dims(tuple(dims.substitute(d, self.names) if isinstance(d, Expr) else d for d in kind.dims))
