"""lower_lists: elements in place of lists and dicts that nobody writes to. An operator takes the elements as they
stand; a list that is unpacked, indexed or measured needs not be there, and what is a part of it, or two of them joined,
is a list of its elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value
from weft.ops.op import OPS, Op
from weft.passes.rebuild import rebuild
from weft.passes.scripted.entries import LIST, LIST_UNPACK
from weft.passes.scripted.memory import Memory
from weft.types.tensor_type import ListType

_LENGTH, _ITEM, _SLICE, _JOIN, _HAS, _DICT = (
    OPS[f"prim::{name}"] for name in ("len", "getitem", "slice", "add", "contains", "DictConstruct")
)


def lower_lists(graph: Graph) -> Graph:
    """The graph with the elements of its own lists in place of their uses, where the list is never written."""
    memory = Memory(graph)
    return rebuild(graph, partial(_lower, memory), keep_order=True, same=memory.same)


def _lower(memory: Memory, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    shorten = _SHORTER.get(node.op)
    if shorten is not None:
        items = _elements(memory, node.args[0])
        return _of_a_dict(memory, node) if items is None else shorten(node, items)
    join = _JOINED.get(node.op)
    if join is not None:
        parts = join(memory, node)
        return None if parts is None else _made(builder, node, parts)
    if node.op.host:
        return None
    elements = tuple(_written_out(memory, a) for a in args)
    if all(a is b for a, b in zip(elements, args, strict=True)):
        return None
    return builder.emit_raw(node.op, elements, tuple([v.type for v in node.outputs])).outputs


def _elements(memory: Memory, operand: Operand) -> tuple[Operand, ...] | None:
    """The elements of a list that was made in sight and that nobody writes to."""
    producer = operand.node if isinstance(operand, Value) else None
    if producer is None or producer.op is not LIST or memory.is_written(operand):
        return None
    elements: tuple[Operand, ...] = producer.args[0]
    return elements


def _made(builder: Builder, node: Node, items: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """A list of these elements, in place of the one that the node makes."""
    return builder.emit_raw(LIST, (items, str(node.output.type)), (node.output.type,)).outputs


def _part(memory: Memory, node: Node) -> tuple[Operand, ...] | None:
    source, *bounds = node.args
    items = _elements(memory, source)
    if items is None or any(isinstance(b, Value) for b in bounds) or bounds[2] == 0:
        return None
    return items[slice(*bounds)]


def _both(memory: Memory, node: Node) -> tuple[Operand, ...] | None:
    first, second = (_elements(memory, a) for a in node.args)
    return None if first is None or second is None else (*first, *second)


_JOINED: dict[Op, Callable[[Memory, Node], tuple[Operand, ...] | None]] = {_SLICE: _part, _JOIN: _both}


def _of_a_dict(memory: Memory, node: Node) -> tuple[Operand, ...] | None:
    """How many a dict has, or what it has at a key, where all keys are known."""
    operand = node.args[0]
    producer = operand.node if isinstance(operand, Value) else None
    if producer is None or producer.op is not _DICT or memory.is_written(operand):
        return None
    keys, values, _ = producer.args
    if any(isinstance(k, Value) for k in keys):
        return None
    entries = dict(zip(keys, values, strict=True))
    if node.op is _LENGTH:
        return (len(entries),)
    key = node.args[1] if len(node.args) > 1 else None
    if isinstance(key, Value) or node.op not in (_ITEM, _HAS):
        return None
    if node.op is _HAS:
        return (key in entries,)
    return (entries[key],) if key in entries else None  # a missing key is raised when the program comes there


def _has(node: Node, items: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    item = node.args[1]
    return None if any(isinstance(v, (Value, tuple)) for v in (item, *items)) else (item in items,)


def _written_out(memory: Memory, operand: Operand) -> Operand:
    if isinstance(operand, Value) and isinstance(operand.type, ListType):
        items = _elements(memory, operand)
        return operand if items is None else items
    return operand


def _unpacked(node: Node, items: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    return items if len(items) == len(node.outputs) else None  # a wrong count is raised when the program comes there


def _item(node: Node, items: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    at = node.args[1]
    return (items[at],) if type(at) is int and -len(items) <= at < len(items) else None


_SHORTER: dict[Op, Callable[[Node, tuple[Operand, ...]], tuple[Operand, ...] | None]] = {
    LIST_UNPACK: _unpacked,
    _ITEM: _item,
    _LENGTH: lambda node, items: (len(items),),
    _HAS: _has,
}
