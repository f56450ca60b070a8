"""lower_lists: elements in place of lists that nobody writes to. An operator takes the elements as they stand; a list
that is unpacked, indexed or measured needs not be there.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.graph import Graph, Node, Operand, Value
from weft.ops.op import OPS, Op
from weft.passes.scripted.entries import LIST, LIST_UNPACK
from weft.passes.scripted.memory import Memory
from weft.passes.scripted.rewrite import Emitter, rewrite
from weft.types.tensor_type import ListType

_LENGTH, _ITEM = OPS["prim::len"], OPS["prim::getitem"]


def lower_lists(graph: Graph) -> Graph:
    """The graph with the elements of its own lists in place of their uses, where the list is never written."""
    memory = Memory(graph)
    return rewrite(graph, lambda emitter, node: _lower(memory, emitter, node))


def _lower(memory: Memory, emitter: Emitter, node: Node) -> tuple[Operand, ...] | None:
    shorten = _SHORTER.get(node.op)
    if shorten is not None:
        items = _elements(memory, node.args[0])
        return None if items is None else shorten(node, items)
    if node.op.host:
        return None
    args = tuple(_written_out(memory, a) for a in node.args)
    if all(a is b for a, b in zip(args, node.args, strict=True)):
        return None
    return emitter.emit(node.op, args, *(v.type for v in node.outputs)).outputs


def _elements(memory: Memory, operand: Operand) -> tuple[Operand, ...] | None:
    """The elements of a list that was made in sight and that nobody writes to."""
    made = operand.node if isinstance(operand, Value) else None
    if made is None or made.op is not LIST or memory.is_written(operand):
        return None
    found: tuple[Operand, ...] = made.args[0]
    return found


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
}
