"""The types of a node's results where little is known of its arguments: by its rule on symbols in place of unknown
sizes; where the rule asks about those, dtype and rank from runs of it on representatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from weft.ir.builder import Builder, NumberStandIn, result_type
from weft.ir.graph import Node, Operand, Value
from weft.ir.kinds import type_of_immediate
from weft.passes.scripted.entries import TENSOR_GETITEM
from weft.passes.scripted.index_types import indexed_type
from weft.support.errors import CaptureError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Expr
from weft.types.dtype import DType
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    dict_of,
    list_of,
    optional,
    tensor_type,
    tuple_of,
    unify,
)

Known = dict[Value, Type]
_SAMPLES = 400  # runs of a rule on representatives, at most
_DTYPES = (dt.float32, dt.float64, dt.int64, dt.complex64, dt.bool_)
_SIZES = (2, 1, 3)


def result_types(node: Node, kinds: Known, numbers: dict[Value, int]) -> tuple[Type, ...]:
    """The types of the results: at least what the schema says. `kinds` has the types of values, `numbers` the integers
    that are known.
    """
    declared = tuple(v.type for v in node.outputs)
    if node.op.type is None and node.op.view is None and node.op.decompose is None:
        return tuple(map(forgotten, declared))
    if node.op is TENSOR_GETITEM:
        return (_indexed(node, kinds, numbers),)
    if node.op.host:
        return _of_host(node, kinds, declared)
    args = tuple(_shown(a, kinds, numbers) for a in node.args)
    if not any(isinstance(t, TensorType) or _spread(node) for t in declared):
        return declared
    exact = _by_rule(node, args)
    if exact is None:
        exact = _by_representatives(node, args)
    if exact is None or (len(exact) != len(declared) and not _spread(node)):
        return tuple(map(forgotten, declared))
    return (list_of(_joined(exact)),) if _spread(node) else exact


def _spread(node: Node) -> bool:
    """Whether the results are one list."""
    return len(node.outputs) == 1 and isinstance(node.outputs[0].type, ListType)


def forgotten(kind: Type) -> Type:
    """The type without what a graph may say of sizes and dtypes that others can change."""
    if isinstance(kind, TensorType):
        return TENSOR
    if isinstance(kind, ListType):
        return list_of(forgotten(kind.element))
    if isinstance(kind, DictType):
        return dict_of(kind.key, forgotten(kind.value))
    if isinstance(kind, OptionalType):
        return optional(forgotten(kind.inner))
    if isinstance(kind, TupleType) and not kind.name:
        return tuple_of(*map(forgotten, kind.elements))
    return kind


def _joined(types: Sequence[Type]) -> Type:
    joined = types[0] if types else TENSOR
    for kind in types[1:]:
        joined = unify(joined, kind)
    return joined


# ---- operators on Python's values
def _of_host(node: Node, kinds: Known, declared: tuple[Type, ...]) -> tuple[Type, ...]:
    """What the rule gives for the types of the arguments, where that is more than the graph says."""
    builder = Builder()
    args = tuple(_retyped(a, kinds) for a in node.args)
    try:
        inferred = builder.infer(node.op, args)
    except Exception:
        return tuple(map(forgotten, declared))
    if len(inferred) != len(declared):
        return tuple(map(forgotten, declared))
    return tuple(
        f if f.is_subtype_of(forgotten(d)) else forgotten(d) for f, d in zip(inferred, declared, strict=True)
    )


def _indexed(node: Node, kinds: Known, numbers: dict[Value, int]) -> Type:
    """What `x[...]` is."""
    source, index = node.args
    kind = kinds.get(source, source.type)
    if not isinstance(kind, TensorType):
        return TENSOR
    return indexed_type(kind, index, lambda v: kinds.get(v, v.type), numbers)


def _retyped(operand: Operand, kinds: Known) -> Operand:
    if isinstance(operand, Value):
        return Value(kinds.get(operand, operand.type))
    return tuple(_retyped(o, kinds) for o in operand) if isinstance(operand, tuple) else operand


# ---- operators on tensors
class _Unknown:
    """A number of which the program knows nothing before it runs."""

    def __init__(self, kind: Type) -> None:
        self.kind = kind


def _shown(operand: Operand, kinds: Known, numbers: dict[Value, int]) -> Any:
    """What a rule is to see: types of tensors, numbers that are known, _Unknown for others."""
    if isinstance(operand, Value):
        if operand in numbers:
            return numbers[operand]
        kind = kinds.get(operand, operand.type)
        if isinstance(kind, OptionalType) and isinstance(kind.inner, TensorType):
            kind = kind.inner
        if isinstance(kind, ListType) and isinstance(kind.element, TensorType):
            return _Unknown(kind)
        return kind if isinstance(kind, TensorType) else _Unknown(kind)
    return tuple(_shown(o, kinds, numbers) for o in operand) if isinstance(operand, tuple) else operand


def _by_rule(node: Node, args: tuple[Any, ...]) -> tuple[Type, ...] | None:
    """What the rule says with symbols in place of unknown sizes, for every dtype and rank that there can be; None where
    an answer hangs on a size.
    """
    return _agreed(node, args, ())


def _by_representatives(node: Node, args: tuple[Any, ...]) -> tuple[Type, ...] | None:
    """dtype and rank that all representatives agree on for which the rule has an answer; None where it has none."""
    agreed = _agreed(node, args, _SIZES)
    return None if agreed is None else tuple(map(_without_sizes, agreed))


class _Undecided(Exception):
    """A rule asks for a size that is not known."""


def _agreed(node: Node, args: tuple[Any, ...], sizes: tuple[int, ...]) -> tuple[Type, ...] | None:
    """What the rule says for every choice that it does not refuse."""
    agreed: tuple[Type, ...] | None = None
    places = tuple(_choices(args, sizes))
    if _count(places) > _SAMPLES:
        return None
    for chosen in itertools.product(*places):
        choices, env = iter(chosen), ShapeEnv()
        try:
            types = _run(node, tuple(_filled(a, choices, env, bool(sizes)) for a in args), env)
        except _Undecided:
            return None
        if types is None:
            continue
        types = tuple(map(_without_symbols, types))
        if agreed is None:
            agreed = types
        elif len(agreed) != len(types):
            return None
        else:
            agreed = tuple(unify(a, b) for a, b in zip(agreed, types, strict=True))
    return agreed


def _without_symbols(kind: Type) -> Type:
    if isinstance(kind, TensorType) and kind.dims is not None:
        return kind.with_dims(tuple(None if type(d) is Expr else d for d in kind.dims))
    return kind


def _run(node: Node, seen: tuple[Any, ...], env: ShapeEnv) -> tuple[Type, ...] | None:
    """The rule's answer, or None where it refuses these types. Raises _Undecided."""
    try:
        if node.op.type is None and node.op.view is None:
            return _opened(node, seen, env)
        with shape_env.using(env):
            types = result_type(node.op, seen)
    except (CaptureError, TypeError, AttributeError) as problem:  # a question, or arithmetic, on what is no number yet
        raise _Undecided from problem
    except Exception:
        return None
    return types if isinstance(types, tuple) else (types,)


def _opened(node: Node, seen: tuple[Any, ...], env: ShapeEnv) -> tuple[Type, ...]:
    """The types of what an operator without a rule is made of."""
    assert node.op.decompose is not None
    builder = Builder("opened", env)
    with builder.active():
        opened = node.op.decompose(*(_handled(builder, s) for s in seen))
    results = opened if isinstance(opened, (tuple, list)) else (opened,)
    return tuple(type_of_immediate(builder.operand(r)) for r in results)


def _handled(builder: Builder, seen: Any) -> Any:
    if isinstance(seen, TensorType):
        return builder.handle(builder.param(seen))
    return tuple(_handled(builder, s) for s in seen) if isinstance(seen, tuple) else seen


def _count(places: Sequence[Sequence[Any]]) -> int:
    count = 1
    for choices in places:
        count *= len(choices)
    return count


def _without_sizes(kind: Type) -> Type:
    return kind.with_dims((None,) * kind.ndim) if isinstance(kind, TensorType) and kind.dims is not None else kind


def _choices(args: tuple[Any, ...], sizes: tuple[int, ...]) -> Iterator[Sequence[Any]]:
    """For each thing that is not known: what could stand for it. Without `sizes`, symbols stand for sizes."""
    for arg in args:
        if isinstance(arg, TensorType):
            if arg.dtype is None:
                yield _DTYPES
            if arg.dims is None:
                yield [(n,) * rank for rank in range(5) for n in (sizes[: min(1 + rank, 2)] or (None,))]
            elif None in arg.dims and sizes:
                yield [tuple(n if d is None else d for d in arg.dims) for n in sizes]
        elif isinstance(arg, _Unknown) and (arg.kind is BOOL or (arg.kind is INT and sizes)):
            yield (True, False) if arg.kind is BOOL else (1, 2, 0)
        elif isinstance(arg, tuple):
            yield from _choices(arg, sizes)


def _filled(arg: Any, choices: Iterator[Any], env: ShapeEnv, sized: bool) -> Any:
    """An argument for one choice; `sized`, if sizes are among what is chosen."""
    if isinstance(arg, TensorType):
        dtype: DType | None = next(choices) if arg.dtype is None else arg.dtype
        dims = next(choices) if arg.dims is None or (sized and None in arg.dims) else arg.dims
        return tensor_type(dtype, tuple(env.fresh("u") if d is None else d for d in dims), arg.device)
    if isinstance(arg, _Unknown):
        return _number(arg.kind, choices, env, sized)
    return tuple(_filled(a, choices, env, sized) for a in arg) if isinstance(arg, tuple) else arg


def _number(kind: Type, choices: Iterator[Any], env: ShapeEnv, sized: bool) -> Any:
    """What stands for a number that is not known."""
    if kind is BOOL or (kind is INT and sized):
        return next(choices)
    if kind is INT:
        return env.fresh("i")
    if kind in (FLOAT, COMPLEX):
        return NumberStandIn(kind)
    if kind is DEVICE:
        return "cpu"
    raise _Undecided
