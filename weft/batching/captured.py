"""Operators on the values of all examples in a program that is captured: numbers that differ are tensors of one element
for each example, and sizes that differ are such numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.batching.indexing import GET_ITEM, by_parts
from weft.batching.masks import Mask, chosen
from weft.batching.operators import of_node, of_tensors
from weft.batching.values import Examples, OpenNumber, count_of, differs, in_form, within
from weft.catalogue.language.entries import NATIVE
from weft.jit.interpreter.recording.numbers import RecordedNumbers
from weft.jit.interpreter.recording.operators import as_size, has_rank_of, like_tensors
from weft.jit.interpreter.recording.rows import one_of, put_at
from weft.jit.interpreter.recording.values import Asked, NotRecorded, RunTime, kind_of, number_tensor
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.types.dtype import bool_
from weft.types.tensor_type import INT

_ITEM, _SELECT = OPS["aten::item"], OPS["aten::select.int"]
_ELEMENT, _SET_ELEMENT = OPS["prim::getitem"], OPS["prim::setitem"]
_SIZE, _LEN = OPS["aten::size.int"], OPS["prim::len"]


class _Numbers(RecordedNumbers):
    """Arithmetic of which an operand differs from example to example. count: how many examples there are."""

    def __init__(self, count: Any) -> None:
        self.count = count

    def _tensor(self, x: Any) -> Any:
        if isinstance(x, OpenNumber):
            return x.examples
        if isinstance(x, Examples):
            return x if x.ndim == 0 else aten.reshape(x, ())
        return Examples(aten.expand(super()._tensor(x), (self.count,)))


def of_open(op: Op, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The operator of a program's node where a value differs from example to example."""
    first = args[0]
    if op in (_SIZE, _LEN) and type(first) is Examples:
        return size_of(first, args[1] if op is _SIZE else 0)
    if op is _ITEM:
        return _left(_item(first))
    if op in (_ELEMENT, _SET_ELEMENT) and type(args[1]) is RunTime and type(first) is list:
        if op is _ELEMENT:
            return one_of(first, args[1])
        return put_at(first, args[1], args[2], _chooser(count_of(*args)))
    if op is GET_ITEM and type(first) is Examples:
        return by_parts(first, args[1], _element)
    if op in NATIVE and op.host and all(map(_is_number, args)):
        return _left(NATIVE[op](_Numbers(count_of(*args)), *args))
    if op is _SELECT and _is_own_place(first, args[1], args[2]):
        return _selected(first, args[1], args[2])
    if not op.host and any(isinstance(v, (OpenNumber, RunTime)) for v in (*args, *within(args))):
        return _with_tensors(op, function, args)
    return of_node(op, function, tuple([bool(a) if type(a) is Asked else a for a in args]))


def _chooser(count: Any) -> Callable[..., Any]:
    return lambda holds, value, other: chosen(Mask(aten.expand(holds, (count,)), count), value, other)


def _is_number(value: Any) -> bool:
    return isinstance(value, (OpenNumber, Examples)) or kind_of(value) is not None


def _left(value: Any) -> Any:
    """A number as the program has it: one for all, or one for each example."""
    if type(value) is RunTime and isinstance(value.tensor, Examples):
        return OpenNumber(value.tensor, value.kind)
    return in_form(value, [_left(part) for part in value]) if isinstance(value, tuple) else value


def _item(value: Examples) -> Any:
    kind, numbers = value.dtype, _Numbers(value.size)
    if kind.is_floating_point:
        return numbers.to_float(value)
    return numbers.to_bool(value) if kind is bool_ else numbers.to_int(value)


def size_of(value: Examples, dim: int) -> Any:
    """A size of the examples: a number for each where it differs."""
    if not -value.ndim <= dim < value.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-value.ndim}, {value.ndim - 1}], but got {dim})"
        )
    length = value.lengths[dim]
    return value.data.shape[dim % value.ndim + 1] if length is None else OpenNumber(Examples(length), INT)


# ---- places that are only known when the program runs
def _is_own_place(value: Any, dim: int, index: Any) -> bool:
    """Whether a place is only known when the program runs: a number that is, or one from an end that is."""
    if type(index) in (RunTime, OpenNumber):
        return True
    return isinstance(value, Examples) and isinstance(index, int) and index < 0 and value.lengths[dim] is not None


def _selected(value: Any, dim: int, index: Any) -> Any:
    at = dim % value.ndim
    if type(index) is OpenNumber or value.lengths[at] is not None:
        return _gathered(value, at, index)
    return of_tensors(OPS["aten::select_at"], (value, at, number_tensor(index)))


def _gathered(value: Any, dim: int, index: Any) -> Examples:
    """The slice of each example at its own place, counted from its own end if that is negative."""
    if not isinstance(value, Examples):
        value = Examples(aten.expand(aten.unsqueeze(value, 0), (index.examples.size, *value.shape)))
    place = index.examples.data if type(index) is OpenNumber else aten.expand(number_tensor(index), (value.size,))
    length = value.lengths[dim]
    size = value.data.shape[dim + 1] if length is None else length
    place = aten.where(aten.lt(place, 0), aten.add(place, size), place)
    data = aten.movedim(value.data, dim + 1, 1)
    rows = aten.arange(value.size)
    return Examples(aten.index(data, (rows, place)), (*value.lengths[:dim], *value.lengths[dim + 1 :]))


def _element(value: Examples, dim: int, part: Any) -> tuple[Any, int]:
    """What by_parts asks for, places that are only known when the program runs included."""
    if not isinstance(part, slice) and _is_own_place(value, dim, part):
        return _selected(value, dim, part), 0
    if isinstance(part, int):
        return aten.select(value, dim, part), 0
    if isinstance(part, slice):
        return _sliced(value, dim, part), 1
    raise NotRecorded("a tensor that differs from example to example is indexed by a tensor")


def _sliced(value: Examples, dim: int, part: slice) -> Any:
    ends = (part.start, part.stop, 1 if part.step is None else part.step)
    if ends == (None, None, 1):
        return value
    return aten.slice(value, dim, *[as_size(end) if differs(end) else end for end in ends])


# ---- operators on tensors that are given numbers
def _with_tensors(op: Op, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    converted: list[Any] = []
    has_other_overload = False
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if type(value) not in (RunTime, OpenNumber):
            converted.append(as_size(value) if any(isinstance(v, OpenNumber) for v in within(value)) else value)
        elif argument.kind in ("Tensor", "Scalar"):
            has_other_overload |= argument.kind == "Scalar"
            converted.append(_like(value, args))
        else:
            as_size(value)
    if not has_other_overload:
        return of_node(op, function, tuple(converted))
    names = [a.name for a in op.schema.arguments]
    keywords = {n: v for a, n, v in zip(op.schema.arguments, names, converted, strict=True) if a.keyword_only}
    return getattr(aten, op.schema.base)(*converted[: len(converted) - len(keywords)], **keywords)


def _like(number: Any, args: tuple[Any, ...]) -> Any:
    """A number as tensors that have as much say in the result's dtype as a number of Python's."""
    if type(number) is RunTime:
        return like_tensors(number, args)
    wanted = has_rank_of(args, number.kind)
    examples = number.examples
    return examples if wanted is None or examples.dtype is wanted else aten._to_copy(examples, dtype=wanted)
