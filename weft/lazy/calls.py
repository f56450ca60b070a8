"""Calls of a trace: which arguments decide what is computed, what their type rules say, and which calls are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.lazy.values import Deferred, Node, SizeOf
from weft.ops.op import Op
from weft.support.errors import WeftError
from weft.types import dims
from weft.types.dims import Dim, Expr
from weft.types.sym import SymInt
from weft.types.tensor_type import TensorType
from weft.types.unbacked import UnbackedEnv, UnbackedSize, bare_size, unknown_in


class NoValue(WeftError):
    """An operator answers with something that no program brings: a number of Python's, or sizes that hang on values."""


class Drawn(int):
    """An integer that is another one at every call: a generator's key, or how far it has been used."""

    def __add__(self, other: int) -> Drawn:
        return Drawn(int(self) + other)


def same_as(op: Op, seen: list[Any], types: tuple[TensorType, ...]) -> int | None:
    """The argument that a call gives back as it is."""
    assert op.identity is not None
    at: int | None = op.identity(*seen)
    return at if at is not None and len(types) == 1 and seen[at] is types[0] else None


def decides(op: Op, i: int, a: Any) -> bool:
    """Whether an argument's value decides what is computed: then it belongs to the structure of the call. So does an
    integer that is none of a program's.
    """
    if type(a) is int and abs(a) >> 63:
        return True
    if type(a) is SizeOf:
        return False  # (it was asked)
    if type(a) is Expr:
        a = SymInt(a, _ASKED)
    return any(question(a) for position, question in op.specialized_positions if position == i)


_ASKED = UnbackedEnv(runs=False)
SIMPLE = frozenset((0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5))  # numbers that programs are better for knowing
_FAR = 8  # calls


def sign_of(value: Any, far: int = _FAR) -> Any:
    """What two values have in common that the same calls give of the same values."""
    if type(value) is tuple:
        return tuple([sign_of(v, far) for v in value])
    if type(value) is not Deferred:
        return (type(value), value) if type(value) is not float or value in SIMPLE else object()
    node = value.node
    if node is None or not far or (type(node.op) is Op and node.op.effect not in ("pure", "raises")):
        return id(value)
    if type(node.op) is Op:
        return node.op, value.index, sign_of(node.args, far - 1)
    return node.op.structure, value.index, node.numbers, sign_of(node.args, far - 1)


def values_in(args: Iterable[Any]) -> list[Deferred]:
    """The deferred values among arguments, those in tuples included."""
    values: list[Deferred] = []
    for a in args:
        if type(a) is Deferred:
            values.append(a)
        elif type(a) is tuple:
            values.extend(values_in(a))
        elif type(a) is SizeOf:
            values.extend([value for _, value, _ in a.sources])
    return values


def result_types(op: Op, seen: tuple[Any, ...]) -> tuple[TensorType, ...]:
    """The types of a call's results, by its entry's rule or a view's geometry. Raises NoValue."""
    if op.type is not None:
        given_types = op.type(*seen)
    else:
        from weft.ir.structure import view_type  # the geometry of a view gives its type

        given_types = view_type(op, seen)
    types = tuple(given_types) if isinstance(given_types, (tuple, list)) else (given_types,)
    for kind in types:
        if not isinstance(kind, TensorType) or not kind.is_complete or not all(map(_can_be_found, kind.shape)):
            raise NoValue(f"{op.base}: its result is known when it has run")
    return types


def _can_be_found(d: Dim) -> bool:
    """Whether a size is a number, or one that somebody can be asked for."""
    return type(d) is int or all([type(atom) is UnbackedSize for atom in dims.symbol_atoms(d)])


def new_sizes(op: Op, types: tuple[TensorType, ...]) -> bool:
    """Whether sizes are new ones. Raises NoValue for those that no result shows as they are."""
    dims_of = tuple([kind.shape for kind in types])
    new = [size for size in unknown_in(dims_of) if size.value is None]
    shown = [bare_size(d) for shape in dims_of for d in shape]
    if not all([size in shown for size in new]):
        raise NoValue(f"{op.base}: its result is known when it has run")
    return bool(new)


def is_symbolic(seen: Any) -> bool:
    """Whether sizes among what a rule sees are no numbers yet."""
    if isinstance(seen, TensorType):
        return seen.is_symbolic
    return any(map(is_symbolic, seen)) if type(seen) is tuple else type(seen) is Expr


def seen_types(a: Any) -> Any:
    if type(a) is Deferred:
        return a.type_
    if type(a) is SizeOf:
        return a.expr
    return tuple([seen_types(v) for v in a]) if type(a) is tuple else a


def needed_for(nodes: Sequence[Node], wanted: Iterable[Deferred]) -> list[int]:
    """The positions of the calls that these values wait for, in order."""
    needed = {v.node.position for v in wanted if v.node is not None}
    for position in range(len(nodes) - 1, -1, -1):
        if position in needed:
            needed.update([v.node.position for v in values_in(nodes[position].args) if v.node is not None])
    return sorted(needed)
