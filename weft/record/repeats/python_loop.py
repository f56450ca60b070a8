"""A loop of Python's whose next iterations are predicted, and how it is recorded: as a prim::Loop over all of its
iterations, those that were recorded before it was recognised among them; or call by call where they are few."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.node import Edge
from weft.autograd.record import gradient_edge
from weft.guards.watching import quicken
from weft.ir.builder import REPEATABLE, Builder
from weft.ir.graph import Node, Value
from weft.ops.packet import aten
from weft.ops.route import call as run_operator
from weft.record.blocks.loops import Loop, Outcome, repeat
from weft.record.blocks.memory import end_of
from weft.record.numbers.sym_float import Values
from weft.record.repeats.backward import RepeatedBackward, RowsBackward
from weft.record.repeats.for_statement import LATE, is_item_of_loop
from weft.record.repeats.iteration import Before, Counted, Fixed, Iteration, Numbers, PlannedCall, Row, argument_of
from weft.record.repeats.pending import PendingStorage, make_pending, storage_class
from weft.record.repeats.tables import Table
from weft.record.repeats.written import Written
from weft.record.restart import Restart
from weft.record.symbolic import SymbolicPayload
from weft.support.knobs import knobs
from weft.tensor.backend import tensors_in
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim, evaluate
from weft.types.sym import IntLike, SymInt, to_dim, wrap
from weft.types.tensor_type import FLOAT

if TYPE_CHECKING:
    from weft.record.capture import Capture

FEWEST = 6  # iterations of a loop
LEAST = 64  # calls that a loop leaves out
ALL = 4, 4  # the same where the knob `fold` says all
# code that is profiled is not specialized there; from then on it is, and to take a profile function off costs more
IS_SLOW_UNDER_PROFILE = sys.version_info < (3, 12)


class PythonLoop:
    """iterations, calls: how many whole iterations there were, and how many calls of the next one. place: where its
    first call stands. trip: how many iterations the program has, where that is a size. guards: how many questions of
    sizes had been asked when it began."""

    def __init__(self, capture: Capture, iteration: Iteration) -> None:
        self.capture, self.iteration, self.place = capture, iteration, iteration.place
        self.iterations, self.calls = iteration.recorded, 0
        versions = {i: write.version for i, write in iteration.own_writes.items()}
        self._classes = [storage_class(self, i, out._data, versions.get(i, 0)) for i, out in enumerate(iteration.outs)]
        # (kept: while it is taken off nothing else refers to it. No longer than that: it knows what was read)
        hook = quicken(_profile_filter)
        self._hook = hook if IS_SLOW_UNDER_PROFILE else None
        self.predicted: Iterable[Any] = iteration.comparing(self, self._classes, getattr(self._hook, "install", None))
        self.trip: SymInt | None = None
        self._tables: dict[Any, Table] = {}
        self.guards = len(capture.env.guards)
        self._single: dict[tuple[int, int], Tensor] = {}  # results by iteration and number, that have a tensor
        self._rows: dict[int, Any] = {}  # by result, a tensor for each iteration
        self._heads: dict[int, int] = {}  # by result, how many of the first iterations have a tensor of their own
        self._last: dict[tuple[int, int], Tensor] = {}  # what the loop carries to its end, by iteration and number
        self._aliases: dict[tuple[int, int], Tensor] = {}  # views of what is written, as they are behind the loop
        self._body: list[tuple[Value | None, Edge | None]] = []  # what each result is in the loop's block
        self._history: RepeatedBackward | None = None
        self._is_recorded = False
        self.writes = list(iteration.writes.values())
        for written in self.writes:
            written.await_end(self)

    def abandon(self) -> None:
        """Expect no more calls."""
        self.predicted, self._hook = (), None
        for written in self.writes:
            written.resume()

    def record(self) -> bool:
        """Record what was predicted. False where it is no loop."""
        self.abandon()
        self._is_recorded = True
        with self._as_predicted():
            is_loop = self._is_worthwhile() and self.iteration.may_be_taken_back() and self._take_back()
            if is_loop:
                self._as_loop()
            else:
                self.trip = None
                for n, outs in enumerate(self.iteration.each_outs):
                    self._single.update({(n, i): out for i, out in enumerate(outs)})
                for written in self.writes:  # (what the next iterations begin with: they write the tensor itself)
                    shown = written.shown(self.capture)
                    self._single.update({(self.iteration.recorded - 1, i): shown for i in written.numbers})
                for n in range(self.iteration.recorded, self.iterations):
                    self._calls_of(n, self.iteration.period)
            self._calls_of(self.iterations, self.calls)
        return is_loop

    def _is_worthwhile(self) -> bool:
        """Whether a loop is better than its iterations one by one: few calls are soon compiled, and run faster as few
        kernels."""
        fewest, least = ALL if knobs.fold == "all" else (FEWEST, LEAST)
        if self.trip is None and any(o.is_lifted for o in self.numbers):
            return False
        enough = self.trip is not None or (self.iterations - 1) * self.iteration.period >= least
        return self.iterations >= fewest and enough and self._has_rows()

    def _has_rows(self) -> bool:
        """Whether all rows are there (Python counts on from the last one where they are counted down), and the order in
        which gradients of a row are added up is known: where they are read in two directions, of two they need none."""
        is_ordered = all(
            len({row.dim for row in rows}) == 1 and (len(rows) <= 2 or not _both_ways(rows))
            for base, rows in self._reads() if base.requires_grad
        )
        return is_ordered and self._are_there(self.count)

    def _reads(self) -> Iterator[tuple[Tensor, list[Row]]]:
        """The tensors that rows are read of, each with those of an iteration."""
        reads: dict[int, tuple[Tensor, list[Row]]] = {}
        for call in self.iteration.calls:
            if call.row is not None and call.results[0] not in self.iteration.aliases:
                base = call.operands[0].value
                reads.setdefault(id(base), (base, []))[1].append(call.row)
        yield from reads.values()

    def _are_there(self, count: IntLike) -> bool:
        """Whether tensors have the rows that so many iterations read."""
        env = self.capture.env
        for call, size, more in self.rows:
            (first, step), _ = call.row  # type: ignore[misc]
            last = first + (to_dim(count) + (more - 1)) * step
            low, high = (first, last) if step > 0 else (last, first)
            if env.less(low, 0) or env.less(size, high + 1):
                return False
        return True

    # ---- a loop of a size
    @property
    def count(self) -> IntLike:
        """How many iterations the program has."""
        return self.iterations if self.trip is None else self.trip

    @property
    def rows(self) -> list[tuple[PlannedCall, Any, int]]:
        """The calls that read rows: each with how many rows there are, and how many it has read beside those of whole
        iterations."""
        rows = []
        for i, call in enumerate(self.iteration.calls):
            if call.row is not None:
                size = self.capture.tensors.payload_of(call.operands[0].value).geometry().dims[call.row.dim]
                rows.append((call, size, int(i < self.calls)))
        return rows

    def result_of(self, value: Any) -> tuple[int, int] | None:
        """The iteration that gave a tensor, and as which result; None for others."""
        storage = value._storage if isinstance(value, Tensor) else None
        if isinstance(storage, PendingStorage):
            return (storage.iteration, storage.number) if storage.loop is self else None
        if id(storage) in self.iteration.writes:
            return None  # (one tensor, whose value changes)
        results = enumerate(self.iteration.results)
        return next(((n, each[id(value)][-1]) for n, each in results if id(value) in each), None)

    @property
    def numbers(self) -> list[Numbers]:
        """The operands that are another number in each iteration."""
        return [o for call in self.iteration.calls for o in call.operands if type(o) is Numbers]

    def serve(self, trip: SymInt, least: int, tables: dict[Numbers, Table]) -> bool:
        """Record it as a loop of as many iterations as a size says, `least` or more. False where it is no loop. tables:
        by number, what it is in iterations of other sizes too: the program serves as many as there are."""
        env = self.capture.env
        if not all(number in tables for number in self.numbers):
            return False
        if self.iterations < FEWEST or not all(call.row and self._goes_on(call.row.place) for call, _, _ in self.rows):
            return False
        env.take_back(self.guards)
        if env.less(to_dim(trip), max(least, LATE)) or not self._are_there(trip):
            return False
        if any(env.less(table.length, to_dim(trip + 1)) for table in tables.values()):
            return False
        for i, call in enumerate(self.iteration.calls):
            count = to_dim(trip + (i < self.calls))
            own = [tables[o] for o in call.operands if type(o) is Numbers]
            if not all([self._stays_finite(table, count) for table in own if table.is_lifted]):
                return False
        self.trip, self._tables = trip, tables
        self.capture.repeats.end()
        return self.trip is not None

    def _stays_finite(self, table: Table, count: Dim) -> bool:
        """Whether a table of lifted numbers is finite in so many iterations, which calls of the program ask."""
        is_finite = table.is_finite()

        def holds(values: Values) -> bool:
            return is_finite(values, evaluate(count, values))

        state = self.capture.python_state
        return state.example_of(holds) and state.ask_number(holds, "a number that is computed of a loop's index")

    @staticmethod
    def _goes_on(place: Counted) -> bool:
        """Whether it is known where rows are in other sizes: they are counted up, or down from one that is a size."""
        return place.step == 1 or (place.step == -1 and type(place.begin) is not int)

    def _number(self, iteration: int) -> Any:
        """The number of an iteration in the program. Raises Restart for one far from the end of a loop of a size, which
        nobody should be able to ask for."""
        if self.trip is None:
            return iteration
        if self.iterations - iteration > LATE:
            raise Restart(counted=True)
        return self.trip - (self.iterations - iteration)

    def result(self, iteration: int, number: int) -> Tensor:
        """A result of an iteration, as others see it: a view of what is written shows what that is now."""
        if not self._is_recorded:
            self.capture.repeats.end()
        return self._alias(iteration, number) if number in self.iteration.aliases else self._value(iteration, number)

    def _value(self, iteration: int, number: int) -> Tensor:
        """A result of an iteration, as it was when its call gave it."""
        single = self._single.get((iteration, number))
        if single is None:
            single = self._single[iteration, number] = self._row(iteration, number)
        return single

    @contextmanager
    def _as_predicted(self) -> Iterator[None]:
        """Record with the modes under which the calls were made."""
        special, grad = modes.special, modes.grad
        modes.special, modes.grad = None, self.iteration.grad
        try:
            yield
        finally:
            modes.special, modes.grad = special, grad

    # ---- call by call
    def _calls_of(self, iteration: int, count: int) -> None:
        """The first calls of an iteration, as they are."""
        for call in self.iteration.calls[:count]:
            if type(call.write) is Written and call.write.row is not None:
                self._put_row(iteration, call)
            elif not self._is_row_written(call):
                for number, out in zip(call.results, self._run_in(iteration, call), strict=True):
                    self._single[iteration, number] = out
                if type(call.write) is Written:
                    call.write.put(self.capture, self._single[iteration, call.results[0]])

    def _run(self, call: PlannedCall, args: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """The results of a call."""
        with _grad_mode_of(call), self.capture.recorder.at_line(call.where):
            out = call.op.kernel(*args) if call.op.host else run_operator(call.op, args)  # type: ignore[misc]
        return out if call.is_tuple else (out,)

    # ---- as a loop
    def _take_back(self) -> bool:
        """Take the recorded iterations out of the graph: the loop does them too. What they gave is pending."""
        builder, nodes = self.capture.recorder.builder, self.iteration.nodes
        kept = [node for node in builder.nodes[nodes.start :] if _is_of_numbers(node)]
        gone = set(builder.nodes[nodes.start : nodes.stop]).difference(kept)
        if (
            builder is not self.capture.recorder.root or len(builder.nodes) != nodes.start + len(gone) + len(kept)
            or any(value.node in gone for node in kept for value in node.needs())
        ):
            return False
        histories = self.capture.recorder.histories
        taken = builder.take_back(nodes.start)
        for node in kept:  # (Python may still have what they gave)
            taken.remove(node)
            builder.adopt(node)
        for node in taken:
            histories.of.pop(node, None)
        for calls in self.iteration.iterations:
            for tensor in tensors_in([call.args for call in calls]):
                if isinstance(tensor._data, SymbolicPayload):  # a view from before, which they were the first to read
                    tensor._data.forget_read(taken)
        for n, calls in enumerate(self.iteration.iterations):
            for i, out in enumerate(out for call in calls for out in call.outs):
                if id(out._storage) in self.iteration.writes:
                    out._data.forget_read(taken)
                    continue
                if out._autograd is not None and not isinstance(out._storage, PendingStorage):  # (one that is written)
                    histories.given.pop(out._autograd.node, None)
                make_pending(out, self._classes[i](n))
            for call in calls:
                if call.write is not None:
                    histories.given.pop(call.write.node, None)
        for written in self.writes:
            written.take_back(self.capture)
        return True

    def _as_loop(self) -> None:
        capture, iteration = self.capture, self.iteration
        carried = list(iteration.carried)
        rows = [i for i, call in enumerate(iteration.calls) if call.row is not None and not self._is_row_written(call)]
        # (gradients of a row are added in the order of the iterations back: what reads it last first)
        last_first = sorted(rows, key=lambda i: -self._lead(iteration.calls[i]))
        slices = {i: self._slices(iteration.calls[i]) for i in last_first}
        numbers = self.numbers
        xs = [*(slices[i] for i in rows), *map(self._stacked_numbers, numbers)]

        def body(inner: Builder, index: Value, states: list[Tensor], slices: list[Tensor]) -> Outcome:
            before, shown = dict(zip(carried, states, strict=True)), dict(zip(rows, slices, strict=False))
            count = {o: value.detach() for o, value in zip(numbers, slices[len(rows) :], strict=True)}.__getitem__
            results: list[Any] = []

            for i, call in enumerate(iteration.calls):
                if self._is_row_written(call):
                    results.append(None)  # (nobody reads it: what is written there is given by the write)
                elif i in shown:  # (what counts the iterations is the row that a call reads, and nothing else)
                    results.append(shown[i] if call.grad else shown[i].detach())
                else:
                    args = [argument_of(o, results.__getitem__, before.__getitem__, count) for o in call.operands]
                    results += self._run(call, tuple(args)) if args[0] is not None else [self._copied(call, args[1])]
            self._body = [(None, None) if r is None else (capture.tensors.operand(r), end_of(r)) for r in results]
            return True, [results[o.result] if o.ago == 1 else before[Before(o.result, o.ago - 1)] for o in carried], []

        def history(capture: Capture, loop: Loop, flows: list[bool]) -> RepeatedBackward:
            self._history = RepeatedBackward(capture, loop, flows)
            summed = [not is_item_of_loop(iteration.calls[i].mark) for i in rows]
            self._history.is_summed = [*summed, *[False] * len(numbers)]
            bases = [end_of(base) for base, rows in self._reads() if _both_ways(rows)]
            self._history.both_ways = [edge for edge in bases if edge is not None]
            self._history.read_last = [self._read_last(o) for o in carried]
            # (a value that is seen without its history, too, has one)
            others = {*loop.body.block.params, *(value for value, end in self._body if end is not None)}
            self._history.without = frozenset([v for v, _ in self._body if v is not None and v not in others])
            return self._history

        outputs = repeat(
            capture, self.count, True, list(iteration.carried.values()), xs, False, body,
            where=iteration.calls[0].where, history=history,
        )
        self._last = {(self.iterations - o.ago, o.result): out for o, out in zip(carried, outputs, strict=True)}
        self._single.update({(n, i): self._noted(i, out) for (n, i), out in self._last.items() if not self._is_view(i)})
        for call in iteration.calls:
            if type(call.write) is Written and call.write.row is not None:
                self._put_rows(call)
        for written in self.writes:
            if written.row is None:
                last = self._last[self.iterations - 1, written.numbers[-1]]
                written.put(capture, last, self.iterations * len(written.numbers))

    # ---- rows that iterations write
    def _is_row_written(self, call: PlannedCall) -> bool:
        """Whether a call shows a row that is written, and nothing else."""
        return any(written.row == call.results[0] for written in self.writes if written.row is not None)

    def _copied(self, call: PlannedCall, value: Tensor) -> Tensor:
        """What a call writes into a row. Its gradient arrives when the write's would."""
        with _grad_mode_of(call):
            return aten.clone(value)  # type: ignore[no-any-return]

    def _put_row(self, iteration: int, call: PlannedCall) -> None:
        """The write of one iteration."""
        assert type(call.write) is Written and call.write.row is not None
        with _grad_mode_of(call):
            row = self._run_in(iteration, self._call_of(call.write.row))[0]
            row.copy_(self._value(iteration, call.operands[1].result))

    def _put_rows(self, call: PlannedCall) -> None:
        """The writes of all iterations, as one."""
        written = call.write
        assert type(written) is Written and written.row is not None and self._history is not None
        number, shown = call.results[0], self._call_of(written.row)
        assert shown.row is not None
        value, end = self._body[number]
        assert value is not None
        with _grad_mode_of(call):
            written.raise_version(self.capture, self.iterations - 1)
            values = self._history.rows(value, end, None)
            backwards = shown.row.place.step < 0
            self._view_of_rows(written.base, shown.row).copy_(aten.flip(values, (0,)) if backwards else values)

    def _alias(self, iteration: int, number: int) -> Tensor:
        """A view of what is written."""
        alias = self._aliases.get((iteration, number))
        if alias is None:
            call = self._call_of(number)

            def same(result: int) -> Tensor:
                source = next((w.base for w in self.writes if result in w.numbers and w.row is None), None)
                return self.result(iteration, result) if source is None else source

            self.capture.repeats.has_recorded = True
            with self._as_predicted(), self.capture.repeats.resting(), self.capture.recorder.outermost():
                number_at = partial(self._number_at, iteration)
                args = [argument_of(o, same, lambda o: same(o.result), number_at) for o in call.operands]
                outs = self._run(call, tuple(args))
            self._aliases.update(((iteration, i), out) for i, out in zip(call.results, outs, strict=True))
            alias = self._aliases[iteration, number]
        return alias

    def _lead(self, call: PlannedCall) -> int:
        """What is larger where a call reads a row in an earlier iteration than another call does."""
        assert call.row is not None
        place = call.row.place
        return self.capture.env.hint(place.begin) * (1 if place.step > 0 else -1)

    def _slices(self, call: PlannedCall) -> Tensor:
        base = call.operands[0]
        assert call.row is not None and type(base) is Fixed
        slices = self._view_of_rows(base.value if call.grad else base.value.detach(), call.row)
        return aten.flip(slices, (0,)) if call.row.place.step < 0 else slices

    def _view_of_rows(self, base: Tensor, row: Row) -> Tensor:
        """The rows that all iterations read or write, their dim in front, in the order in which they lie."""
        place, dim = row
        first, step = wrap(place.begin, self.capture.env), place.step
        last = first + (self.count - 1) * step
        if step > 0:
            slices = aten.slice(base, dim, first, last + 1, step)
        else:
            slices = aten.slice(base, dim, last, first + 1, -step)
        return aten.movedim(slices, dim, 0) if dim else slices  # type: ignore[no-any-return]

    def _call_of(self, number: int) -> PlannedCall:
        """The call that gives a result."""
        return next(call for call in self.iteration.calls if number in call.results)

    def _stacked_numbers(self, numbers: Numbers) -> Tensor:
        table = self._tables.get(numbers)
        if table is None:
            return self._constant(numbers.values[: self.iterations])
        return aten.slice(table.tensor(self._constant), 0, 0, self.count, 1)  # type: ignore[no-any-return]

    def _constant(self, values: Sequence[float]) -> Tensor:
        return self.capture.tensors.fresh(self.capture.recorder.builder.constant(np.array(values, np.float64)))

    def _is_view(self, number: int) -> bool:
        """Whether a result is a view, or does not lie row-major: outside of the loop its call runs again."""
        op = self._call_of(number).op
        return op.view is not None or op.host or bool(self._classes[number].permuted)

    def _row(self, iteration: int, number: int) -> Tensor:
        """A result that the loop has to stack. A view is made once more, of memory that others may see, and its history
        is that of what the iteration had: what flows into it there is added up with what flows in from here."""
        self.capture.repeats.has_recorded = True
        with self._as_predicted(), self.capture.repeats.resting(), self.capture.recorder.outermost():
            if not self._is_view(number):
                return self._stacked(number, iteration)
            call = self._call_of(number)
            shown = self._run_in(iteration, call)[call.results.index(number)]
            source = self._last.get((iteration, number))
            if source is None:
                source = self._stacked(number, iteration)
            edge = gradient_edge(source) if self.iteration.histories[number] else None
            if edge is not None:
                shown._autograd = AutogradState(False, *edge)
            return shown

    def _stacked(self, number: int, iteration: int) -> Tensor:
        """The row of a result in an iteration, of what it was in all of them: as no view, since the result was none."""
        rows = self._all(number)
        if self.trip is None:
            row: Tensor = rows[iteration]
        else:
            self._number(iteration)  # (the first rows are one tensor)
            row = aten.select(rows[iteration - self.iterations], 0, 0)
        edge = gradient_edge(row)
        row = self.capture.tensors.fresh(self.capture.tensors.operand(row))
        row._autograd = None if edge is None else AutogradState(False, *edge)
        return self._noted(number, row)

    def _noted(self, number: int, out: Tensor) -> Tensor:
        """What others see of a result: where the loop keeps it for its backward, nobody may write it."""
        if number in self.iteration.kept:
            self.capture.repeats.kept.add(out._storage)
        return out

    def has_more_than(self, count: int) -> bool:
        """Whether the program has more iterations, of a loop of a size."""
        return not self.capture.env.less(to_dim(self.count), count + 1)

    def _all(self, number: int, head: int = 0) -> Any:
        """A result: a tensor for each iteration; of a loop of a size one for all but the last iterations, and one for
        each of those. head: for how many of the first ones there is another one, where nobody has asked before."""
        rows = self._rows.get(number)
        if rows is None:
            assert self._history is not None
            value, end = self._body[number]
            assert value is not None
            stacked = self._history.rows(value, end, self._oldest(number))
            heads = [head] if head else []
            rows = self._rows[number] = (
                aten.unbind(stacked, 0) if self.trip is None
                else aten.split_with_sizes(stacked, (*heads, self.trip - LATE - head, *[1] * LATE), 0)
            )
            self._heads[number] = head
            if stacked.requires_grad:
                RowsBackward(stacked, rows, head)
        return rows

    def _oldest(self, number: int) -> tuple[int, int] | None:
        """Where among the carried values a result is for the last time, and how many iterations later; None where it is
        not handed on."""
        places = [(i, o.ago) for i, o in enumerate(self.iteration.carried) if o.result == number]
        return max(places, key=lambda place: place[1], default=None)

    def _read_last(self, begin: Before) -> tuple[int, int]:
        """Where among the carried values what one of them begins with is read for the last time, and in which
        iteration."""
        oldest = self._oldest(begin.result)
        assert oldest is not None
        return oldest[0], oldest[1] - begin.ago

    def joined(self, number: int, first: int, last: Sequence[Tensor]) -> list[Tensor]:
        """A result of a loop of a size, from an iteration on, as pieces with a row for each. last: the tensors that
        stand for it in the last iterations; they may be less than LATE. Raises Restart where it has another first
        piece."""
        self.capture.repeats.has_recorded = True
        with self._as_predicted(), self.capture.repeats.resting(), self.capture.recorder.outermost():
            pieces = list(self._all(number, first))
            if first:
                if self._heads[number] != first:
                    raise Restart(counted=True)
                del pieces[0]
            del pieces[len(pieces) - LATE + len(last) :]
            for i, tensor in enumerate(last, -LATE):
                is_own = self.result_of(tensor) == (self.iterations + i, number)
                single = self._last.get((self.iterations + i, number)) if is_own else tensor
                if single is not None:
                    pieces[i + LATE - len(last)] = aten.unsqueeze(single, 0)
        return pieces

    def _run_in(self, iteration: int, call: PlannedCall) -> tuple[Tensor, ...]:
        """The results of a call of one iteration, outside of the loop."""

        def before(o: Before) -> Tensor:
            if iteration >= o.ago:
                return self._value(iteration - o.ago, o.result)
            return self.iteration.carried[Before(o.result, o.ago - iteration)]

        same, number = partial(self._value, iteration), partial(self._number_at, iteration)
        return self._run(call, tuple([argument_of(o, same, before, number) for o in call.operands]))

    def _number_at(self, iteration: int, o: Any) -> Any:
        """A number that is another one in each iteration."""
        table = self._tables.get(o)
        at = self._number(iteration)
        if table is None:
            return wrap(o.at(at), self.capture.env)
        return aten.select(table.tensor(self._constant), 0, at)


@contextmanager
def _grad_mode_of(call: PlannedCall) -> Iterator[None]:
    """Within the block the grad mode is that of a call."""
    before, modes.grad = modes.grad, call.grad
    try:
        yield
    finally:
        modes.grad = before


def _is_of_numbers(node: Node) -> bool:
    """Whether it computes a number of Python's of others."""
    return node.op.effect in REPEATABLE and not node.blocks and all(v.type is FLOAT for v in node.outputs)


def _both_ways(rows: Sequence[Row]) -> bool:
    """Whether they are not all read in one direction."""
    return len({row.place.step for row in rows}) > 1


def _profile_filter(hook: Any) -> Any:
    from weft.codegen.native import profile_filter  # deferred: brings in llvmlite

    return profile_filter(hook)
