"""Operators of a program on numbers that are only known when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.catalogue.language.entries import COMPARES, NATIVE, OF_ELEMENTS, ORDERED, SIGNATURES
from weft.catalogue.language.native import Body
from weft.catalogue.language.signatures import Signature, stands_for_any
from weft.jit.interpreter.recording.containers import containers
from weft.jit.interpreter.recording.effects import show_when_run
from weft.jit.interpreter.recording.numbers import NUMBERS
from weft.jit.interpreter.recording.rows import ON_ROWS, has_rows, one_of, plainly, put_at
from weft.jit.interpreter.recording.scaled import with_tensors
from weft.jit.interpreter.recording.values import (
    Asked,
    NotRecorded,
    RunTime,
    is_open,
    kind_of,
    number_tensor,
    options_of,
    parts_of,
)
from weft.ops.methods import OperatorMethods
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.record.blocks import front_ends as blocks
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.sym import SymInt, fits
from weft.types.tensor_type import BOOL, FLOAT, INT, ListType, Type

_UNPACKED = tuple(OPS[f"prim::Tuple{n}"] for n in ("Construct", "Index", "Unpack"))
_COMPARISONS = tuple(OPS[f"prim::{n}"] for n in ("lt", "le", "gt", "ge", "eq", "ne"))
_OF_TENSORS = tuple(OPS[f"prim::{n}"] for n in ("bool", "int", "float"))
_GET, _SET = OPS["prim::tensor_getitem"], OPS["prim::tensor_setitem"]
_PRINT = OPS["prim::Print"]
_RANGE, _SELECT, _CAST = OPS["prim::range_length"], OPS["aten::select.int"], OPS["prim::unchecked_cast"]
_RANKS: dict[Type, int] = {BOOL: 0, INT: 1, FLOAT: 2}
_ITEM = OPS["aten::item"]
_CONTAINERS = tuple(OPS[f"prim::{n}"] for n in ("ListConstruct", "DictConstruct", "ListUnpack", "len"))
_AT_END = tuple(OPS[f"prim::{n}"] for n in ("append", "extend"))
_ANY_ELEMENTS = (*_AT_END, OPS["prim::copy"])  # do with lists what they do, whatever stands in them
_ELEMENT, _SET_ELEMENT = OPS["prim::getitem"], OPS["prim::setitem"]
_AS_THEY_ARE = (*_UNPACKED, _CAST)


def recorded(
    op: Op, function: Callable[..., Any], otherwise: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """What computes an operator of a program that is captured. otherwise: gives what computes it, of what would, where
    the operands ask for more."""
    inner = _recorded(op, function)
    if otherwise is not None:
        inner = otherwise(inner)
    writes, at_end = writes_or_shows(op), op in _AT_END
    on_rows = ON_ROWS.get(op)

    def noted(*args: Any) -> Any:
        state, own = containers(), inner
        if op not in _ANY_ELEMENTS and any(map(has_rows, args)):
            if on_rows is not None:
                own = on_rows
            elif writes:
                state.replace(args[0], plainly(args[0].copy()))
            else:
                args = tuple([plainly(a.copy()) if has_rows(a) else a for a in args])
        return state.around(own, args, writes, at_end)

    return noted


def writes_or_shows(op: Op) -> bool:
    """Whether an entry of the language writes to its first operand, or does what Python sees."""
    return op.host and op.effect == ORDERED and not op.observes


def _recorded(op: Op, function: Callable[..., Any]) -> Callable[..., Any]:
    if op in _AS_THEY_ARE:
        return function
    if op is _PRINT:
        return show_when_run
    if not op.host and op is not _ITEM:
        return lambda *args: _on_tensors(op, function, args)
    if op in (_GET, _SET):
        return lambda self, *rest: function(self, *map(_as_index, rest))
    if op is _ITEM:
        return lambda a: _item(a) if is_symbolic(a) else function(a)
    if op in (_ELEMENT, _SET_ELEMENT):
        return _at_place(op, function)
    body = NATIVE.get(op)
    if op in _OF_TENSORS:
        return lambda a: (
            body(NUMBERS, a) if is_symbolic(a) or type(a) is RunTime else function(_answered(a))  # type: ignore[misc]
        )
    if op in _COMPARISONS:
        return lambda a, b: _compared(op, function, a, b)
    if op is _RANGE:
        return _range_length(function)
    writes, of_elements, compares = writes_or_shows(op), OF_ELEMENTS.get(op), op in COMPARES

    def on_values(*args: Any) -> Any:
        if writes and not (args and type(args[0]) in (list, dict)):
            refuse_in_block(op.name)
        if not any(map(_waits, args)):
            return _of_64_bits(function(*args), body, args)
        looks = compares and type(args[0]) in (list, tuple)
        if looks and type(args[0]) is list and any(type(part) is Asked for part in args[0]):
            args[0][:] = map(_answered, args[0])
        answered = args if writes and not looks else tuple(map(_answered, args))
        if looks and of_elements is not None and any(map(_is_run_time, answered)):
            compared = of_elements(NUMBERS, *answered)
            if compared is not None:
                return compared
        if not looks and _holds_only(op, args):
            return function(*args)
        if not any(map(_is_run_time, answered)):
            return _of_64_bits(function(*answered), body, answered)
        if body is None:
            raise NotRecorded(f"{op.name} of a number that is only known when the program runs")
        return body(NUMBERS, *answered)

    return on_values


def _of_64_bits(value: Any, body: Body | None, args: Sequence[Any]) -> Any:
    """What an entry gives of symbols, which are exact. Where an integer may not be one of 64 bits, the program computes
    it, and wraps around as it does."""
    if body is None or all([type(part) is not SymInt or fits(part) for part in parts_of(value) or (value,)]):
        return value
    return body(NUMBERS, *args)


def _answered(value: Any) -> Any:
    """An operand, with the answers to questions about sizes, which are guarded."""
    if type(value) is Asked:
        return bool(value)
    parts = value if type(value) in (list, tuple) else ()
    return type(value)(map(_answered, parts)) if any(type(part) is Asked for part in parts) else value


def _holds_only(op: Op, args: Sequence[Any]) -> bool:
    """Whether an operator does not look into the numbers that it is given, which it holds or hands on."""
    if op in _ANY_ELEMENTS or op in _CONTAINERS or (type(args[0]) in (list, dict) and op in NATIVE):
        return True
    signatures = SIGNATURES.get(op, ())
    return bool(signatures) and all(
        not _waits(value) or all(map(stands_for_any, _taken(signatures, at, value))) for at, value in enumerate(args)
    )


def _taken(signatures: Sequence[Signature], at: int, value: Any) -> list[Type]:
    """What signatures take at a place; in place of a list, those that take none are left out."""
    taken = [s.takes[at] for s in signatures if at < len(s.takes)]
    lists: list[Type] = [kind for kind in taken if isinstance(kind, ListType)] if type(value) is list else []
    return lists or taken


def refuse_in_block(name: str) -> None:
    """What Python sees happens once for each run, not once for a capture. Raises NotRecorded within a branch or loop
    that is recorded.
    """
    if blocks.is_in_block():
        raise NotRecorded(f"{name} in a branch or a loop that hangs on values")


def _is_run_time(value: Any) -> bool:
    return type(value) is RunTime or any(map(_is_run_time, parts_of(value) or ()))


def _waits(value: Any) -> bool:
    """Whether it is, or holds, a number of the run, or a question that nobody has answered yet."""
    return type(value) in (RunTime, Asked) or any(map(_waits, parts_of(value) or ()))


def is_symbolic(value: Any) -> bool:
    """Whether it is a tensor whose value only the run knows."""
    return isinstance(value, Tensor) and not is_dense(value)


def _item(a: Tensor) -> RunTime:
    if a.dtype.is_floating_point:
        return NUMBERS.to_float(a)
    return NUMBERS.to_bool(a) if a.dtype is dt.bool_ else NUMBERS.to_int(a)


def _as_index(value: Any) -> Any:
    if type(value) is RunTime:
        return value.tensor
    if isinstance(value, list) and any(map(_is_run_time, value)):
        return aten.stack(tuple(map(number_tensor, value)))
    return tuple(map(_as_index, value)) if isinstance(value, tuple) else value


def _compared(op: Op, function: Callable[..., Any], a: Any, b: Any) -> Any:
    if any(isinstance(v, (list, tuple)) and _is_run_time(v) for v in (a, b)):
        return OF_ELEMENTS[op](NUMBERS, _answered(a), _answered(b))
    if _is_run_time(a) or _is_run_time(b):
        first, second = options_of(a), options_of(b)
        if first is not None and second is not None:
            answers = {function(x, y) for x in first for y in second}
            if len(answers) == 1:
                return answers.pop()
        return NATIVE[op](NUMBERS, a, b)
    if (is_open(a) or is_open(b)) and kind_of(a) is not None and kind_of(b) is not None:
        return Asked(lambda: bool(function(_answered(a), _answered(b))), lambda: NATIVE[op](NUMBERS, a, b))
    return function(_answered(a), _answered(b))


def _at_place(op: Op, function: Callable[..., Any]) -> Callable[..., Any]:
    """An element of a list, read or written at a place that may only be known when the program runs."""
    at_place = one_of if op is _ELEMENT else put_at

    def found(self: Any, index: Any, *value: Any) -> Any:
        return (at_place if type(index) is RunTime and type(self) is list else function)(self, index, *value)

    return found


def _range_length(function: Callable[..., Any]) -> Callable[..., Any]:
    def length(start: Any, stop: Any, step: Any) -> Any:
        if not any(map(is_open, (start, stop, step))):
            return function(start, stop, step)
        if _is_run_time((start, stop)) or type(step) is not int or step == 0:
            return NATIVE[_RANGE](NUMBERS, start, stop, step)
        distance, stride = (stop - start, step) if step > 0 else (start - stop, -step)
        return (distance + stride - 1) // stride  # a loop of fewer than no steps makes none

    return length


# ---- operators on tensors
def _on_tensors(op: Op, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    if not any(map(_is_run_time, args)):
        return function(*[bool(a) if type(a) is Asked else _as_bound(a) for a in args])
    if op is _SELECT and type(args[1]) is int and not _is_run_time(args[0]):
        return aten.select_at(args[0], args[1] % args[0].ndim, number_tensor(args[2]))
    numbers = [
        i for i, (a, v) in enumerate(zip(op.schema.arguments, args, strict=True))
        if type(v) is RunTime and a.kind == "Scalar"
    ]
    if numbers and not _take_tensors(op, numbers):
        return with_tensors(op, function, args)
    converted: list[Any] = []
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if type(value) is not RunTime:
            if _is_run_time(value):
                value = type(value)([as_size(v) for v in value])
            converted.append(value)
        elif argument.kind in ("Tensor", "Scalar"):
            converted.append(like_tensors(value, args))
        else:
            converted.append(as_size(value))
    return _other_overload(op, converted) if numbers else function(*map(_as_bound, converted))


def _as_bound(value: Any) -> Any:
    """An argument as a call that Python makes binds it: symbols as what they stand for, in lists too."""
    if type(value) in (tuple, list):
        return type(value)(map(_as_bound, value)) if any(type(v) is SymInt for v in value) else value
    return value.expr if type(value) is SymInt else value


def _take_tensors(op: Op, places: Sequence[int]) -> bool:
    """Whether an overload takes tensors where this one takes numbers."""
    others: list[Op] = getattr(aten, op.schema.base).overloads
    kinds = [[a.kind for a in o.schema.arguments] for o in others]
    return any(all(i < len(k) and k[i] == "Tensor" for i in places) for k in kinds)


def _other_overload(op: Op, args: Sequence[Any]) -> Any:
    """The overload that takes a tensor where this one takes a number."""
    operands = list(args)
    names = [a.name for a in op.schema.arguments]
    keywords = {n: v for a, n, v in zip(op.schema.arguments, names, operands, strict=True) if a.keyword_only}
    try:
        return getattr(aten, op.schema.base)(*operands[: len(operands) - len(keywords)], **keywords)
    except TypeError as problem:
        raise NotRecorded(
            f"{op.name} takes a number that is only known when the program runs; pass a tensor"
        ) from problem


def as_size(value: Any) -> Any:
    """An integer that Python must know. Raises NotRecorded."""
    if type(value) is int or isinstance(value, SymInt):
        return value
    raise NotRecorded("a size is only known when the program runs")


def like_tensors(number: RunTime, args: Sequence[Any]) -> Tensor:
    """A number as the tensor that has as much say in the result's dtype as a number of Python's."""
    return number_tensor(number, has_rank_of(args, number.kind))


def has_rank_of(args: Sequence[Any], kind: Type) -> DType | None:
    """The dtype of a number that is joined with operands; None for its own."""
    every = [part for a in args for part in (a if isinstance(a, (tuple, list)) else (a,))]
    tensors: list[Any] = [v for v in every if isinstance(v, OperatorMethods)]
    return _joined([t.dtype for t in tensors], kind)


def _joined(dtypes: Sequence[DType], kind: Type) -> DType | None:
    if not dtypes:
        return dt.get_default() if kind is FLOAT else None
    first = dtypes[0]
    rank = 0 if first is dt.bool_ else 1 if not (first.is_floating_point or first.is_complex) else 2
    if rank >= _RANKS[kind]:
        return first
    return dt.int64 if kind is INT else dt.get_default()
