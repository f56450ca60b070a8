"""Unbacked sizes, which a node gives while the program runs (nonzero, masks): whatever is sized by one of them waits
for the node, though it reads no value of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.ir.graph import Block, Node, Operand, Value
from weft.ir.structure import REFUSE
from weft.passes.alias import Aliases, dims_of
from weft.types.dims import Expr
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType, Type


def unbacked_sizes(nodes: Iterable[Node]) -> dict[str, Value]:
    """The first result that has each size which no program's caller knows."""
    by_symbol: dict[str, Value] = {}
    for node in nodes:
        for value in node.outputs:
            for symbol in symbols_of(value.type):
                if symbol[0] == "u":
                    by_symbol.setdefault(symbol, value)
    return by_symbol


def binders(block: Block) -> dict[str, list[Value]]:
    """By each such size, the first result that has it in each block: the backward of a branch finds its sizes again."""
    first: dict[str, list[Value]] = {symbol: [value] for symbol, value in unbacked_sizes(block.nodes).items()}
    for node in block.nodes:
        for inner in node.blocks:
            for symbol, values in binders(inner).items():
                first.setdefault(symbol, []).extend(values)
    return first


def mentioned(block: Block) -> set[str]:
    """Every symbol in a block."""
    types: set[Type] = set()
    sizes: set[Expr] = set()
    _note_sizes(block, types, sizes)
    return {s for kind in types for s in symbols_of(kind)}.union(*[size.symbols() for size in sizes])


def _note_sizes(block: Block, types: set[Type], sizes: set[Expr]) -> None:
    """Note where a block mentions symbols: types of its values, and sizes among its operands."""
    types.update([value.type for value in block.params])
    for node in block.nodes:
        _note_operands(node.args, sizes)
        types.update([value.type for value in node.outputs])
        for inner in node.blocks:
            _note_sizes(inner, types, sizes)
    _note_operands(block.results, sizes)


def _note_operands(operands: tuple[Operand, ...], sizes: set[Expr]) -> None:
    for operand in operands:
        kind = type(operand)
        if kind is Expr:
            sizes.add(operand)
        elif kind is tuple:
            _note_operands(operand, sizes)


def mentioned_by(node: Node) -> Iterator[str]:
    """Every symbol in a node's arguments, blocks and results' types, repeats included."""
    for operand in node.args:
        yield from symbols_in(operand)
    for inner in node.blocks:
        yield from mentioned(inner)
    for value in node.outputs:
        yield from symbols_of(value.type)


def symbols_in(operand: Operand) -> Iterator[str]:
    """The symbols of an immediate operand; those of a Value's type are not looked at."""
    if type(operand) is tuple:
        for part in operand:
            yield from symbols_in(part)
    elif type(operand) is Expr:
        yield from operand.symbols()


def symbols_of(kind: Type) -> Iterator[str]:
    """The symbols in a tensor type's dims."""
    if isinstance(kind, TensorType) and kind.dims is not None:
        for d in kind.dims:
            if type(d) is Expr:
                yield from d.symbols()


class UnbackedSizes:
    """Which value's computation binds each symbol that has no example;
    nothing is looked at in programs without such symbols."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.exist = env.has_unbacked
        self.binders: dict[str, Value] = {}
        self.checks: dict[str, list[Value]] = {}  # of each size: the checks of it so far, which come before its uses
        self.given: set[str] = set()  # those that a block finds bound: what its first node reads has them
        self.order: dict[Node | None, int] = {}
        self._in_number: dict[Value, tuple[str, ...]] = {}

    def note(self, node: Node) -> None:
        """Remember what a node binds. Nodes come in program order."""
        if not self.exist:
            return
        self.order[node] = len(self.order)
        read = (*symbols_in(node.args), *(s for v in node.inputs() for s in self._unknown(dims_of(v))))
        self.given.update(s for s in read if s not in self.binders)
        if node.op is REFUSE:
            for symbol in symbols_in(node.args[0]):
                self.checks.setdefault(symbol, []).append(node.output)
        for value in node.outputs:
            for symbol in self._unknown(dims_of(value)):
                if symbol not in self.given:
                    self.binders.setdefault(symbol, value)

    def awaited(self, node: Node, aliases: Aliases) -> list[Value]:
        """The values that must be there before the node's sizes, strides and numbers are known;
        those that it binds itself left out."""
        if not self.binders:
            return []
        used = dict.fromkeys(self._used(node, aliases))
        awaited = {self.binders[s]: None for s in used if s in self.binders}
        if self.checks and node.op is not REFUSE:
            order = self.order[node]
            checks = [check for s in used for check in self.checks.get(s, ())]
            awaited.update(dict.fromkeys(check for check in checks if self.order[check.node] < order))
        return [value for value in awaited if value not in node.outputs]

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
                yield from self._unknown((*dims_of(shown[0]), *shown[1].dims, *shown[1].strides, shown[1].offset))
            yield from self._of_number(operand, aliases)
        elif type(operand) is Expr:
            yield from self._unknown((operand,))

    def _of_number(self, value: Value, aliases: Aliases) -> tuple[str, ...]:
        """The sizes that a number is made of which its reader computes, or has computed just before: it is no item
        that could be waited for."""
        is_number = not isinstance(value.type, TensorType) or value in aliases.splats
        if value.node is None or not is_number:
            return ()
        symbols = self._in_number.get(value)
        if symbols is None:
            operands = value.node.args
            symbols = tuple(dict.fromkeys(s for a in operands for s in self._of_operand(a, aliases)))
            self._in_number[value] = symbols
        return symbols

    def _unknown(self, dims: tuple[object, ...]) -> Iterator[str]:
        for d in dims:
            if type(d) is Expr:
                yield from (s for s in d.symbols() if s[0] == "u")
