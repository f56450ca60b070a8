"""Sizes that a node finds while the program runs (nonzero, masks): whatever is sized by one of them waits for the node, though it reads no value of it."""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.graph import Node, Operand, Value
from weft.passes.alias import Aliases, dims_of
from weft.types.dims import Expr
from weft.types.shape_env import ShapeEnv


class RunTimeSizes:
    """Which value's computation binds each symbol that has no example; nothing is looked at in programs without such symbols."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.exist = env.counts.get("u", 0) > 0
        self.binders: dict[str, Value] = {}

    def note(self, node: Node) -> None:
        """Remember what a node binds. Nodes come in program order."""
        if not self.exist:
            return
        for value in node.outputs:
            for symbol in self._unknown(dims_of(value)):
                self.binders.setdefault(symbol, value)

    def awaited(self, node: Node, aliases: Aliases) -> list[Value]:
        """The values that must be there before the node's sizes, strides and numbers are known; those that it binds itself left out."""
        if not self.binders:
            return []
        found = {self.binders[s]: None for s in self._used(node, aliases) if s in self.binders}
        return [value for value in found if value not in node.outputs]

    def _used(self, node: Node, aliases: Aliases) -> Iterator[str]:
        for value in node.outputs:
            yield from self._unknown(dims_of(value))
        for operand in node.args:
            yield from self._of_operand(operand, aliases)
        for block in node.blocks:
            for inner in block.nodes:
                yield from self._used(inner, aliases)

    def _of_operand(self, operand: Operand, aliases: Aliases) -> Iterator[str]:
        if type(operand) is tuple:
            for item in operand:
                yield from self._of_operand(item, aliases)
        elif type(operand) is Value:
            yield from self._unknown(dims_of(operand))
            shown = aliases.geometry.get(operand)
            if shown is not None:
                yield from self._unknown((*shown[1].dims, *shown[1].strides, shown[1].offset))
        elif type(operand) is Expr:
            yield from self._unknown((operand,))

    def _unknown(self, dims: tuple[object, ...]) -> Iterator[str]:
        for d in dims:
            if type(d) is Expr:
                yield from (s for s in d.symbols() if s not in self.env.examples)
