"""A captured graph with calls of Python, in parts: what each part reads, computes and writes, and where that is.

Between two parts a value is in the memory of an input, or in a slot of the call's frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.ir import graph_breaks
from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Operand, Value, values_in
from weft.ir.graph_breaks import Call, Part, Uses, is_read_from, uses_of
from weft.ir.python_calls import PYTHON_CALL, READ_AFTER, before_calls
from weft.ir.value_numbers import ValueNumbers
from weft.passes.dce import dce
from weft.passes.open_opaque import open_opaque
from weft.passes.rebuild import append
from weft.record.python_call import PythonCall

Place = tuple[bool, int]  # of a value between two parts: the memory of an input, or a slot of the call's frame


@dataclass(eq=False)
class ProgramPart:
    """What runs up to a call of Python, or to the end. graph: None where there is nothing to do.

    reads: where its parameters are; kept: which of its results go to which slots; saved: inputs whose memory it
    overwrites, and slots for what is there before. shared: slots that Python has, and those that are read after the
    call; copied: what is read there as it was before, and the slots for that. arguments: of the call that follows, each
    where it is, or a number; results: the slots that what it gives goes to. held: for each input, the number of the
    value in its memory after the part.
    """

    graph: Graph | None = None
    reads: list[Place] = field(default_factory=list)
    kept: list[tuple[int, int]] = field(default_factory=list)
    saved: list[tuple[int, int]] = field(default_factory=list)
    shared: list[tuple[int, int]] = field(default_factory=list)
    copied: list[tuple[Place, int]] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    def places_read(self) -> set[Place]:
        """Where it, and the call after it, reads something."""
        operands = [place for place in self.arguments if isinstance(place, tuple)]
        return {*self.reads, *operands, *[(False, old) for old, _ in self.shared], *[place for place, _ in self.copied]}

    def slots_filled(self) -> set[int]:
        """The slots that it, and the call after it, fills."""
        copied = {slot for place, slot in self.copied if place != (False, slot)}
        return {slot for _, slot in (*self.kept, *self.saved, *self.shared)}.union(copied, self.results)


@dataclass(eq=False)
class Parts:
    """A graph in parts. inputs, slots: the number of the value that each input begins with, and that each slot of a
    call's frame holds. before: where Python has the memory of a value that is read again after a call, the number of
    the value before the call: programs that do not read it again have that one."""

    parts: list[ProgramPart]
    inputs: Sequence[int] = ()
    slots: Sequence[int] = ()
    before: dict[int, int] = field(default_factory=dict)


def parts_of(
    graph: Graph, calls: Sequence[PythonCall], table: ValueNumbers, inputs: Sequence[int], symbols: dict[str, int],
    kept: frozenset[int] = frozenset(),
) -> Parts:
    """The graph in parts. inputs, symbols: the numbers, in a table, of what its parameters and its symbols are. kept:
    those of values that are kept until the end, though the graph does not read them."""
    graph, count = open_opaque(graph if kept else dce(graph)), len(graph.results)
    if kept:
        numbers, _ = _numbered(graph, calls, table, inputs, symbols)
        also = [v for node in graph.nodes for v in node.outputs if numbers[v] in kept]
        graph = _with_results(graph, (*graph.results, *also))
    graph = dce(graph)
    numbers, before = _numbered(graph, calls, table, inputs, symbols)
    split = _Split(_with_results(graph, graph.results[:count]), calls, uses_of(graph), numbers, table)
    parts = split.parts()
    return Parts(parts, inputs, [numbers[v] for v in split.slots], before)


def _numbered(
    graph: Graph, calls: Sequence[PythonCall], table: ValueNumbers, inputs: Sequence[int], symbols: dict[str, int]
) -> tuple[dict[Value, int], dict[int, int]]:
    """The numbers of all values, and Parts.before."""
    numbers, before = dict(zip(graph.params, inputs, strict=True)), dict[int, int]()
    for node in graph.nodes:
        if node.op is PYTHON_CALL:
            call = node.args[0]
            places = [i for i, like in enumerate(calls[call].likes) if like is not None]
            numbers.update((v, table.of_key((PYTHON_CALL, call, i))) for v, i in zip(node.outputs, places, strict=True))
        elif node.op is READ_AFTER:
            old, call, place = node.args
            number = numbers[node.output] = table.of_key((READ_AFTER, numbers[old], call, place >= 0))
            if place < 0:
                before[number] = numbers[old]
        else:
            table.number(node, numbers, symbols)
    return numbers, before


def _with_results(graph: Graph, results: tuple[Operand, ...]) -> Graph:
    return Graph(graph.name, Block(graph.params, graph.nodes, results), graph.env, graph.writes)


class _Split:
    """Where values are while the graph is split. holder: by parameter, the value in its memory."""

    def __init__(
        self, graph: Graph, calls: Sequence[PythonCall], uses: Uses, numbers: dict[Value, int], table: ValueNumbers
    ) -> None:
        self.graph, self.calls, self.uses, self.numbers, self.table = graph, calls, uses, numbers, table
        self.holder: list[Value] = list(graph.params)
        self.slots: dict[Value, int] = {}

    def parts(self) -> list[ProgramPart]:
        """The parts: each call of Python ends one."""
        parts = []
        pure = Part()
        for pure in graph_breaks.parts_of(self.graph, self.uses):
            for call in pure.calls:
                parts.append(self._part_to_call(pure, call))
                pure = Part()  # (calls that follow at once have no nodes before them)
        parts.append(self._last_part(pure))
        return parts

    def _part_to_call(self, pure: Part, call: Call) -> ProgramPart:
        """pure: the nodes of the part."""
        part = ProgramPart()
        number, arguments, values, _ = call.node.args
        changes = [(i, p) for i, p in enumerate(self.calls[number].written) if values[i] is not self.holder[p]]
        passed = dict.fromkeys(values_in(arguments))
        for p in dict.fromkeys(p for _, p in changes):
            old = self.holder[p]
            is_used = old in passed or is_read_from(old, call.number + 1, self.uses)
            if is_used and old not in self.slots and self.holder.count(old) == 1:
                part.saved.append((p, self._slot(old)))
        results: list[Operand] = list(values)
        placed = {values[i] for i, _ in changes}
        for v in pure.outputs:
            if v not in placed and (v in passed or is_read_from(v, call.number + 1, self.uses)):
                part.kept.append((len(results), self._slot(v)))
                results.append(v)
        self._compute(part, f"{self.graph.name}_{number}", pure, results, changes)
        for at, p in changes:
            self.holder[p] = results[at]
        self._read_again(part, call)
        renewed = {node.args[0]: node.output for node in call.rereads}
        renewed |= self._pass_copies(part, call, [v for v in passed if v not in renewed])
        part.arguments = [self._place(renewed.get(v, v)) if isinstance(v, Value) else v for v in arguments]
        part.results = [self._slot(v) for v in call.node.outputs]
        part.held = [self.numbers[before_calls(v)] for v in self.holder]
        return part

    def _last_part(self, pure: Part) -> ProgramPart:
        part, results = ProgramPart(), list(self.graph.results)
        changes = [(at, p) for at, p in self.graph.writes if results[at] is not self.holder[p]]
        self._compute(part, self.graph.name, pure, results, changes, is_last=True)
        return part

    def _compute(
        self, part: ProgramPart, name: str, pure: Part, results: list[Operand], changes: list[tuple[int, int]],
        is_last: bool = False,
    ) -> None:
        """The graph of a part, and where its parameters are. changes: which results go into the memory of which
        parameters of the whole graph."""
        own_values = {v for node in pure.nodes for v in node.outputs}
        passed_on = [v for r in results for v in values_in(r) if v not in own_values]
        params = list(dict.fromkeys([*pure.reads, *passed_on, *[self.holder[p] for _, p in changes]]))
        part.reads = [self._place(v) for v in params]
        where = {v: i for i, v in reversed(list(enumerate(params)))}
        writes = [(at, where[self.holder[p]]) for at, p in changes]
        if pure.nodes or changes or is_last:
            part.graph = self._graph(name, params, Block((), tuple(pure.nodes), tuple(results)), writes)

    def _graph(self, name: str, params: list[Value], block: Block, writes: list[tuple[int, int]]) -> Graph:
        """A block with parameters of its own for what it reads: what other parts computed has no node here."""
        builder = Builder(name, self.graph.env)
        env: dict[Value, Operand] = {v: builder.param(v.type, v.name) for v in params}
        return builder.graph(append(builder, block, env), writes)

    def _read_again(self, part: ProgramPart, call: Call) -> None:
        """Memory that Python may write holds other values after the call. The earlier ones are copied where they are
        read there too."""
        before: dict[Value, Place] = {}
        for node in call.rereads:
            old, _, param = node.args
            before[old] = (True, param) if param >= 0 else before.get(old) or self._place(old)
            held, at = before[old]
            if param >= 0:
                self.holder[param] = node.output
            elif held:
                part.copied.append((before[old], self._slot(node.output)))
            else:
                part.shared.append((at, self._slot(node.output)))
        shared = {slot for slot, _ in part.shared}
        after = call.number + 1 + len(call.rereads)
        part.copied += [
            ((held, at), self._slot(old)) for old, (held, at) in before.items()
            if is_read_from(old, after, self.uses) and (held or at in shared)
        ]

    def _pass_copies(self, part: ProgramPart, call: Call, values: list[Value]) -> dict[Value, Value]:
        """Memory that Python gets, and that nobody reads as Python leaves it, is not that of an equal value which is
        read after the call: what stands for those values that Python gets."""
        after = call.number + 1 + len(call.rereads)
        copies: dict[Value, Value] = {}
        for value in values:
            held, at = self._place(value)
            if not held and is_read_from(value, after, self.uses):
                passed = copies[value] = Value(value.type, value.name)
                self.numbers[passed] = self.table.fresh()
                part.shared.append((at, self._slot(passed)))
                part.copied.append(((held, at), at))
        return copies

    def _slot(self, value: Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def _place(self, value: Value) -> Place:
        held = next((i for i, v in enumerate(self.holder) if v is value), None)
        return (False, self.slots[value]) if held is None else (True, held)
