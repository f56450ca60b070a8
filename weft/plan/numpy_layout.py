"""The layout of a program without native code: one host segment for each node (WEFT_BACKEND=numpy,
and the oracle of the native one)."""

from __future__ import annotations

from collections.abc import Iterable

from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.plan.numbers import KINDS, is_number
from weft.runtime.segments import (
    HEADER,
    Bind,
    Commit,
    HostSegment,
    Layout,
    NumberSlot,
    ObjectSlot,
    Result,
    Slot,
    TensorSlot,
)
from weft.types import dims as dm
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType, Type


def numpy_layout(graph: Graph) -> Layout:
    """The whole graph as host segments; writes happen after the last of them."""
    return _Plan(graph).layout()


def graph_symbols(graph: Graph) -> tuple[tuple[str, ...], int]:
    """Every symbol that the graph mentions, those bound on entry first (in the order of their creation),
    and how many these are."""
    used: dict[str, None] = {}
    types: set[Type] = set()  # that have been looked at

    def add_types(values: Iterable[Value]) -> None:
        for value in values:
            if value.type not in types:
                types.add(value.type)
                used.update(dict.fromkeys(type_symbols(value)))

    add_types(graph.params)
    _add_symbols(graph.results, used)
    for node in graph.walk():
        _add_symbols(node.args, used)
        for block in node.blocks:
            _add_symbols(block.results, used)
            add_types(block.params)
        add_types(node.outputs)
    order = {name: i for i, name in enumerate(graph.env.examples)}
    bound = sorted((s for s in used if s[0] != "u"), key=lambda s: order.get(s, len(order)))
    return (*bound, *(s for s in used if s[0] == "u")), len(bound)


def _add_symbols(operands: tuple[Operand, ...], used: dict[str, None]) -> None:
    for operand in operands:
        kind = type(operand)
        if kind is tuple:
            _add_symbols(operand, used)
        elif kind is Expr:
            used.update(dict.fromkeys(sorted(operand.symbols())))


def type_symbols(value: Value) -> Iterable[str]:
    """Symbols in the dims of a value's type, in order."""
    if isinstance(value.type, TensorType) and value.type.dims is not None:
        for d in value.type.dims:
            if isinstance(d, Expr):
                yield from sorted(dm.symbols(d))


def late_binds(node: Node, bound: set[str], word: dict[str, int]) -> tuple[Bind, ...]:
    """The symbols that a node's results determine: dims that are a bare `u` symbol not known before.
    `bound` is extended."""
    binds = []
    for position, output in enumerate(node.outputs):
        if not isinstance(output.type, TensorType) or output.type.dims is None:
            continue
        for axis, d in enumerate(output.type.dims):
            name = d.symbol_name if isinstance(d, Expr) else None
            if name is not None and name[0] == "u" and name not in bound:
                bound.add(name)
                binds.append(Bind(word[name], position, axis))
    return tuple(binds)


class _Plan:
    """Roots and words, handed out in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.slots: dict[Value, Slot] = {}
        self.roots = 0
        values = [*graph.params, *(v for n in graph.nodes for v in n.outputs)]
        self.symbols, self.given = graph_symbols(graph)
        self.symbol_word = HEADER + len(values)
        self.words = self.symbol_word + len(self.symbols)
        for value in values:
            self.slots[value] = self._slot(value)
        self.known: set[str] = set(self.symbols[: self.given])
        self.word_of = {name: self.symbol_word + i for i, name in enumerate(self.symbols)}

    def _slot(self, value: Value) -> Slot:
        root, self.roots = self.roots, self.roots + 1
        if isinstance(value.type, TensorType):
            dtype = value.type.dtype
            return TensorSlot(root, dtype.name if dtype is not None else "")
        if is_number(value):
            self.words += 1
            return NumberSlot(self.words - 1, KINDS[value.type])  # type: ignore[index]
        return ObjectSlot(root)

    def layout(self) -> Layout:
        graph = self.graph
        last = self._last_uses()
        segments = tuple(self._segment(i, node, last) for i, node in enumerate(graph.nodes))
        written = {param for _, param in graph.writes}
        position = {value: i for i, value in enumerate(graph.params)}
        targets = dict(graph.writes)
        results = tuple(self._result(i, operand, targets, written, position) for i, operand in enumerate(graph.results))
        moved = [(graph.results[o], p) for o, p in graph.writes if graph.results[o] is not graph.params[p]]
        commits = tuple(Commit(self.slots[value].root, p) for value, p in moved)  # type: ignore[union-attr]
        return Layout(
            tuple(self.slots[p] for p in graph.params), results, segments,
            self.roots, self.words, (), self.symbols, self.given, self.symbol_word, "", tuple(sorted(written)), commits,
            notes=tuple(f"numpy {n.op.name}" for n in graph.nodes))

    def _segment(self, index: int, node: Node, last: dict[Value, int]) -> HostSegment:
        inputs = node.needs()
        dying = [v for v in (*inputs, *node.outputs) if last.get(v, -1) <= index and v.node is not None]
        drops = tuple(dict.fromkeys(self.slots[v].root for v in dying if isinstance(v.type, TensorType)))  # type: ignore[union-attr]
        binds = late_binds(node, self.known, self.word_of)
        return HostSegment(
            index, tuple(self.slots[v] for v in inputs), tuple(self.slots[v] for v in node.outputs), binds, False, drops
        )

    def _last_uses(self) -> dict[Value, int]:
        """Index of the last node that reads a value; results live for ever."""
        last: dict[Value, int] = {}
        for i, node in enumerate(self.graph.nodes):
            last.update(dict.fromkeys(node.needs(), i))
        end = len(self.graph.nodes)
        last.update(dict.fromkeys(values_in(self.graph.results), end))
        return last

    def _result(
        self, index: int, operand: Operand, targets: dict[int, int], written: set[int], position: dict[Value, int]
    ) -> Result:
        if type(operand) is not Value:
            return Result("value", None, operand)
        if index in targets:
            return Result("given", self.slots[self.graph.params[targets[index]]])
        slot = self.slots[operand]
        if isinstance(slot, NumberSlot):
            return Result("number", slot)
        if operand in position:
            return Result("copied" if position[operand] in written else "given", slot)
        return Result("held", slot)
