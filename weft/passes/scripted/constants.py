"""constant_propagation: what is known while compiling is computed then; branches and loops that are decided are
replaced by what they come to.
"""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, values_in
from weft.ir.kinds import type_of_immediate
from weft.ir.structure import IF, LOOP
from weft.passes.rebuild import rebuild, spliced
from weft.passes.scripted.entries import TUPLE
from weft.types.tensor_type import BOOL, COMPLEX, FLOAT, INT, NUMBER, STR

_IMMEDIATE = (INT, FLOAT, BOOL, STR, COMPLEX, NUMBER)


def propagate_constants(graph: Graph) -> Graph:
    """The graph with numbers and texts that are known in place of what computes them, and without branches that are
    never taken. What raises stays, to raise when the program comes there.
    """
    return rebuild(graph, _known, keep_order=True)


def _known(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    if node.op is IF:
        return _decided(builder, node)
    if node.op is LOOP:
        return _never_run(builder, node)
    return _computed(node)


def _decided(builder: Builder, node: Node) -> tuple[Operand, ...] | None:
    condition = node.args[0]
    if isinstance(condition, bool):
        return spliced(builder, node.blocks[0 if condition else 1], ())
    same = [
        a if a is b or _are_equal(a, b) else None
        for a, b in zip(node.blocks[0].results, node.blocks[1].results, strict=True)
    ]
    if not node.outputs or not any(s is not None and type(s) is not tuple for s in same):
        return None
    conditional = builder.emit_raw(IF, node.args, tuple([v.type for v in node.outputs]), node.blocks)
    return tuple(v if s is None else s for v, s in zip(conditional.outputs, same, strict=True))


def _are_equal(a: Operand, b: Operand) -> bool:
    """Whether two immediates are the same number, text or None."""
    return type(a) is type(b) and not isinstance(a, tuple) and not values_in(a) and repr(a) == repr(b)


def _never_run(builder: Builder, node: Node) -> tuple[Operand, ...] | None:
    trip, condition, carried, xs, _ = node.args
    if xs or len(node.outputs) != len(carried):
        return None
    if condition is False or (type(trip) is int and trip <= 0):
        return tuple(carried)
    block = node.blocks[0]
    if type(trip) is int and trip == 1 and condition is True:
        return spliced(builder, block, (0, *carried))[1:]
    return None


def _computed(node: Node) -> tuple[Operand, ...] | None:
    op = node.op
    if not op.host or op.kernel is None or len(node.outputs) != 1 or node.output.type not in _IMMEDIATE:
        return None
    if (op.observes or op.effect) not in ("pure", "raises") or op is TUPLE or any(map(_is_open, node.args)):
        return None
    try:
        value = op.kernel(*node.args)
    except Exception:  # it will be raised when the program comes there
        return None
    kind = type_of_immediate(value)
    return (value,) if kind is node.output.type or (node.output.type is NUMBER and kind in _IMMEDIATE) else None


def _is_open(operand: Operand) -> bool:
    return bool(values_in(operand))
