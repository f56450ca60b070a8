"""Copies of blocks whose sizes are written otherwise: in types, and in integers among the arguments."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.graph import Block, Node, Operand, Value
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import TensorType, Type


class Resized:
    """Copies blocks, each symbolic size replaced by `size(it)`. `changed`: whether any became another."""

    def __init__(self, size: Callable[[Expr], Dim]) -> None:
        self._size = size
        self._values: dict[Value, Value] = {}
        self._types: dict[Type, Type] = {}
        self.changed = False

    def block(self, block: Block) -> Block:
        """The copy of a block and of those inside it."""
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
        self._values[old] = new
        return new

    def _operand(self, operand: Operand) -> Operand:
        if type(operand) is Value:
            return self._values.get(operand, operand)
        if type(operand) is tuple:
            return tuple([self._operand(part) for part in operand])
        return self._dim(operand) if type(operand) is Expr else operand

    def _dim(self, d: Expr) -> Dim:
        size = self._size(d)
        self.changed = self.changed or size != d
        return size

    def _type(self, kind: Type) -> Type:
        if not isinstance(kind, TensorType) or kind.dims is None:
            return kind
        found = self._types.get(kind)
        if found is None:
            dims = tuple([self._dim(d) if isinstance(d, Expr) else d for d in kind.dims])
            found = self._types[kind] = kind.with_dims(dims)
        return found
