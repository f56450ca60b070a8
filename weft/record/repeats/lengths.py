"""Loops of Python's over a size: where no iteration differs by its number or by Python's state, the recorded loop runs
as often as the size says, and its program serves other sizes.

What must hold: the body of the `for` statement, and what it calls, changes nothing in Python and uses the index for
rows alone (steady.py), in front of the first predicted iteration and after the last one; between predicted iterations
each local name holds the same object, or what the same call gave just now or equally long ago; the statement ended
since its iterator was exhausted; nothing behind it can tell how many iterations there were: the index is not read, and
lists of results are joined only. So iteration k + 1 does what iteration k did, for every k from the first predicted one
on, and what comes behind sees the same. The recorded iterations are in the program as they were, so every size serves
for which Python ends where it was looked at, or later; lower ones have another program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from weft.guards.rewrite import original
from weft.ir.builder import memo_key
from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats import reasons
from weft.record.repeats.for_statement import (
    ForStatement,
    Unsteady,
    is_held_alone,
    refuse_names_read_after,
    statement_at,
    uses_of_list,
)
from weft.record.repeats.iteration import Numbers
from weft.record.repeats.joins import JOINING
from weft.record.repeats.steady import Steady
from weft.record.repeats.tables import Table, table_of
from weft.record.restart import Restart
from weft.tensor.capture import Index
from weft.types.relation import Relation
from weft.types.sym import SymInt, to_dim

if TYPE_CHECKING:
    from weft.record.capture import Capture
    from weft.record.repeats.python_loop import PythonLoop

_SOON = 12  # iterations by which most loops are predicted
LOOKED_AT = 2  # predicted iterations in front of which the names are looked at
Names = dict[str, Any]
_NUMBERS = (int, float, bool, complex, str)  # that are equal where the same is computed


class LoopOverSize:
    """The iterator of one `for` statement. Its items are those of each number."""

    def __init__(
        self, capture: Capture, size: SymInt, statement: ForStatement, frame: FrameType, item: Any,
        make: Callable[[int], Any],
    ) -> None:
        """item: what its items are to the body (steady.py); make: makes one."""
        self.capture, self.size, self.statement = capture, size, statement
        self.frame: FrameType | None = frame  # as long as it is not decided
        self.count = max(0, capture.env.hint(size.expr))
        self.number = 0
        self._item, self._make = item, make
        parts = (item,) if type(item) is Index else item
        self._index: Index | None = next((part for part in parts if type(part) is Index), None)
        self._is_down = self._index is not None and self._index.step < 0
        self._loop: PythonLoop | None = None
        self._seen: list[tuple[tuple[int, int], Names]] = []  # in front of predicted iterations
        self._least = 0  # how many the loop had at the first of them
        self._first: Steady | None = None  # what the body did then
        self._why = reasons.LEFT_EARLY  # what keeps it from going on for other sizes

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.frame is not None:
            self._look()
            if self._is_down and self._loop is None and self.number == _SOON:
                self._why = reasons.NOT_ALIKE
                self._count()
        if self.number >= self.count:
            self._end()
            raise StopIteration
        self.number += 1
        return self._make(self.number - 1)

    def fix(self) -> None:
        """The program is for so many iterations."""
        if self.frame is not None:
            if self.count >= _SOON:
                self.capture.loops_of_one_length.append(self._note())
            if self._is_down and self.count >= _SOON:
                self._count()
            self.frame = None
            if self.count:
                self.capture.env.equal(to_dim(self.size), self.count)
            else:
                self.capture.env.less(0, to_dim(self.size))

    def _count(self) -> None:
        """Let the loop have the number of iterations of this call, and its index be a number of Python's. Raises
        Restart."""
        self.frame = None
        self.capture.python_state.restart(Restart(counted=True, loops=(self._note(),)))

    def _note(self) -> str:
        return reasons.note(self.statement.code, self.statement.begin, self.count, self._why)

    # ---- while it runs
    def _look(self) -> None:
        """An iteration begins, or the last one has ended."""
        loop = getattr(self.capture.repeats, "loop", None)
        if loop is not self._loop or loop is None:
            self._loop, self._seen = loop, []
            if loop is None:
                return
        if len(self._seen) < LOOKED_AT or self.number >= self.count:
            if not self._seen:
                self._least, self._first = loop.iterations, self._followed()
                if self._is_down and self._first is None:
                    self._count()
            phase = self.number - loop.iterations, loop.calls
            self._seen.append((phase, self._names(loop)))

    def _names(self, loop: PythonLoop) -> Names:
        """What the names that the body binds stand for, and lists: the same object, or a result of so many iterations
        ago."""
        assert self.frame is not None
        stored, lists = self.statement.stored, self.statement.lists
        return {
            name: self._said(loop, value) for name, value in self.frame.f_locals.items()
            if name in stored or (type(value) is list and name not in lists)
        }

    def _said(self, loop: PythonLoop, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value), tuple([self._said(loop, part) for part in value])
        result = loop.result_of(value)
        return value if result is None else _Given(loop.iterations - result[0], result[1])

    # ---- when it has ended
    def _end(self) -> None:
        """All iterations have been. Where others would be the same, the loop is one of as many as the size says."""
        loop, capture = self._loop, self.capture
        if loop is None:
            self._why = reasons.NOT_ALIKE
        # (the program has the names as they were in front of the first iteration that was looked at)
        is_one = False
        if loop is not None and self._is_steady(loop):
            self._why = reasons.NUMBERS
            tables = self._tables(loop)
            if tables is not None:
                self._why = reasons.ROWS
                is_one = loop.serve(self.size - (self.count - loop.iterations), self._least, tables)
        if not is_one:
            self.fix()
        else:
            capture.has_loops_for_sizes = True
            self.frame = None
        self._loop, self._seen = None, []

    def _is_steady(self, loop: PythonLoop) -> bool:
        # (followed at both ends: a branch may be one that was taken up to some iteration, and changed something there)
        seen, frame, first = self._seen, self.frame, self._first
        steady = self._followed() if len(seen) > LOOKED_AT and first is not None else None
        if first is not None and len(seen) <= LOOKED_AT:
            self._why = reasons.NOT_ALIKE
        if frame is None or first is None or steady is None:
            return False
        indices = first.indices | steady.indices
        phases, names = zip(*seen, strict=True)
        looked_at = (self.statement.stored | first.changed | steady.changed) - indices
        kept = [{k: v for k, v in each.items() if k in looked_at} for each in names]
        others = {k for each in kept[1:] for k in kept[0] if not _are_same(kept[0][k], each.get(k))}
        self._why = reasons.why_names(others) if others else reasons.NOT_ALIKE
        if others or any(phase != phases[0] for phase in phases) or any(each.keys() != kept[0].keys() for each in kept):
            return False
        marks = [call.mark for call, _, _ in loop.rows]
        rows = {*first.rows, *steady.rows}
        self._why = reasons.SIZES
        return all((frame.f_code, at) in marks for at in rows) and self._has_only_bounds(loop)

    def _followed(self) -> Steady | None:
        """What the body does with what its names stand for now; None where iterations may differ by it."""
        frame, statement, steady = self.frame, self.statement, Steady(*self._indices())
        assert frame is not None
        why = ""
        try:
            steady.follow(statement, frame, frame.f_locals, self._item)
            why = reasons.why_read(steady.indices)
            refuse_names_read_after(statement, frozenset(steady.indices))
            for name in steady.changed:
                why = reasons.why_list(name)
                if not is_held_alone(frame, name):
                    raise Unsteady
            for name in statement.lists:
                why = reasons.why_list(name)
                self._refuse_other_uses(name, frame)
        except (Unsteady, LookupError, AttributeError, TypeError, ArithmeticError, ValueError):
            self._why = why or (reasons.NOT_ALIKE if steady.at is None else reasons.why_instruction(*steady.at))
            return None
        return steady

    def _indices(self) -> tuple[int | None, SymInt | None]:
        """The smallest index of this iteration and of all behind it, where that is a number; and this iteration's,
        where that is a size that is counted down."""
        if self._index is None:
            return None, None
        if not self._is_down:
            return self._index.begin + self.number, None
        last, now = to_dim(self._index.begin - self.size + 1), self._index.begin - self.number
        return last if type(last) is int else None, now if type(now) is SymInt else None

    def _tables(self, loop: PythonLoop) -> dict[Numbers, Table] | None:
        """What the numbers that iterations have as operands are in them, and in those of other sizes; None where it is
        not known of one which number of the index it is."""
        assert self._first is not None
        uses = {mark: list(each) for mark, each in self._first.numbers.items()}
        tables: dict[Numbers, Table] = {}
        (before, calls), _ = self._seen[0]
        planned = list(enumerate(loop.iteration.calls))
        for i, call in (*planned[calls:], *planned[:calls]):  # in the order of the statement's body
            operands = [o for o in call.operands if type(o) is Numbers]
            if operands:
                mark = original(call.mark[0]), call.mark[1]
                numbers = uses[mark].pop(0) if uses.get(mark) else []
                if self._index is None or len(numbers) != len(operands):
                    return None
                first = self._index.begin + (before - (i < calls)) * self._index.step
                tables.update((o, table_of(n, first, o.values)) for n, o in zip(numbers, operands, strict=True))
        is_known = all(table.length > loop.iterations for table in tables.values())
        return tables if is_known and not any(uses.values()) else None

    def _refuse_other_uses(self, name: str, frame: FrameType) -> None:
        for function, attribute in uses_of_list(self.statement, frame, name):
            value = frame.f_globals[function]
            called = value if attribute is None else getattr(value, attribute)
            packet = getattr(called, "packet", None)
            if packet is None or not all(op in JOINING for op in packet.overloads):
                raise Unsteady

    def _has_only_bounds(self, loop: PythonLoop) -> bool:
        """Whether all that the predicted iterations have asked of sizes is that their rows are there."""
        bounds: set[Relation] = set()
        for call, size, more in loop.rows:
            for i in range(loop.iterations + more):
                row = call.row.place.at(i)  # type: ignore[union-attr]
                bounds.update(Relation("<", d) for d in (size - row - 1, row, size + row) if type(d) is not int)
        asked = list(self.capture.env.guards)[loop.guards :]
        return bounds.issuperset(asked)


class _Given:
    """A result by its number, so many iterations ago."""

    def __init__(self, ago: int, number: int) -> None:
        self.ago, self.number = ago, number


def _are_same(a: Any, b: Any) -> bool:
    if type(a) is _Given and type(b) is _Given:
        return (a.ago, a.number) == (b.ago, b.number)
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(_are_same(a[key], b[key]) for key in a)
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_are_same, a, b))
    if type(a) is SymInt and type(b) is SymInt:
        return to_dim(a) == to_dim(b)
    if type(a) is SymFloat and type(b) is SymFloat:
        return a.is_live and b.is_live and a.value is b.value
    return a is b or (type(a) in _NUMBERS and type(a) is type(b) and memo_key(a) == memo_key(b))


def over(
    capture: Capture, size: Any, frame: FrameType, item: Any, make: Callable[[int], Any]
) -> LoopOverSize | None:
    """What a `for` statement that begins on this frame goes over; None where its iterations may differ, or where it is
    none."""
    statement = statement_at(frame.f_code, frame.f_lasti)
    return None if statement is None else LoopOverSize(capture, size, statement, frame, item, make)
