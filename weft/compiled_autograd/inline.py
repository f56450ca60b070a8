"""The backward of a compiled forward inside a captured backward: its nodes, copied, behind a call that makes its
gradients (the prologue). What it gives for arguments without a gradient, or that nobody asks for, is left out before
it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ir.backward_calls import PROGRAM_PROLOGUE, SIZE_OF
from weft.ir.builder import Builder
from weft.ir.graph import Block, Node, Operand, Value
from weft.ir.printer import name_values
from weft.ir.structure import CONSTANT
from weft.programs.inlining import Body
from weft.support.locations import Location
from weft.types.dims import Expr
from weft.types.tensor_type import INT, TENSOR, TensorType


class Copies:
    """The bodies that a graph takes in. The names of a copy's values begin with its own prefix: `aot0_`, `aot0_1_` for
    the second copy of the same body. Constants are there once."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.uses: dict[Body, int] = {}
        self.constants: dict[Any, tuple[Value, ...]] = {}

    def add(
        self, body: Body, taken: Sequence[Operand], grads: Sequence[Operand], numbers: Sequence[Value],
        where: Location | None,
    ) -> list[Operand]:
        """Copy a body. numbers: for its symbols. Gives what stands for its results."""
        prefix = self._prefix(body)
        sizes = _Sizes(self.builder, dict(zip(body.symbols, numbers, strict=True)), where)
        missing = [
            None if g is not None else (tuple([sizes.operand(d) for d in p.tensor_type.shape]), p.tensor_type.dtype)
            for g, p in zip(grads, body.given, strict=True)
        ]
        tangents: tuple[Value, ...] = ()
        if grads:
            types = (TENSOR,) * len(grads)
            tangents = self.builder.emit_raw(
                PROGRAM_PROLOGUE, (tuple(grads), tuple(missing)), types, where=where
            ).outputs
        copy = _Copy(self, prefix, name_values(body.graph), sizes, where)
        values: dict[Value, Operand] = dict(zip(body.graph.params, (*taken, *tangents), strict=True))
        for value, param in zip(tangents, body.given, strict=True):
            copy.name(value, param)
        copy.nodes(body.graph.block, values, self.builder)
        return [copy.mapped(r, values) for r in body.graph.results]

    def constant(self, node: Node, where: Location | None) -> tuple[Value, ...]:
        """A constant, outside of all blocks."""
        key = repr(node.args)
        values = self.constants.get(key)
        if values is None:
            types = (TENSOR,) * len(node.outputs)
            values = self.constants[key] = self.builder.emit_raw(node.op, node.args, types, where=where).outputs
        return values

    def _prefix(self, body: Body) -> str:
        number = list(self.uses).index(body) if body in self.uses else len(self.uses)
        use = self.uses[body] = self.uses.get(body, -1) + 1
        return f"aot{number}_{use}_" if use else f"aot{number}_"


class _Copy:
    """One copy of a body: its nodes, with operands in place of its parameters and names of their own."""

    def __init__(
        self, copies: Copies, prefix: str, names: dict[Value, str], sizes: _Sizes, where: Location | None
    ) -> None:
        self.copies, self.prefix, self.names, self.sizes, self.where = copies, prefix, names, sizes, where

    def nodes(self, block: Block, values: dict[Value, Operand], builder: Builder) -> None:
        """Copy the nodes of a block, inner blocks included; `values` then holds theirs too."""
        for node in block.nodes:
            if node.op is CONSTANT:
                outputs = self.copies.constant(node, self.where)
            else:
                args = tuple([self.mapped(a, values) for a in node.args])
                blocks = tuple([self._block(b, values, builder) for b in node.blocks])
                types = (TENSOR,) * len(node.outputs)
                outputs = builder.emit_raw(node.op, args, types, blocks, node.where or self.where).outputs
            for old, new in zip(node.outputs, outputs, strict=True):
                values[old] = new
                self.name(new, old)

    def _block(self, block: Block, values: dict[Value, Operand], builder: Builder) -> Block:
        with builder.inner() as inner:
            scope = dict(values)
            for old in block.params:
                scope[old] = new = inner.param(TENSOR if isinstance(old.type, TensorType) else old.type)
                self.name(new, old)
            self.nodes(block, scope, inner)
            return inner.block([self.mapped(r, scope) for r in block.results])

    def name(self, new: Value, old: Value) -> None:
        """Name a value of the copy after the body's, unless an earlier copy has named it."""
        new.name = new.name or f"{self.prefix}{self.names[old]}"

    def mapped(self, operand: Operand, values: dict[Value, Operand]) -> Operand:
        """What stands for an operand in the copy."""
        kind = type(operand)
        if kind is tuple:
            return tuple([self.mapped(o, values) for o in operand])
        return values[operand] if kind is Value else self.sizes.operand(operand) if kind is Expr else operand


class _Sizes:
    """The sizes of a copy: numbers of the graph in place of symbols."""

    def __init__(self, builder: Builder, numbers: dict[str, Value], where: Location | None) -> None:
        self.builder, self.numbers, self.where = builder, numbers, where
        self.found: dict[Expr, Value] = {}

    def operand(self, dim: Operand) -> Operand:
        if type(dim) is not Expr:
            return dim
        name = dim.symbol_name
        if name is not None:
            return self.numbers[name]
        if dim not in self.found:
            names = tuple(sorted(dim.symbols()))
            values = tuple([self.numbers[n] for n in names])
            self.found[dim] = self.builder.emit_raw(SIZE_OF, (str(dim), names, values), (INT,), where=self.where).output
        return self.found[dim]
