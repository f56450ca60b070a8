"""Blocks of a program as graphs within a node of ONNX, which see what is around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import weft
from weft.ir.graph import Block
from weft.onnx.lists import Element, Listed, common_element, listed
from weft.onnx.nodes import Scope
from weft.onnx.outputs import Number, Output, outputs_in
from weft.support.errors import WeftError


class Raised(WeftError):
    """The part of the program that is being written raises an exception."""


class NotAsNode(WeftError):
    """A body that cannot become a graph of ONNX: what it carries changes its kind, say."""


class Unset:
    """What a variable holds that has no value yet, and that nothing reads."""


UNSET = Unset()
State = Any  # of a list or dict: its elements, or the sequence that it has become


class Written:
    """A block that has been written: its results, its nodes, and what it wrote of the values around it.

    writes: of tensors. changes: of lists and dicts, by id: the container, and its state at the end of the block.
    ends: what tensors from around the block, among what it gives, are at its end. lost: those of which it is not known.
    """

    def __init__(self, exporter: Any, results: list[Any], scope: Scope, before: Collection[Output]) -> None:
        self.results, self.scope, self.before = results, scope, before
        self.writes: dict[Output, Output] = {}
        self.ends: dict[Output, Output] = {}
        self.lost: set[Output] = set()
        self.changes: dict[int, tuple[Any, State]] = {}
        self._lists = dict(exporter.lists)

    def state(self, xs: list[Any]) -> State:
        """What a list is at the end of the block."""
        entry = self._lists.get(id(xs))
        return list(xs) if entry is None else entry[1]

    def now(self, value: Any) -> Any:
        """A value as it is at the end of the block."""
        return self.ends.get(value, value) if isinstance(value, Output) else value

    def from_around(self, value: Any) -> tuple[Output, ...]:
        """The tensor around the block that a value is, or shows a part of; nothing where it is none."""
        if not isinstance(value, Output) or isinstance(value, Number) or value.root not in self.before:
            return ()
        return (value.root,)


def _containers(value: Any, snapshots: dict[int, tuple[Any, Any]]) -> None:
    if isinstance(value, (list, dict)) and id(value) not in snapshots:
        snapshots[id(value)] = (value, value.copy())
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for part in parts:
        _containers(part, snapshots)


class Around:
    """What is around a block before it is written: values, and what lists and dicts hold."""

    def __init__(self, exporter: Any) -> None:
        self.exporter, self.lists = exporter, dict(exporter.lists)
        self.outputs = {o: o.state for o in list(exporter.writer.live)}
        self.held: dict[int, tuple[Any, Any]] = {}
        for value in list(exporter.values.values()):
            _containers(value, self.held)

    def put_back(self) -> None:
        """Let everything be as it was."""
        for output, state in self.outputs.items():
            output.state = state
        for now, then in self.held.values():
            put(now, then)
        self.exporter.lists = dict(self.lists)


def nested(exporter: Any, block: Block, args: Sequence[Any]) -> Written:
    """Write a block, and put everything around it back as it was."""
    around = Around(exporter)
    before, lists = around.outputs, around.lists
    try:
        with exporter.writer.apart() as scope:
            results = exporter.block(block, args)
            outputs = outputs_in((results, [now for now, _ in around.held.values()]))
            ends = {o: _at_the_end(exporter, o) for o in outputs if o in before and o.state != before[o]}
        written = Written(exporter, results, scope, before)
        written.ends, written.lost = ends, {o for o in before if o.lost}
        for key, (now, then) in around.held.items():
            if exporter.lists.get(key) is not lists.get(key):
                written.changes[key] = (now, exporter.lists[key][1])
            elif _differ(now, then):
                written.changes[key] = (now, now.copy())
        written.writes = {
            o: Output(exporter.writer, o.name, o.example, o.sizes)
            for o, then in before.items() if o.name != then[0] and o.source is None
        }
    finally:
        around.put_back()
    return written


def _at_the_end(exporter: Any, value: Output) -> Output:
    if value.stale and not value.root.lost:
        exporter.writer.fresh((value,))
    copy = value.copied()
    copy.lost = value.root.lost
    return copy


def lose(outputs: Iterable[Output]) -> None:
    """From here on nobody knows these values."""
    for output in outputs:
        output.lost = True


def put(container: Any, elements: Any) -> None:
    """Let a list or dict have these elements."""
    container.clear()
    container.update(elements) if isinstance(container, dict) else container.extend(elements)


def places(container: Any) -> list[Any]:
    """The keys of a dict, or the indices of a list."""
    return list(container) if isinstance(container, dict) else list(range(len(container)))


def _differ(now: Any, then: Any) -> bool:
    return places(now) != places(then) or any(now[k] is not then[k] for k in places(now))


def leaving(exporter: Any, scope: Scope, value: Any, dtype: Any) -> Output:
    """A value as a result of the graph that is being written: under a name of its own."""
    writer = exporter.writer
    writer.scopes.append(scope)
    try:
        output: Output = writer.op("Identity", writer.cast(value, dtype))
    finally:
        writer.scopes.pop()
    return output


def leaving_list(exporter: Any, scope: Scope, state: State, element: Element | None) -> Listed:
    """A list as a result of the graph that is being written."""
    writer = exporter.writer
    writer.scopes.append(scope)
    try:
        sequence = state if isinstance(state, Listed) else listed(writer, state, element)
        name = writer.name("list")
        writer.append(writer.node_of("Identity", [sequence.name], [name]))
    finally:
        writer.scopes.pop()
    return Listed(name, sequence.items, sequence.element)


def element_of(exporter: Any, *states: State) -> Element | None:
    """What the elements of lists have in common, as far as it can be told around the block; None of empty ones."""
    element: Element | None = None
    for state in states:
        mine = state.element if isinstance(state, Listed) else common_element(exporter.writer, state)
        if mine is not None:
            sizes = tuple(n if n is not None and exporter.writer.sizes.is_visible(n) else None for n in mine.sizes)
            mine = Element(mine.dtype, mine.is_number, sizes)
            element = mine if element is None else element.joined(mine)
    return element


def empty(exporter: Any, like: Any) -> Any:
    """A value of another's kind."""
    if isinstance(like, Output):
        zeros = exporter.writer.constant(weft.zeros_like(like.example).numpy(), like.dtype)
        return exporter.writer.as_number(zeros) if isinstance(like, Number) else zeros
    if isinstance(like, (tuple, list)):
        return type(like)(empty(exporter, part) for part in like)
    return like


def kind(value: Any) -> str:
    """What a value is, for messages."""
    return "a tensor" if isinstance(value, Output) else "None" if value is None else f"a {type(value).__name__}"


def changed(first: Written, second: Written) -> Iterator[tuple[Any, State | None, State | None]]:
    """The lists and dicts that one of two blocks has changed, with their states in both; None where it has not."""
    for key in {**first.changes, **second.changes}:
        a, b = first.changes.get(key), second.changes.get(key)
        container = (a or b or (None,))[0]
        yield container, None if a is None else a[1], None if b is None else b[1]
