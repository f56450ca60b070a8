"""simplify_views: views that change nothing, and scatters into what is overwritten whole, are left out."""

from __future__ import annotations

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand, Value
from weft.passes.alias import dtype_of
from weft.passes.rebuild import rebuild

_IDENTITY = frozenset((
    "aten::view", "aten::reshape", "aten::expand", "aten::clone", "aten::alias", "aten::sum_to_size", "aten::conj", "aten::real", "aten::copy",
    "aten::_contiguous_copy", "aten::_to_copy",
))

_OFFERED = _IDENTITY | {"aten::permute"}


def simplify_views(graph: Graph) -> Graph:
    """The graph without views, copies and casts whose result equals their source."""
    laid_out = {n.args[0] for n in graph.walk() if n.op.base == "as_strided"}  # it speaks of bytes: the copy below it decides where they lie
    return rebuild(graph, _simplify, lambda n: n.op.name in _OFFERED and n.outputs[0] not in laid_out)


def _simplify(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    name = node.op.name
    if name == "aten::copy" and _same_type(args[1], node):
        return (args[1],)
    if name in _IDENTITY and name != "aten::copy" and _same_type(args[0], node) and not _turns(name, node):
        return (args[0],)
    if name == "aten::permute" and isinstance(args[1], tuple) and list(args[1]) == list(range(len(args[1]))):
        return (args[0],)
    return None


def _turns(name: str, node: Node) -> bool:
    """Whether the elements change though their type does not: those of a conjugate, where they are complex."""
    dtype = dtype_of(node.outputs[0])
    return name == "aten::conj" and (dtype is None or dtype.is_complex)


def _same_type(operand: Operand, node: Node) -> bool:
    return type(operand) is Value and operand.type is node.outputs[0].type
