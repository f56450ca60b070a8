"""A captured graph with calls of Python, cut at the calls: what each part reads, computes and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.python_calls import PYTHON_CALL, READ_AFTER, before_calls
from weft.passes.dce import dce
from weft.passes.open_opaque import open_opaque
from weft.passes.rebuild import append
from weft.passes.unbacked import mentioned_by

Piece = tuple[list[Node], Node | None, list[Node]]  # up to a call, the call, and what reads memory again behind it
Place = tuple[bool, int]  # of a value between two parts: the memory of an input, or a slot of the call's frame
_BEHIND, _SHARED = " behind ", " shared"  # in the texts of values that are read again


@dataclass(eq=False)
class Part:
    """What runs up to a call of Python, or to the end. graph: None where there is nothing to do.

    reads: where its parameters are; kept: which of its results go to which slots; saved: inputs whose memory it
    overwrites, and slots for what lies there before. shared: slots that Python has, and those that are read behind
    the call; apart: what is copied, for it is read there as it was before, and the slots for that. call: the number of
    the call that follows; given: where what it is given lies, or numbers; made: the slots that what it gives goes to.
    """

    graph: Graph | None = None
    reads: list[Place] = field(default_factory=list)
    kept: list[tuple[int, int]] = field(default_factory=list)
    saved: list[tuple[int, int]] = field(default_factory=list)
    shared: list[tuple[int, int]] = field(default_factory=list)
    apart: list[tuple[Place, int]] = field(default_factory=list)
    call: int = -1
    given: list[Any] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # by input: what its memory holds behind the part
    mentioned: set[str] = field(default_factory=set)  # symbols

    def places_read(self) -> set[Place]:
        """Where it, and the call behind it, finds something."""
        operands = [place for place in self.given if isinstance(place, tuple)]
        return {*self.reads, *operands, *[(False, old) for old, _ in self.shared], *[place for place, _ in self.apart]}

    def slots_made(self) -> set[int]:
        """The slots that it, and the call behind it, fills."""
        copied = {slot for place, slot in self.apart if place != (False, slot)}
        return {slot for _, slot in (*self.kept, *self.saved, *self.shared)}.union(copied, self.made)


@dataclass(eq=False)
class Parts:
    """A graph in parts. slots: what each slot of a call's frame holds, by a text that says how it is computed."""

    parts: list[Part]
    slots: list[str]


def parts_of(graph: Graph, written: list[list[int]], likes: list[list[Any]], sources: Sequence[str]) -> Parts:
    """The graph in parts. written: for each call, the parameters that its values go to; likes: what each of its results
    is like (None: it is not there). sources: for each parameter,
    a text that says where it comes from."""
    cut = _Cut(dce(open_opaque(dce(graph))), written, likes, sources)
    parts = cut.parts()
    return Parts(parts, [cut.texts[v] for v in cut.slots])


class _Cut:
    """Where values lie while the graph is cut. holder: by parameter, the value in its memory."""

    def __init__(
        self, graph: Graph, written: list[list[int]], likes: list[list[Any]], sources: Sequence[str]
    ) -> None:
        self.graph, self.written, self.likes = graph, written, likes
        self.holder: list[Value] = list(graph.params)
        self.slots: dict[Value, int] = {}
        self.texts: dict[Value, str] = dict(zip(graph.params, sources, strict=True))
        for node in graph.nodes:
            self._describe(node)

    def _describe(self, node: Node) -> None:
        if node.op is PYTHON_CALL:
            likes = self.likes[node.args[0]]
            places = [i for i, like in enumerate(likes) if like is not None]
            self.texts.update((v, f"call {node.args[0]}.{i}") for v, i in zip(node.outputs, places, strict=True))
            return
        if node.op is READ_AFTER:
            old, call, place = node.args
            self.texts[node.output] = f"{self.texts[old]}{_BEHIND}{call}{'' if place >= 0 else _SHARED}"
            return
        inside = str(id(node)) if node.blocks else ""  # what has blocks is like nothing else
        text = f"{node.op.name}{inside}{self._described(node.args)}"
        digest = blake2b(text.encode(), digest_size=16).hexdigest()
        self.texts.update((v, f"{digest}.{i}") for i, v in enumerate(node.outputs))

    def _described(self, operand: Operand) -> str:
        if isinstance(operand, Value):
            return self.texts[operand]
        return f"({','.join(map(self._described, operand))})" if isinstance(operand, tuple) else repr(operand)

    def parts(self) -> list[Part]:
        """The graph, cut."""
        pieces: list[Piece] = []
        nodes: list[Node] = []
        for node in self.graph.nodes:
            if node.op is PYTHON_CALL:
                pieces.append((nodes, node, []))
                nodes = []
            elif node.op is READ_AFTER:
                pieces[-1][2].append(node)
            else:
                nodes.append(node)
        pieces.append((nodes, None, []))
        later = self._read_later(pieces)
        return [self._part(*piece, rest) for piece, rest in zip(pieces, later, strict=True)]

    def _read_later(self, pieces: list[Piece]) -> list[set[Value]]:
        """For each piece, the values that are read behind its call."""
        reads = {v for r in self.graph.results for v in values_in(r)}
        later = []
        for nodes, call, again in reversed(pieces):
            later.append(set(reads))
            reads |= {v for node in (*nodes, *(() if call is None else (call,))) for v in node.needs()}
            reads |= _shared(again)
        return later[::-1]

    def _part(self, nodes: list[Node], call: Node | None, again: list[Node], later: set[Value]) -> Part:
        part = Part()
        own_values = {v for node in nodes for v in node.outputs}
        results: list[Operand] = []
        if call is None:
            results = list(self.graph.results)
            changes = [(at, p) for at, p in self.graph.writes if results[at] is not self.holder[p]]
        else:
            number, arguments, values, _ = call.args
            part.call = number
            results = list(values)
            changes = [(i, p) for i, p in enumerate(self.written[number]) if values[i] is not self.holder[p]]
            used = later | _shared(again) | set(values_in(arguments))
            self._save_overwritten(part, [p for _, p in changes], used)
            placed = {values[i] for i, _ in changes}
            for v in dict.fromkeys(v for node in nodes for v in node.outputs if v in used and v not in placed):
                part.kept.append((len(results), self._slot(v)))
                results.append(v)
        params = self._needed(nodes, own_values, results, [p for _, p in changes])
        part.reads = [self._place(v) for v in params]
        where = {v: i for i, v in reversed(list(enumerate(params)))}
        writes = [(at, where[self.holder[p]]) for at, p in changes]
        if call is None or nodes or changes:
            name = f"{self.graph.name}_{call.args[0]}" if call is not None else self.graph.name
            part.graph = self._graph(name, params, Block((), tuple(nodes), tuple(results)), writes)
        if call is not None:
            for at, p in changes:
                self.holder[p] = results[at]
            self._read_again(part, again, later)
            renewed = {node.args[0]: node.output for node in again}
            part.given = [self._place(renewed.get(v, v)) if isinstance(v, Value) else v for v in call.args[1]]
            part.made = [self._slot(v) for v in call.outputs]
        part.held = [self.texts[before_calls(v)] for v in self.holder]
        part.mentioned = {name for node in nodes for name in mentioned_by(node)}
        return part

    def _graph(self, name: str, params: list[Value], block: Block, writes: list[tuple[int, int]]) -> Graph:
        """A block with parameters of its own for what it reads: what other parts made has no node here."""
        builder = Builder(name, self.graph.env)
        env: dict[Value, Operand] = {v: builder.param(v.type, v.name) for v in params}
        return builder.graph(append(builder, block, env), writes)

    def _read_again(self, part: Part, again: list[Node], later: set[Value]) -> None:
        """Memory that Python may write holds other values behind the call. The earlier ones are copied where they are
        read there too."""
        before: dict[Value, Place] = {}
        for node in again:
            old, _, param = node.args
            before[old] = (True, param) if param >= 0 else before.get(old) or self._place(old)
            held, at = before[old]
            if param >= 0:
                self.holder[param] = node.output
            elif held:
                part.apart.append((before[old], self._slot(node.output)))
            else:
                part.shared.append((at, self._slot(node.output)))
        shared = {slot for slot, _ in part.shared}
        part.apart += [
            ((held, at), self._slot(old)) for old, (held, at) in before.items()
            if old in later and (held or at in shared)
        ]

    def _save_overwritten(self, part: Part, params: list[int], used: set[Value]) -> None:
        for p in params:
            old = self.holder[p]
            if old in used and old not in self.slots and self.holder.count(old) == 1:
                part.saved.append((p, self._slot(old)))

    def _needed(
        self, nodes: list[Node], own_values: set[Value], results: list[Operand], targets: Iterable[int]
    ) -> list[Value]:
        """The values from before that a part reads, and those whose memory it writes."""
        read = [v for node in nodes for v in node.needs()] + [v for r in results for v in values_in(r)]
        return list(dict.fromkeys([v for v in read if v not in own_values] + [self.holder[p] for p in targets]))

    def _slot(self, value: Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def _place(self, value: Value) -> Place:
        held = next((i for i, v in enumerate(self.holder) if v is value), None)
        return (False, self.slots[value]) if held is None else (True, held)


def read_before(text: str) -> str | None:
    """For a slot that Python has: the text of what lay there before the latest call, which programs that do not read it
    behind that one have instead."""
    return text[: text.rindex(_BEHIND)] if text.endswith(_SHARED) else None


def _shared(again: list[Node]) -> set[Value]:
    """What lies in the program's own memory and may be written by Python."""
    return {node.args[0] for node in again if node.args[2] < 0}
