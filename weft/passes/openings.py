"""What an operator is made of, recorded once for all nodes whose operands are of the same kinds, and repeated for the
others: a formula asks for nothing else of its operands, and a large graph has thousands of nodes of a few kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from weft.ir.builder import Builder, memo_key
from weft.ir.graph import Node, Operand, Value, map_operands
from weft.ops.op import Op
from weft.ops.route import default_route

Opened = tuple[Operand, ...] | None
Open = Callable[[Builder, Node, tuple[Operand, ...]], Opened]


class Opening(NamedTuple):
    """The nodes that an operator is made of, over parameters that stand for its operands. constants: those among them
    that hang on no operand, which stand outside of all blocks."""

    params: list[Value]
    nodes: list[Node]
    constants: set[Node]
    results: Opened

    def repeated(self, builder: Builder, operands: list[Value]) -> Opened:
        """The results for other operands."""
        values: dict[Value, Operand] = dict(zip(self.params, operands, strict=True))
        outermost = _outermost(builder)
        for node in self.nodes:
            place = outermost if node in self.constants else builder
            types = tuple([v.type for v in node.outputs])
            again = place.adopt(Node(node.op, map_operands(node.args, values), types, (), place.where))
            values.update(zip(node.outputs, again.outputs, strict=True))
        return None if self.results is None else map_operands(self.results, values)


class Openings:
    """Opens nodes by `opened`, each kind of them once. scratch: makes a builder that emits as theirs does."""

    def __init__(self, opened: Open, scratch: Callable[[], Builder]) -> None:
        self.opened, self.scratch = opened, scratch
        self._openings: dict[Any, Opening | None] = {}  # None: of a kind that was met once

    def __call__(self, builder: Builder, node: Node, args: tuple[Operand, ...]) -> Opened:
        """What stands for the results of a node."""
        if builder.env.has_unbacked or not node.op.origin.startswith("weft."):  # (a user's formula may ask anything)
            return self.opened(builder, node, args)
        operands: list[Value] = []
        key = (node.op, _kinds(args, operands))
        if not self._is_met(key):
            return self.opened(builder, node, args)
        opening = self._openings[key] or self._recorded(node, args, operands)
        if any(inner.blocks for inner in opening.nodes):
            return self.opened(builder, node, args)
        self._openings[key] = opening
        return opening.repeated(builder, operands)

    def _is_met(self, key: Any) -> bool:
        """Whether a node of this kind was opened before: what is met once is not worth a record."""
        try:
            if key in self._openings:
                return True
            self._openings[key] = None
        except TypeError:  # an immediate that is no key
            pass
        return False

    def _recorded(self, node: Node, args: tuple[Operand, ...], operands: list[Value]) -> Opening:
        builder = self.scratch()
        constants: set[Node] = set()

        def call_without_operands(op: Op, arguments: tuple[Any, ...]) -> Any:
            before = len(builder.nodes)
            handles = builder.call(op, arguments)
            constants.update(builder.nodes[before:])
            return handles

        # (each knows what made it, as the operand does: a view may lie otherwise)
        params = [Value(v.type, "", v.node, v.index) for v in operands]
        with builder.active(), default_route(call_without_operands):
            results = self.opened(builder, node, _over(args, iter(params)))
        for inner in builder.nodes:
            if inner.inputs() and all(v.node in constants for v in inner.inputs()):
                constants.add(inner)
        return Opening(params, builder.nodes, constants, results)


def _outermost(builder: Builder) -> Builder:
    while builder.parent is not None:
        builder = builder.parent
    return builder


def _kinds(args: tuple[Operand, ...], operands: list[Value]) -> tuple[Any, ...]:
    """All that a formula may ask of its arguments; `operands` gets their values."""
    kinds: list[Any] = []
    for a in args:
        kind = type(a)
        if kind is Value:
            operands.append(a)
            kinds.append(a.type if a.node is None or a.node.op.view is None else (a.type,))
        elif kind is tuple:
            kinds.append(_kinds(a, operands))
        else:
            kinds.append(memo_key(a))
    return tuple(kinds)


def _over(args: tuple[Operand, ...], values: Iterator[Value]) -> tuple[Operand, ...]:
    """The arguments with other values, in order."""
    return tuple([next(values) if type(a) is Value else _over(a, values) if type(a) is tuple else a for a in args])
