"""Elements that a recorded loop put at the end of a list: as many as it made steps, stacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.jit.interpreter.recording.numbers import NUMBERS
from weft.jit.interpreter.recording.values import (
    UNSET,
    Asked,
    NotRecorded,
    RunTime,
    kind_of,
    leaves,
    number_tensor,
    parts_of,
    rebuilt,
    remade,
    same_type,
)
from weft.ops.methods import OperatorMethods
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt
from weft.types.tensor_type import INT


@dataclass(eq=False)
class Rows:
    """Stands in a list for what a loop put there. elements: like those of one step; parts: for each leaf of them its
    values over all steps; steps: how many, a symbol or a 0-dim tensor.
    """

    elements: list[Any]
    parts: list[Tensor]
    steps: Any

    @property
    def count(self) -> Any:
        """How many elements these are."""
        if isinstance(self.steps, Tensor):
            return NUMBERS.arithmetic("mul", RunTime(self.steps, INT), len(self.elements))
        return self.steps * len(self.elements)

    def step(self, at: Any) -> list[Any]:
        """What one step put there. at: a number, from the end if it is negative."""
        place = number_tensor(at)
        selected = [aten.select_at(part, 0, place) for part in self.parts]
        kinds = [kind_of(leaf) for leaf in leaves(self.elements)]
        replacements = iter([t if k is None else RunTime(t, k) for t, k in zip(selected, kinds, strict=True)])
        return [rebuilt(element, replacements) for element in self.elements]

    def stacked(self) -> Tensor:
        """All elements as one tensor. Raises NotRecorded where they are no tensors of one shape."""
        if not all(isinstance(element, Tensor) for element in self.elements):
            raise NotRecorded("elements of a list whose number hangs on a loop are joined, and are no tensors")
        if len(self.parts) == 1:
            return self.parts[0]
        return aten.flatten(aten.stack(tuple(self.parts), 1), 0, 1)  # type: ignore[no-any-return]


def has_rows(value: Any) -> bool:
    """Whether a value is a list with elements that a loop put there."""
    return type(value) is list and any(type(v) is Rows for v in value)


def plainly(self: list[Any]) -> list[Any]:
    """A list without such elements: a guard says how many there are. Raises NotRecorded where only the run tells."""
    return [element for part in self for element in (_steps_of(part) if type(part) is Rows else (part,))]


def settled(value: Any) -> Any:
    """A value as Python is given it: lists hold their elements, questions are answered, what has no value is None.
    Raises NotRecorded.
    """
    if type(value) is Asked:
        return bool(value)
    if value is UNSET:
        return None
    if has_rows(value):
        value[:] = plainly(value)
    before = parts_of(value) or ()
    after = [settled(part) for part in before]
    if all(a is b for a, b in zip(before, after, strict=True)):
        return value
    if isinstance(value, list):
        value[:] = after
    elif isinstance(value, dict):
        value.update(zip(value, after, strict=True))
    else:
        return remade(value, after)
    return value


def _steps_of(rows: Rows) -> list[Any]:
    if not isinstance(rows.steps, (int, SymInt)):
        raise NotRecorded(
            "how many elements a list has is only known when the program runs; stack them to one tensor"
        )
    return [element for at in range(int(rows.steps)) for element in rows.step(at)]


# ---- operators on lists that have such elements
def length(self: list[Any]) -> Any:
    """How many elements there are."""
    total: Any = sum(type(part) is not Rows for part in self)
    for count in (part.count for part in self if type(part) is Rows):
        is_known = type(total) is not RunTime and type(count) is not RunTime
        total = total + count if is_known else NUMBERS.arithmetic("add", total, count)
    return total


def stacked(self: list[Any]) -> Tensor:
    """All elements as one tensor, along a new first dim."""
    pieces: list[Tensor] = []
    run: list[Any] = []
    for part in (*self, None):
        if part is not None and type(part) is not Rows:
            run.append(part)
            continue
        if run:
            pieces.append(aten.stack(tuple([number_tensor(v) if kind_of(v) else v for v in run]), 0))
            run = []
        if part is not None:
            pieces.append(part.stacked())
    return pieces[0] if len(pieces) == 1 else aten.cat(tuple(pieces), 0)


def element(self: list[Any], index: Any) -> Any:
    """An element: one that surely stands there, or one of all."""
    if type(index) is int:
        leading = next(at for at, part in enumerate(self) if type(part) is Rows)
        trailing = next(at for at, part in enumerate(reversed(self)) if type(part) is Rows)
        if 0 <= index < leading or -trailing <= index < 0:
            return self[index]
        if index < 0:
            rows, back = self[-1 - trailing], -index - trailing - 1
            return rows.step(-1 - back // len(rows.elements))[-1 - back % len(rows.elements)]
        rows, on = self[leading], index - leading
        return rows.step(on // len(rows.elements))[on % len(rows.elements)]
    (rows, *rest) = self
    if not rest and type(rows) is Rows and len(rows.elements) == 1:
        return rows.step(index)[0]
    return one_of(self, index)


def one_of(self: list[Any], index: Any) -> Any:
    """The element at a place that is only known when the program runs."""
    kinds = {kind_of(v) for part in self for v in (part.elements if type(part) is Rows else (part,))}
    if len(kinds) != 1:
        raise NotRecorded("an element of a list is read at a place that is only known when the program runs")
    (kind,) = kinds
    if kind is None and not all(isinstance(v, (OperatorMethods, Rows)) for v in self):
        raise NotRecorded("an element of a list is read at a place that is only known when the program runs")
    selected = aten.select_at(stacked(self), 0, number_tensor(index))
    return selected if kind is None else RunTime(selected, kind)


def put_at(self: list[Any], index: Any, value: Any, choose: Callable[[Tensor, Any, Any], Any] | None = None) -> None:
    """Put an element at a place that is only known when the program runs. choose: one of two values by a truth value.
    Raises NotRecorded.
    """
    size = len(self)
    place = number_tensor(index)
    place = aten.checked_index(aten.where(place < 0, place + size, place), size)
    self[:] = [(choose or _if_there)(aten.eq(place, at), value, old) for at, old in enumerate(self)]


def _if_there(is_there: Tensor, value: Any, old: Any) -> Any:
    kind = kind_of(value)
    if kind is None and isinstance(value, Tensor) and isinstance(old, Tensor):
        if same_type(value, old):
            return aten.where(is_there, value, old)
    elif kind is kind_of(old) and kind is not None:
        return RunTime(aten.where(is_there, number_tensor(value), number_tensor(old)), kind)
    raise NotRecorded("an element of a list is written at a place that is only known when the program runs")


def turned(self: list[Any]) -> list[Any]:
    """The elements in reversed order."""
    return [
        Rows(part.elements[::-1], [aten.flip(p, (0,)) for p in _turned_parts(part)], part.steps)
        if type(part) is Rows else part for part in reversed(self)
    ]


def _turned_parts(rows: Rows) -> list[Tensor]:
    grouped, parts = [], iter(rows.parts)
    for one in rows.elements:
        grouped.append([next(parts) for _ in leaves(one)])
    return [part for parts_of_one in reversed(grouped) for part in parts_of_one]


def _joined(self: list[Any], dim: int) -> Tensor:
    pieces = []
    for part in self:
        if type(part) is not Rows:
            pieces.append(part)
            continue
        whole = part.stacked()
        at = dim % (whole.ndim - 1)
        pieces.append(aten.flatten(aten.movedim(whole, 0, at), at, at + 1))
    return aten.cat(tuple(pieces), dim)  # type: ignore[no-any-return]


def _reverse(self: list[Any]) -> None:
    self[:] = turned(self)


ON_ROWS: dict[Any, Any] = {
    OPS["prim::len"]: length,
    OPS["prim::getitem"]: element,
    OPS["prim::reversed"]: turned,
    OPS["prim::reverse"]: _reverse,
    OPS["aten::stack"]: lambda self, dim=0: aten.movedim(stacked(self), 0, dim),
    OPS["aten::cat"]: lambda self, dim=0: _joined(self, dim),
}
"""What operators of programs do with lists that have such elements; all others see the elements themselves."""
