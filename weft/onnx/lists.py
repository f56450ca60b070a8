"""Lists whose length the model finds, as sequences of ONNX: what a list in the program has become, and how the
program's operations on it are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft
from weft.onnx.dependency import helper
from weft.onnx.dtypes import element_of
from weft.onnx.outputs import Number, Output
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim
from weft.types.dtype import DType


@dataclass(frozen=True)
class Element:
    """What the elements of a list have in common. sizes: None on an axis where they differ."""

    dtype: DType
    is_number: bool
    sizes: tuple[Dim | None, ...]

    def joined(self, other: Element) -> Element:
        """What both have in common. Raises Unsupported where no sequence holds both."""
        mine, theirs = ((e.dtype, e.is_number, len(e.sizes)) for e in (self, other))
        if mine != theirs:
            raise Unsupported(f"a list of {self} and of {other}")
        sizes = tuple(a if a == b else None for a, b in zip(self.sizes, other.sizes, strict=True))
        return Element(self.dtype, self.is_number, sizes)

    def __str__(self) -> str:
        return f"numbers of {self.dtype}" if self.is_number else f"tensors of {self.dtype} and {len(self.sizes)} dims"


class Listed:
    """A sequence of the model: its name, its elements for the example, and what they have in common."""

    __slots__ = ("element", "items", "name")

    def __init__(self, name: str, items: Sequence[Tensor], element: Element) -> None:
        self.name, self.items, self.element = name, list(items), element

    def info(self, name: str = "") -> Any:
        """The sequence as an input or output of a graph."""
        rank = [None] * len(self.element.sizes)
        kind = helper.make_tensor_type_proto(element_of(self.element.dtype), rank)
        return helper.make_value_info(name or self.name, helper.make_sequence_type_proto(kind))


class Parts(list[Any]):
    """The tensors that an axis of dynamic size is split into: as many as in the example, or the model raises.
    number: how many there are, which the model finds."""

    __slots__ = ("number",)

    def __init__(self, parts: Sequence[Output], number: Any) -> None:
        super().__init__(parts)
        self.number = number


def element_like(g: Any, value: Any) -> Element:
    """A value as the element of a list."""
    if not isinstance(value, (Output, bool, int, float)):
        raise Unsupported(f"a list of {type(value).__name__}s, whose length or place the model finds")
    return Element(g.dtype(value), not g.is_tensor(value), value.sizes if isinstance(value, Output) else ())


def common_element(g: Any, values: Sequence[Any]) -> Element | None:
    """What the elements of a list that is known have in common; None of an empty one."""
    element: Element | None = None
    for value in values:
        mine = element_like(g, value)
        element = mine if element is None else element.joined(mine)
    return element


def listed(g: Any, values: Sequence[Any], element: Element | None = None) -> Listed:
    """A list that is known as a sequence. element: of an empty one."""
    common = common_element(g, values)
    if common is None:
        if element is None:
            raise Unsupported("an empty list, of which nothing says what its elements are")
        return _made(g, "SequenceEmpty", [], [], element, dtype=element_of(element.dtype))
    each = [g.number(v) if common.is_number else v for v in values]
    g.fresh(each)
    return _made(g, "SequenceConstruct", [v.name for v in each], [v.example for v in each],
                 common if element is None else common.joined(element))  # fmt: skip


def _made(g: Any, kind: str, inputs: Sequence[str], items: Sequence[Tensor], element: Element, **more: Any) -> Listed:
    name = g.name("list")
    g.append(helper.make_node(kind, list(inputs), [name], **more))
    return Listed(name, items, element)


# ---- what is done with a sequence
def length(g: Any, xs: Listed) -> Number:
    """The number of its elements."""
    name = g.name("length")
    g.append(helper.make_node("SequenceLength", [xs.name], [name]))
    return Number(g, name, weft.tensor(len(xs.items)), ())


def item(g: Any, xs: Listed, at: Any) -> Any:
    """An element. The example may have none: then it is zeros."""
    place, name, kind = g.number(at), g.name("item"), xs.element
    g.append(helper.make_node("SequenceAt", [xs.name, place.name], [name]))
    index = int(place.example)
    if -len(xs.items) <= index < len(xs.items):
        example = xs.items[index]
    elif xs.items:
        example = xs.items[-1]
    else:
        example = weft.zeros([n if type(n) is int else 1 for n in kind.sizes], dtype=kind.dtype)
    return (Number if kind.is_number else Output)(g, name, example, kind.sizes)


def inserted(g: Any, xs: Listed, value: Any, at: Any = None) -> Listed:
    """The sequence with one more element."""
    kind = xs.element.joined(element_like(g, value))
    value = g.number(value) if kind.is_number else value
    g.fresh((value,))
    index = len(xs.items) if at is None else int(g.number(at).example)
    items = list(xs.items)
    items.insert(index, value.example)
    place = [] if at is None else [g.number(at).name]
    return _made(g, "SequenceInsert", [xs.name, value.name, *place], items, kind)


def erased(g: Any, xs: Listed, at: Any = None) -> Listed:
    """The sequence without an element, the last one by default."""
    place = [] if at is None else [g.number(at).name]
    index = -1 if at is None else int(g.number(at).example)
    items = list(xs.items)
    if -len(items) <= index < len(items):
        del items[index]
    return _made(g, "SequenceErase", [xs.name, *place], items, xs.element)


def joined(g: Any, xs: Listed, dim: Any, new_axis: bool) -> Output:
    """Its elements as one tensor."""
    kind, rank = xs.element, len(xs.element.sizes) + new_axis
    axis = int(g.known(dim)) % rank
    items = xs.items or [weft.zeros([n if type(n) is int else 1 for n in kind.sizes], dtype=kind.dtype)]
    example = weft.stack(items, axis) if new_axis else weft.cat(items, axis)
    sizes = list(kind.sizes)
    sizes[axis : axis + (not new_axis)] = [None]
    name = g.name("joined")
    g.append(helper.make_node("ConcatFromSequence", [xs.name], [name], axis=axis, new_axis=int(new_axis)))
    return Output(g, name, example, sizes)


def extended(g: Any, xs: Listed, more: Listed, start: Any = 0, count: Any = None, step: int = 1) -> Listed:
    """The sequence with elements of another behind its own: a loop that puts one after the other."""
    kind = xs.element.joined(more.element)
    count = length(g, more) if count is None else count
    go, step_name, carried = (g.name(n) for n in ("go", "step", "list"))
    with g.apart() as scope:
        at = g.arithmetic("add", start, g.arithmetic("mul", Number(g, step_name, weft.tensor(0), ()), step))
        grown = inserted(g, Listed(carried, xs.items, kind), item(g, more, at))
        going = g.op("Identity", Output(g, go, weft.tensor(True), ()))
    number, truth = (element_of(d) for d in (weft.int64, weft.bool))
    inner = [helper.make_tensor_value_info(step_name, number, []), helper.make_tensor_value_info(go, truth, [])]
    outer = [helper.make_tensor_value_info(going.name, truth, []), grown.info()]
    graph = helper.make_graph(scope.nodes, "body", [*inner, grown.info(carried)], outer)
    name = g.name("list")
    true = g.numbers(True, weft.bool)
    g.append(helper.make_node("Loop", [g.number(count).name, true.name, xs.name], [name], body=graph))
    first, total = int(g.number(start).example), int(g.number(count).example)
    places = [first + step * i for i in range(total)]
    return Listed(name, [*xs.items, *(more.items[p] for p in places if p < len(more.items))], kind)


# ---- the program's operations
def write(exporter: Any, base: str, args: tuple[Any, ...]) -> Sequence[Any]:
    """Write an operation on a list. Raises Unsupported for one that sequences do not have."""
    rule = _OPERATIONS.get(base)
    if rule is None:
        raise Unsupported(f"{base} of a list whose length the model finds")
    return rule(exporter, *args)


def _as_sequence(exporter: Any, xs: Any) -> Listed:
    sequence = exporter.listed(xs)
    return listed(exporter.writer, xs) if sequence is None else sequence


def _changing(change: Callable[..., Listed]) -> Callable[..., Sequence[Any]]:
    def rule(exporter: Any, xs: list[Any], *args: Any) -> Sequence[Any]:
        if not xs and exporter.listed(xs) is None:  # its first element says what it holds
            exporter.lists[id(xs)] = (xs, listed(exporter.writer, [], _element_of(exporter, args[-1])))
        exporter.lists[id(xs)] = (xs, change(exporter, _as_sequence(exporter, xs), *args))
        return []

    return rule


def _element_of(exporter: Any, value: Any) -> Element | None:
    """Of what a list gets: a value, or the elements of another list."""
    other = exporter.listed(value)
    if other is not None:
        return other.element  # type: ignore[no-any-return]
    return common_element(exporter.writer, value if isinstance(value, list) else [value])


def _new(exporter: Any, sequence: Listed) -> list[Any]:
    stand_in: list[Any] = []
    exporter.lists[id(stand_in)] = (stand_in, sequence)
    return stand_in


def _extend(exporter: Any, xs: Listed, more: Any) -> Listed:
    other = exporter.listed(more)
    if other is not None:
        return extended(exporter.writer, xs, other)
    for value in more:
        xs = inserted(exporter.writer, xs, value)
    return xs


def _add(exporter: Any, xs: Any, more: Any) -> Sequence[Any]:
    if not xs and exporter.listed(xs) is None:
        return _copy(exporter, more)
    return [_new(exporter, _extend(exporter, _as_sequence(exporter, xs), more))]


def _copy(exporter: Any, xs: Any) -> Sequence[Any]:
    return [_new(exporter, _as_sequence(exporter, xs))]


def _pop(exporter: Any, xs: Any, at: Any = None) -> Sequence[Any]:
    whole = _as_sequence(exporter, xs)
    popped = item(exporter.writer, whole, -1 if at is None else at)
    exporter.lists[id(xs)] = (xs, erased(exporter.writer, whole, at))
    return [popped]


def _place(g: Any, xs: Listed, at: Any) -> Any:
    """Where a place of Python's is, within the list."""
    count = length(g, xs)
    if isinstance(at, int) and at < 0:
        return g.arithmetic("max", g.arithmetic("add", count, at), 0)
    return g.arithmetic("min", at, count)


def _insert(exporter: Any, xs: Listed, at: Any, value: Any) -> Listed:
    g = exporter.writer
    if type(at) is int and at == 0:  # the reference evaluator inserts nothing into an empty sequence at a place
        return extended(g, listed(g, [value], xs.element), xs)
    return inserted(g, xs, value, _place(g, xs, at))


def _set(exporter: Any, xs: Listed, at: Any, value: Any) -> Listed:
    """The new element goes in front of the old one, which goes; counted from the end, behind it."""
    g = exporter.writer
    if isinstance(at, Number) or at >= 0:
        return erased(g, inserted(g, xs, value, at), g.arithmetic("add", at, 1))
    place = g.arithmetic("add", length(g, xs), at)
    return erased(g, inserted(g, xs, value, place), g.arithmetic("add", place, 1))


def _slice(exporter: Any, xs: Any, start: Any, stop: Any, step: Any) -> Sequence[Any]:
    g, whole = exporter.writer, _as_sequence(exporter, xs)
    step = 1 if step is None else step
    if step != 1:
        raise Unsupported("a slice with steps of a list whose length the model finds")
    first = 0 if start is None else _place(g, whole, start)
    last = length(g, whole) if stop is None else _place(g, whole, stop)
    taken = g.arithmetic("max", g.arithmetic("sub", last, first), 0)
    return [_new(exporter, extended(g, listed(g, [], whole.element), whole, first, taken))]


def _reversed(exporter: Any, xs: Any) -> Sequence[Any]:
    g, whole = exporter.writer, _as_sequence(exporter, xs)
    return [_new(exporter, extended(g, listed(g, [], whole.element), whole, -1, length(g, whole), -1))]


def _reverse(exporter: Any, xs: Any) -> Sequence[Any]:
    (mirrored,) = _reversed(exporter, xs)
    exporter.lists[id(xs)] = (xs, exporter.listed(mirrored))
    return []


def _truth(exporter: Any, xs: Any) -> Sequence[Any]:
    return [exporter.writer.arithmetic("gt", length(exporter.writer, _as_sequence(exporter, xs)), 0)]


_OPERATIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "len": lambda e, xs: [length(e.writer, _as_sequence(e, xs))],
    "getitem": lambda e, xs, at: [item(e.writer, _as_sequence(e, xs), at)],
    "append": _changing(lambda e, xs, value: inserted(e.writer, xs, value)),
    "insert": _changing(_insert), "extend": _changing(_extend), "setitem": _changing(_set),
    "delitem": _changing(lambda e, xs, at: erased(e.writer, xs, at)),
    "clear": _changing(lambda e, xs: listed(e.writer, [], xs.element)),
    "pop": _pop, "add": _add, "copy": _copy, "list": _copy, "slice": _slice, "reversed": _reversed,
    "reverse": _reverse, "bool": _truth,
    "ListUnpack": lambda e, xs, count: [item(e.writer, _as_sequence(e, xs), i) for i in range(count)],
    "stack": lambda e, xs, dim: [joined(e.writer, _as_sequence(e, xs), dim, True)],
    "cat": lambda e, xs, dim: [joined(e.writer, _as_sequence(e, xs), dim, False)],
}  # fmt: skip
BY_PLACE = {"getitem", "setitem", "insert", "delitem", "pop", "slice"}  # operations that take a place first
