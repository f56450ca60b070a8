"""The printer: a graph as text that parses back to an equal graph (parser.py).

    graph @loss(%x: f32[s0, 128], %w: f32[128, 10]) {
      example s0 = 16
      %0: f32[s0, 10] = aten::matmul(%x, %w)  # train.py:12
      %y: f32[s0, 10] = prim::If(%p) {
        yield %0
      } else {
        %1: f32[s0, 10] = aten::relu(%0)
        yield %1
      }
      return %y, %4 -> %state
    }

Values come first and by position, literals by name, defaults not at all. `%4 -> %state` is a result that
is written into a parameter's storage. Values are numbered in order; a name that the user gave is kept, and made unique.
The same graph always prints the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from weft.ir.builder import memo_key
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ops.op import Op
from weft.types.dtype import DType
from weft.types.shape_env import ShapeEnv

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
_NO_DEFAULT = object()
_STRANGE = re.compile(r"[^A-Za-z0-9_]+")
INDENT = "  "


def print_graph(graph: Graph, locations: bool = True, symbols: bool = True) -> str:
    """The text of a graph.

    locations: whether nodes carry the user's line. symbols: whether the example values of symbols and the guards
    are stated. Without both the text is canonical: two graphs have the same if and only if they compute the same
    in the same steps under the same names.
    """
    return "\n".join(_Printer(graph, locations).lines(symbols))


_AROUND = 10  # lines


def print_around(graph: Graph, node: Node | None) -> str:
    """Some ten numbered lines of a graph's text, those around a node, which is marked with `>`
    (no node: the first lines)."""
    printer = _Printer(graph, True)
    lines: list[str] = []
    at: int | None = None
    for line in printer.lines(True):
        if printer.current is node and node is not None and at is None:
            at = len(lines)
        lines.append(line)
    start = max(0, min((at or 0) - _AROUND // 2, len(lines) - _AROUND))
    shown = range(start, min(start + _AROUND, len(lines)))
    return "\n".join(f"{'>' if i == at else ' '} {i + 1:4} | {lines[i]}" for i in shown)


def name_values(graph: Graph) -> dict[Value, str]:
    """The names (without `%`) that the printer gives to the values of a graph."""
    return {value: name.removeprefix("%") for value, name in _Printer(graph, True).names.items()}


class _Printer:
    """One printing of one graph."""

    def __init__(self, graph: Graph | None, locations: bool) -> None:
        self.graph, self.locations = graph, locations
        self.names: dict[Value, str] = {}
        self.current: Node | None = None  # the node whose line was yielded last
        self._defaults: dict[Op, tuple[tuple[str, Any], ...]] = {}
        if graph is not None:
            self._taken: set[str] = set()
            self._counts: dict[str, int] = {}  # by name, how many have it
            self._number = 0
            self._name_block(graph.block)

    # ---- names
    def _name_block(self, block: Block) -> None:
        for p in block.params:
            self._name(p)
        for node in block.nodes:
            for value in node.outputs:
                self._name(value)
            for inner in node.blocks:
                self._name_block(inner)

    def _name(self, value: Value) -> None:
        if not value.name:
            self.names[value] = f"%{self._number}"
            self._number += 1
            return
        stem = _STRANGE.sub("_", value.name)
        stem = f"_{stem}" if stem[0].isdigit() else stem
        name, count = stem, self._counts.get(stem, 0)
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._counts[stem] = count
        self._taken.add(name)
        self.names[value] = f"%{name}"

    def name(self, value: Value) -> str:
        """`%x`; a value from elsewhere (of a graph that is wrong) shows as `%?`."""
        return self.names.get(value) or f"%{value.name}?"

    # ---- lines
    def lines(self, symbols: bool) -> Iterator[str]:
        graph = self.graph
        assert graph is not None
        yield f"graph {graph_name(graph.name)}({self._declared(graph.params)}) {{"
        if symbols:
            yield from (INDENT + line for line in symbol_lines(graph.env, self.locations))
        yield from self._nodes(graph.block, INDENT)
        yield f"{INDENT}return {self._results(graph)}".rstrip()
        yield "}"

    def _results(self, graph: Graph) -> str:
        targets: dict[int, list[int]] = {}
        for position, param in sorted(graph.writes):
            targets.setdefault(position, []).append(param)
        parts = []
        for i, result in enumerate(graph.results):
            written = "".join(f" -> {self._param(graph, p)}" for p in targets.get(i, ()))
            parts.append(self.literal(result) + written)
        return ", ".join(parts)

    def _param(self, graph: Graph, position: int) -> str:
        return self.name(graph.params[position]) if position < len(graph.params) else "%?"

    def _nodes(self, block: Block, indent: str) -> Iterator[str]:
        for node in block.nodes:
            head = indent + self.header(node)
            self.current = node
            where = f"  # {node.where}" if self.locations and node.where is not None else ""
            if not node.blocks:
                yield head + where
                continue
            for i, inner in enumerate(node.blocks):
                params = f" ({self._declared(inner.params)})" if inner.params else ""
                yield (head if i == 0 else f"{indent}}} else") + params + " {" + (where if i == 0 else "")
                yield from self._nodes(inner, indent + INDENT)
                results = ", ".join(self.literal(r) for r in inner.results)
                yield f"{indent}{INDENT}yield {results}".rstrip()
            yield f"{indent}}}"

    def header(self, node: Node) -> str:
        """`%0: f32[s0, 10] = aten::matmul(%x, %w)`."""
        outputs = ", ".join([f"{self.name(v)}: {v.type.text}" for v in node.outputs])
        call = f"{node.op.name}({', '.join(self._arguments(node))})"
        return f"{outputs} = {call}" if outputs else call

    def _declared(self, params: Sequence[Value]) -> str:
        return ", ".join(f"{self.name(p)}: {p.type}" for p in params)

    def _arguments(self, node: Node) -> list[str]:
        texts: list[str] = []
        positional = True
        for (name, default), value in zip(self._defaults_of(node.op), node.args, strict=False):
            if type(value) is not Value:
                if default is not _NO_DEFAULT and memo_key(value) == default:
                    positional = False
                    continue
                positional = positional and bool(values_in(value))
            text = self.literal(value)
            texts.append(text if positional else f"{name}={text}")
        return texts

    def _defaults_of(self, op: Op) -> tuple[tuple[str, Any], ...]:
        """The names of an operator's arguments, with their defaults."""
        defaults = self._defaults.get(op)
        if defaults is None:
            defaults = self._defaults[op] = tuple([
                (a.name, memo_key(a.default) if a.has_default else _NO_DEFAULT) for a in op.schema.arguments
            ])
        return defaults

    # ---- operands
    def literal(self, operand: Operand) -> str:
        """An operand: a value, a number, a word, a list."""
        kind = type(operand)
        if kind is Value:
            return self.name(operand)
        if kind is tuple:
            return "[" + ", ".join([self.literal(o) for o in operand]) + "]"
        return immediate_text(operand)


def immediate_text(operand: Any) -> str:
    """The text of an immediate: `1`, `0.5`, `True`, `None`, `"mean"`, `f32`, `complex(0.0, 1.0)`, `s0 + 1`.
    Numbers are exact."""
    kind = type(operand)
    if kind is str:
        return json.dumps(operand)
    if kind is complex:
        return f"complex({operand.real!r}, {operand.imag!r})"
    if kind is DType:
        return str(operand.short)
    return str(operand)


def graph_name(name: str) -> str:
    """`@step`; a name that is no identifier is quoted: `@"<lambda>"`."""
    return f"@{name}" if _IDENTIFIER.match(name) else f"@{json.dumps(name)}"


def symbol_lines(env: ShapeEnv, locations: bool) -> Iterator[str]:
    """`example s0 = 16` for each symbol, `guard s0 != s1` for each answer that the graph depends on."""
    if env.examples:
        yield "example " + ", ".join(f"{name} = {value}" for name, value in env.examples.items())
    for guard in env.guards.values():
        where = f"  # {guard.where}" if locations and guard.where is not None else ""
        yield f"guard {guard}{where}"
