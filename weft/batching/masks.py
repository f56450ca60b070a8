"""Rows of a program that is captured: which examples go on is only known when it runs. Every block runs on all
examples; one that does not go on stands there as a copy of one that does, and what becomes of the copy is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.batching.values import Examples, MaskLink, OpenNumber, differs, in_form
from weft.jit.interpreter.recording.containers import containers
from weft.jit.interpreter.recording.values import UNSET, NotRecorded, RunTime, kind_of, number_tensor, same_type
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.tensor_type import BOOL

ENDLESS = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Mask:
    """Some of `count` examples: those for which `holds`, [count] of bool; None: all of them."""

    holds: Tensor | None
    count: Any

    def __weft_form__(self) -> Any:
        return self.count

    def __weft_parts__(self) -> list[Any]:
        return [aten.ones((self.count,), dtype=dt.bool_) if self.holds is None else self.holds]

    def __weft_remade__(self, parts: Sequence[Any]) -> Mask:
        return Mask(parts[0], self.count)

    def and_also(self, holds: Tensor) -> Mask:
        """Those of them for which this holds as well."""
        return Mask(holds if self.holds is None else aten.logical_and(self.holds, holds), self.count)

    def over(self, data: Tensor) -> Tensor:
        """The truth values, to choose between data of all examples."""
        assert self.holds is not None
        return aten.reshape(self.holds, (self.count, *(1,) * (data.ndim - 1)))  # type: ignore[no-any-return]


# ---- which rows
def where(condition: Any, rows: Mask) -> Mask:
    """The rows for which the condition holds."""
    return rows if condition is True else rows.and_also(_of_each(condition, rows))


def where_not(condition: Any, rows: Mask) -> Mask:
    """The rows for which the condition does not hold."""
    return rows.and_also(aten.logical_not(_of_each(condition, rows)))


def going(condition: Any, trip: Any, step: Any, rows: Mask) -> Mask:
    """The rows that make the step behind this one."""
    going_rows = where(condition, rows)
    if type(trip) is int and trip >= ENDLESS:
        return going_rows
    most = trip.examples.data if type(trip) is OpenNumber else number_tensor(trip)
    holds = aten.lt(aten.add(number_tensor(step), 1), most)
    return going_rows.and_also(holds if holds.ndim else aten.expand(holds, (rows.count,)))


def any_of(rows: Mask) -> Any:
    """Whether there is a row."""
    return True if rows.holds is None else RunTime(aten.any(rows.holds), BOOL)


def _of_each(condition: Any, rows: Mask) -> Tensor:
    if type(condition) is OpenNumber:
        return condition.examples.data
    return aten.expand(number_tensor(condition), (rows.count,))  # type: ignore[no-any-return]


# ---- into a block
def taken(value: Any, rows: Mask) -> Any:
    """What the rows have of a value."""
    if rows.holds is None or not (differs(value) or isinstance(value, (list, dict))):
        return value
    if type(value) is Examples:
        selected = _taken(value, rows)
        value.note_taker(selected, MaskLink(value, rows))
        return selected
    if type(value) is OpenNumber:
        return OpenNumber(_taken(value.examples, rows), value.kind)
    if isinstance(value, dict):
        entries = {k: taken(v, rows) for k, v in value.items()}
        containers().when_written(entries, _refuse_write)
        containers().makes(entries)
        return entries
    if isinstance(value, tuple):
        return in_form(value, [taken(part, rows) for part in value])
    if isinstance(value, list):
        return _taken_list(value, rows)
    raise NotRecorded(f"a value of type {type(value).__name__} that differs from example to example")


def _taken_list(source: list[Any], rows: Mask) -> list[Any]:
    """The elements of a list, as the rows have them; those that are replaced are replaced for the rows."""
    state = containers()
    state.reads(source)
    parts = [taken(part, rows) for part in source]
    state.makes(parts)
    if id(source) in state.of_each:
        state.of_each[id(parts)] = parts, source
    before = parts.copy()

    def write_back() -> None:
        if len(parts) != len(source):
            raise NotRecorded("a list whose length differs from example to example")
        new = [
            old if now is was else chosen(rows, now, old) for now, was, old in zip(parts, before, source, strict=True)
        ]
        before[:] = parts
        state.around(OPS["prim::set_slice"].kernel, (source, None, None, None, new), True, False)  # type: ignore[arg-type]

    state.when_written(parts, write_back)
    return parts


def _refuse_write() -> NoReturn:
    raise NotRecorded("a dict that examples write where they part")


def _taken(value: Examples, rows: Mask) -> Examples:
    assert rows.holds is not None
    first = aten.reshape(aten.argmax(rows.holds.to(dt.uint8)), (1,))

    def of_rows(data: Tensor) -> Tensor:  # a copy gets no gradient, so that no NaN of its own spreads
        one = aten.index_select(data.detach(), 0, first)
        return aten.where(rows.over(data), data, one)  # type: ignore[no-any-return]

    lengths = tuple([None if n is None else of_rows(n) for n in value.lengths])
    return Examples(of_rows(value.data), lengths)


def check_target(value: Examples) -> None:
    """Raise NotRecorded for what may be one of several tensors, of which the one would have to be written."""
    if value.root.has_met:
        raise NotRecorded("examples write into a tensor where their ways have met; make a new one instead")


def written_back(value: Examples) -> None:
    """After a write: the value of which this one has rows gets it too. Raises NotRecorded."""
    root = value.root
    for link in root.links:
        assert isinstance(link, MaskLink)
        source = link.source
        check_target(source)
        if any(taker() is not None and taker() is not root for taker in source.root.takers):
            raise NotRecorded("examples write into a tensor that is read by another name where they part")
        source.data.copy_(aten.where(link.rows.over(root.data), root.data, source.data))
        written_back(source)


# ---- out of it
def put(self: Any, rows: Mask, value: Any) -> Any:
    """A value with what the rows have now."""
    if rows.holds is None:
        return self if value is UNSET else value
    entry = containers().of_each.get(id(value))
    if _source_of(value, rows) is self or (entry is not None and entry[1] is self):
        return self
    return chosen(rows, value, self)


def merged(rows: Mask, value: Any, others: Mask, other: Any) -> Any:
    """A value of what rows and the others have."""
    if rows.holds is None:
        return value
    source = _source_of(value, rows)
    return source if source is not None and source is _source_of(other, others) else chosen(rows, value, other)


def _source_of(value: Any, rows: Mask) -> Examples | None:
    if isinstance(value, Examples) and len(value.links) == 1 and value.links[0].rows is rows:
        return value.links[0].source  # type: ignore[no-any-return]
    return None


def chosen(rows: Mask, value: Any, other: Any) -> Any:
    """`value` for the rows, `other` for all else. Raises ShapeError, DTypeError, NotRecorded."""
    if value is other or other is UNSET:
        return value
    if value is UNSET:
        return other
    if isinstance(value, (Examples, Tensor)) and isinstance(other, (Examples, Tensor)):
        return _chosen_tensors(rows, value, other)
    if _is_number(value) and _is_number(other):
        return _chosen_numbers(rows, value, other)
    if type(value) is type(other) and isinstance(value, (tuple, list)) and len(value) == len(other):
        joined = in_form(value, [chosen(rows, a, b) for a, b in zip(value, other, strict=True)])
        if isinstance(joined, list):
            state = containers()
            sources = [state.of_each[id(v)][1] for v in (value, other) if id(v) in state.of_each]
            state.stands_for(joined, [value, other, *sources])
        return joined
    if type(value) is type(other) and not differs((value, other)) and value == other:
        return value
    raise NotRecorded(f"a value of type {type(value).__name__} that differs from example to example")


def _chosen_tensors(rows: Mask, value: Any, other: Any) -> Examples:
    a, b = _as_examples(value, rows.count), _as_examples(other, rows.count)
    if a.ndim != b.ndim:
        raise ShapeError(
            f"batch: the examples give tensors of {a.ndim} and {b.ndim} dims, by the ways that they take; give them "
            "one rank"
        )
    if a.dtype is not b.dtype:
        raise DTypeError(f"batch: the examples give tensors of {a.dtype} and {b.dtype}; convert them to one dtype")
    if not same_type(a.data, b.data):
        raise NotRecorded("the size of a tensor hangs on the way that an example takes")
    lengths = tuple([
        m if m is n else aten.where(rows.holds, _length(m, a, dim), _length(n, b, dim))
        for dim, (m, n) in enumerate(zip(a.lengths, b.lengths, strict=True))
    ])
    examples = Examples(aten.where(rows.over(a.data), a.data, b.data), lengths)
    examples.has_met = True
    return examples


def _as_examples(value: Any, count: Any) -> Examples:
    if isinstance(value, Examples):
        return value
    return Examples(aten.expand(aten.unsqueeze(value, 0), (count, *value.shape)))


def _length(length: Any, value: Examples, dim: int) -> Tensor:
    if length is not None:
        return length  # type: ignore[no-any-return]
    return aten.full((value.size,), value.data.shape[dim + 1], dtype=dt.int64)  # type: ignore[no-any-return]


def _is_number(value: Any) -> bool:
    return type(value) is OpenNumber or kind_of(value) is not None


def _chosen_numbers(rows: Mask, value: Any, other: Any) -> Any:
    kinds = [v.kind if type(v) is OpenNumber else kind_of(v) for v in (value, other)]
    if kinds[0] is not kinds[1] or kinds[0] is None:
        raise NotRecorded("a number is of one type for some examples and of another for others")
    data = [v.examples.data if type(v) is OpenNumber else number_tensor(v) for v in (value, other)]
    return OpenNumber(Examples(aten.where(rows.holds, *data)), kinds[0])
