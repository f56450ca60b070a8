"""Operators of a program on numbers that are only known when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.catalogue.language.entries import NATIVE, ORDERED
from weft.compile.capture.backend import active_capture
from weft.jit.recording.numbers import NUMBERS
from weft.jit.recording.values import Asked, NotRecorded, RunTime, is_open, kind_of, number_tensor, options_of
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, FLOAT, INT, Type

_UNPACKED = tuple(OPS[f"prim::Tuple{n}"] for n in ("Construct", "Index", "Unpack"))
_COMPARISONS = tuple(OPS[f"prim::{n}"] for n in ("lt", "le", "gt", "ge", "eq", "ne"))
_OF_TENSORS = tuple(OPS[f"prim::{n}"] for n in ("bool", "int", "float"))
_GET, _SET = OPS["prim::tensor_getitem"], OPS["prim::tensor_setitem"]
_RANGE, _SELECT, _CAST = OPS["prim::range_length"], OPS["aten::select.int"], OPS["prim::unchecked_cast"]
_RANKS: dict[Type, int] = {BOOL: 0, INT: 1, FLOAT: 2}
_ITEM = OPS["aten::item"]
_AS_THEY_ARE = (*_UNPACKED, _CAST)


def recorded(op: Op, function: Callable[..., Any]) -> Callable[..., Any]:
    """What computes an operator of a program that is captured."""
    if op in _AS_THEY_ARE:
        return function
    if not op.host and op is not _ITEM:
        return lambda *args: _on_tensors(op, function, args)
    if op in (_GET, _SET):
        return lambda self, *rest: function(self, *map(_as_index, rest))
    if op is _ITEM:
        return lambda a: _item(a) if _is_symbolic(a) else function(a)
    body = NATIVE.get(op)
    if op in _OF_TENSORS:
        return lambda a: body(NUMBERS, a) if _is_symbolic(a) or type(a) is RunTime else function(a)  # type: ignore[misc]
    if op in _COMPARISONS:
        return lambda a, b: _compared(op, function, a, b)
    if op is _RANGE:
        return _range_length(function)
    writes = op.effect == ORDERED and not op.observes

    def on_values(*args: Any) -> Any:
        if any(map(_is_run_time, args)):
            if body is None:
                raise NotRecorded(f"{op.name} of a number that is only known when the program runs")
            return body(NUMBERS, *args)
        if writes:
            refuse_in_block(op.name)
        return function(*args)

    return on_values


def refuse_in_block(name: str) -> None:
    """What Python sees happens once for each run, not once for a capture. Raises NotRecorded within a branch or loop
    that is recorded.
    """
    capture = active_capture()
    if capture is not None and capture.recorder.depth:
        raise NotRecorded(f"{name} in a branch or a loop that hangs on values")


def _is_run_time(value: Any) -> bool:
    return type(value) is RunTime or (isinstance(value, (tuple, list)) and any(map(_is_run_time, value)))


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, Tensor) and not value._data.has_bytes


def _item(a: Tensor) -> RunTime:
    if a.dtype.is_floating_point:
        return NUMBERS.to_float(a)
    return NUMBERS.to_bool(a) if a.dtype is dt.bool_ else NUMBERS.to_int(a)


def _as_index(value: Any) -> Any:
    if type(value) is RunTime:
        return value.tensor
    return tuple(map(_as_index, value)) if isinstance(value, tuple) else value


def _compared(op: Op, function: Callable[..., Any], a: Any, b: Any) -> Any:
    if _is_run_time(a) or _is_run_time(b):
        first, second = options_of(a), options_of(b)
        if first is not None and second is not None:
            answers = {function(x, y) for x in first for y in second}
            if len(answers) == 1:
                return answers.pop()
        return NATIVE[op](NUMBERS, a, b)
    if is_open(a) or is_open(b):
        if kind_of(a) is None or kind_of(b) is None:
            return function(a, b)
        return Asked(lambda: bool(function(a, b)), lambda: NATIVE[op](NUMBERS, a, b))
    return function(a, b)


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
        return function(*[bool(a) if type(a) is Asked else a for a in args])
    if op is _SELECT and type(args[1]) is int and not _is_run_time(args[0]):
        return aten.select_at(args[0], args[1] % args[0].ndim, number_tensor(args[2]))
    converted: list[Any] = []
    has_other_overload = False
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if type(value) is not RunTime:
            if _is_run_time(value):
                value = type(value)([_size(v) for v in value])
            converted.append(value)
        elif argument.kind in ("Tensor", "Scalar"):
            has_other_overload |= argument.kind == "Scalar"
            converted.append(_like_tensors(value, args))
        else:
            converted.append(_size(value))
    if not has_other_overload:
        return function(*converted)
    return _other_overload(op, converted)


def _other_overload(op: Op, args: Sequence[Any]) -> Any:
    """The overload that takes a tensor where this one takes a number."""
    given = list(args)
    names = [a.name for a in op.schema.arguments]
    keywords = {n: v for a, n, v in zip(op.schema.arguments, names, given, strict=True) if a.keyword_only}
    try:
        return getattr(aten, op.schema.base)(*given[: len(given) - len(keywords)], **keywords)
    except TypeError as problem:
        raise NotRecorded(
            f"{op.name} takes a number that is only known when the program runs; pass a tensor"
        ) from problem


def _size(value: Any) -> Any:
    """An integer as a symbol that is bound while the program runs."""
    if type(value) is not RunTime:
        return value
    raise NotRecorded("a size is only known when the program runs")


def _like_tensors(number: RunTime, args: Sequence[Any]) -> Tensor:
    """A number as the tensor that has as much say in the result's dtype as a number of Python's."""
    dtypes = [a.dtype for a in args if isinstance(a, Tensor)]
    dtypes += [v.dtype for a in args if isinstance(a, (tuple, list)) for v in a if isinstance(v, Tensor)]
    return number_tensor(number, _joined(dtypes, number.kind))


def _joined(dtypes: Sequence[DType], kind: Type) -> DType | None:
    if not dtypes:
        return dt.get_default() if kind is FLOAT else None
    first = dtypes[0]
    rank = 0 if first is dt.bool_ else 1 if not (first.is_floating_point or first.is_complex) else 2
    if rank >= _RANKS[kind]:
        return first
    return dt.int64 if kind is INT else dt.get_default()
