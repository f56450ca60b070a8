"""peephole: operators that change nothing, or undo each other, and questions whose answer a type has.

What gives its argument back in place of a new tensor does so only where nobody can tell: neither is written, and not
both are seen outside. Types tell what shape_analysis has found out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import weft.catalogue  # noqa: F401  # defines the operators
from weft.ir.builder import Builder, type_of_operand
from weft.ir.graph import Graph, Node, Operand, Value
from weft.ops.op import OPS, Op
from weft.ops.packet import Packet, aten
from weft.passes.rebuild import rebuild
from weft.passes.scripted.memory import Memory, makes_new
from weft.types.tensor_type import FLOAT, INT, NONE, OptionalType, TensorType, Type

Rule = Callable[[Node], "Operand"]
_UNCHANGED = object()
_RULES: dict[Op, Rule] = {}


def peephole(graph: Graph) -> Graph:
    """The graph with what is shorter in place of what comes to the same; the same object where there is nothing."""
    while True:
        memory = Memory(graph)
        after = rebuild(graph, partial(_shorter, memory), keep_order=True, same=memory.same)
        if after is graph:
            return graph
        graph = after


def _shorter(memory: Memory, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    if len(node.outputs) != 1:
        return None
    rule = _RULES.get(node.op)
    replacement = _UNCHANGED if rule is None else rule(node)
    if replacement is _UNCHANGED:
        replacement = _identity(node)
    if replacement is _UNCHANGED or not _is_allowed(memory, node, replacement):
        return None
    return (replacement,)


def _is_allowed(memory: Memory, node: Node, replacement: Operand) -> bool:
    """Whether nobody can tell the result from what it is to be."""
    if not isinstance(replacement, Value):
        return True
    return memory.may_merge(replacement, node.output, is_view=not makes_new(node))


def _identity(node: Node) -> Operand:
    """The argument that the entry says the result equals, where it has the same type (`expand` to its own size)."""
    if node.op.identity is None or node.op.host:
        return _UNCHANGED
    kind = node.output.type
    if not isinstance(kind, TensorType) or not kind.is_complete:
        return _UNCHANGED
    try:
        at = node.op.identity(*(type_of_operand(a) for a in node.args))
    except Exception:  # it asks for a number that only a run tells
        return _UNCHANGED
    return node.args[at] if at is not None and _has_type(node.args[at], kind) else _UNCHANGED


def _has_type(operand: Operand, kind: TensorType) -> bool:
    return isinstance(operand, Value) and operand.type is kind and kind.is_complete


def _enter(*operators: Packet) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        _RULES.update((op, rule) for packet in operators for op in packet.overloads)
        return rule

    return enter


# ---- operators on tensors
@_enter(aten.type_as)
def _as_it_is(node: Node) -> Operand:
    """`x.type_as(y)` of one known dtype is x itself."""
    source, like = node.args[:2]
    kinds = [v.type for v in (source, like) if isinstance(v, Value)]
    dtypes = [k.dtype for k in kinds if isinstance(k, TensorType) and k.dtype is not None]
    return source if len(dtypes) == 2 and dtypes[0] is dtypes[1] else _UNCHANGED


@_enter(aten.mul, aten.div)
def _by_one(node: Node) -> Operand:
    return _if_number(node, 1)


@_enter(aten.add, aten.sub)
def _with_zero(node: Node) -> Operand:
    """x + 0 is x, save that it makes 0.0 of -0.0: x - 0 and sums of integers are."""
    kind = node.output.type
    is_integer = isinstance(kind, TensorType) and kind.dtype is not None and not kind.dtype.is_differentiable
    return _if_number(node, 0) if is_integer or node.op in aten.sub.overloads else _UNCHANGED


def _if_number(node: Node, neutral: int) -> Operand:
    """The first operand where the second is the neutral number, and the result is known to be of the same type."""
    first, second = node.args[:2]
    kind = node.output.type
    if isinstance(second, bool) or second != neutral or not isinstance(kind, TensorType) or not _has_type(first, kind):
        return _UNCHANGED
    return first if len(node.args) < 3 or node.args[2] in (None, 1) else _UNCHANGED


# ---- questions that a type answers
@_enter(aten.size)
def _size(node: Node) -> Operand:
    kind = _tensor_type(node)
    if kind is None or kind.dims is None or len(node.args) != 2 or type(node.args[1]) is not int:
        return _UNCHANGED
    at = node.args[1]
    size = kind.dims[at] if -len(kind.dims) <= at < len(kind.dims) else None
    return size if type(size) is int else _UNCHANGED


@_enter(aten.dim)
def _rank(node: Node) -> Operand:
    kind = _tensor_type(node)
    return _UNCHANGED if kind is None or kind.dims is None else len(kind.dims)


@_enter(aten.numel)
def _count(node: Node) -> Operand:
    kind = _tensor_type(node)
    count = kind.numel if kind is not None and kind.dims is not None and None not in kind.dims else None
    return count if type(count) is int else _UNCHANGED


@_enter(aten.is_floating_point)
def _is_floating_point(node: Node) -> Operand:
    kind = _tensor_type(node)
    return _UNCHANGED if kind is None or kind.dtype is None else kind.dtype.is_floating_point


@_enter(aten.is_complex)
def _is_complex(node: Node) -> Operand:
    kind = _tensor_type(node)
    return _UNCHANGED if kind is None or kind.dtype is None else kind.dtype.is_complex


def _dtype(node: Node) -> Operand:
    kind = _tensor_type(node)
    return _UNCHANGED if kind is None or kind.dtype is None else kind.dtype


def _tensor_type(node: Node) -> TensorType | None:
    kind = node.args[0].type if isinstance(node.args[0], Value) else None
    return kind if isinstance(kind, TensorType) else None


# ---- the language
def _is_none(node: Node) -> Operand:
    """Whether a value that is never None is None."""
    a, b = node.args
    value, other = (a, b) if isinstance(a, Value) else (b, a)
    if other is not None or not isinstance(value, Value) or value.type is NONE or isinstance(value.type, OptionalType):
        return _UNCHANGED
    return node.op is _IS_NOT if str(value.type) != "Any" else _UNCHANGED


def _neutral(number: int, kinds: tuple[Type, ...] = (INT, FLOAT)) -> Rule:
    """The rule of an operation whose second operand changes nothing if it is `number`. (0.0 + -0.0 is 0.0, so that only
    an int plus 0 is what it was.)
    """

    def rule(node: Node) -> Operand:
        first, second = node.args[:2]
        is_neutral = type(second) is int and second == number
        is_kept = isinstance(first, Value) and first.type in kinds and first.type is node.output.type
        return first if is_neutral and is_kept else _UNCHANGED

    return rule


def _is_cast(node: Node) -> Operand:
    """A cast to the type that the value has."""
    source = node.args[0]
    return source if isinstance(source, Value) and source.type is node.output.type else _UNCHANGED


@_enter(aten.t)
def _twice(node: Node) -> Operand:
    """What is undone by doing it again: `not not a`, `-(-a)`, `x.t().t()`."""
    inner = _maker(node.args[0])
    return inner.args[0] if inner is not None and inner.op is node.op else _UNCHANGED


def _maker(operand: Operand) -> Node | None:
    return operand.node if isinstance(operand, Value) else None


_IS, _IS_NOT = OPS["prim::is_"], OPS["prim::is_not"]
_RULES.update(dict.fromkeys((_IS, _IS_NOT), _is_none))
_RULES.update({OPS["prim::dtype"]: _dtype})
_RULES.update({
    OPS["prim::add"]: _neutral(0, (INT,)), OPS["prim::sub"]: _neutral(0), OPS["prim::mul"]: _neutral(1),
    OPS["prim::floordiv"]: _neutral(1, (INT,)), OPS["prim::truediv"]: _neutral(1, (FLOAT,)),
})
_RULES.update(dict.fromkeys((OPS[f"prim::{n}"] for n in ("unchecked_cast", "int", "float", "str", "pos")), _is_cast))
_RULES.update(dict.fromkeys((OPS[f"prim::{n}"] for n in ("not_", "neg", "invert")), _twice))
