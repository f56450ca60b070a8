"""What one iteration of a loop does, found by comparing three of them: its calls, and where each operand comes from."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.autograd.node import OpNode
from weft.autograd.saved import default_hooks
from weft.ir.builder import memo_key
from weft.layers.results import class_of
from weft.ops.op import Op
from weft.ops.overrides import plain_kinds
from weft.ops.rules import Pointwise
from weft.passes.fold.plan import takes_doubles
from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats.pending import PendingState, PendingStorage
from weft.record.repeats.written import NoIteration, OwnWrite, Target, Written, own_writes, storages_kept, written_in
from weft.record.symbolic import SymbolicPayload
from weft.support.generated import function_factory
from weft.support.locations import Location, located
from weft.tensor.backend import tensors_in
from weft.tensor.capture import in_place
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim, Expr
from weft.types.sym import to_dim
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.record.capture import Capture


class Call(NamedTuple):
    """One call of an operator. out: its result, or a tuple of several; grad: the grad mode; place: where the user's
    code stands, innermost frame first; start: how many nodes there were before; write: what it wrote in place."""

    op: Op
    args: tuple[Any, ...]
    out: Any
    grad: bool
    place: tuple[Any, ...]
    start: int
    write: Target | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal where calls repeat."""
        return self.op, self.grad, self.place, self.write is None

    @property
    def outs(self) -> tuple[Any, ...]:
        """Its results."""
        return self.out if type(self.out) is tuple else (self.out,)


class Same(NamedTuple):
    """A result of the same iteration, by its number."""

    result: int


class Before(NamedTuple):
    """A result of an earlier iteration: the one before, or the one before that."""

    result: int
    ago: int


class Fixed(NamedTuple):
    """The same object in every iteration, and no result of them."""

    value: Any


class Literal(NamedTuple):
    """An equal value in every iteration."""

    value: Any


class Counted(NamedTuple):
    """An integer that changes by the same step with each iteration. It may begin with a size."""

    begin: Dim
    step: int

    def at(self, iteration: Any) -> Any:
        """What it is in an iteration."""
        return self.begin + to_dim(iteration) * self.step

    def is_at(self, value: Any, iteration: int) -> bool:
        """Whether a value is what it is in an iteration, whatever the sizes are."""
        return type(value) in (int, Expr) and value == self.at(iteration)


class Row(NamedTuple):
    """Where a call reads along one dim of a tensor: at a place that changes by the same step with each iteration."""

    place: Counted
    dim: int


class Lifted(NamedTuple):
    """A lifted number that is the same value of the graph in every iteration."""

    value: Any


class Numbers:
    """A number of Python's in the place of a tensor, another one in each iteration. values: those so far."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    @property
    def is_lifted(self) -> bool:
        """Whether they are lifted numbers, or sizes."""
        return type(self.values[0]) in (SymFloat, Expr)

    def at(self, iteration: int) -> Any:
        """What it is in an iteration."""
        return self.values[iteration]


class Several(NamedTuple):
    """A tuple of operands."""

    parts: tuple[Any, ...]


class PlannedCall(NamedTuple):
    """A call of an iteration. row: where it reads its first operand, if that is a row by the iteration's number;
    results: the numbers of its results; outs: what they were in the latest iteration; is_tuple: whether it gives a
    tuple of them; mark: the user's instruction that it comes from; grad: its grad mode; write: what it writes."""

    op: Op
    operands: tuple[Any, ...]
    row: Row | None
    results: range
    outs: tuple[Tensor, ...]
    is_tuple: bool
    mark: tuple[Any, ...]
    grad: bool
    write: Written | OwnWrite | None

    @property
    def where(self) -> Location | None:
        """The user's line."""
        return located(self.mark or None)


EXACT = 2**53  # the largest integers of which float64 has every one
LAG = 2  # how many iterations back a result may come from: what three iterations show


class Iteration:
    """The calls of an iteration. Their results are numbered in the order of the calls.

    carried: the results of earlier iterations that an iteration begins with, each with what the first one had in its
    place. grad: the grad mode of the loop. outs, histories: by result, what it was in the latest iteration, and whether
    that wants a gradient. nodes: where the nodes of the recorded iterations stand in the graph. writes: the memory that
    it writes, by the id of the storage; aliases: results that are views of such memory; kept: those that are
    kept for the backward.
    """

    def __init__(self, capture: Capture, calls: Sequence[Call], period: int) -> None:
        """calls: of several iterations. Raises NoIteration."""
        self.grad = next((call.grad for call in calls if call.grad), calls[0].grad)
        self.capture, self.period, self.recorded = capture, period, len(calls) // period
        self.place = calls[0].place
        self.iterations = [calls[i : i + period] for i in range(0, len(calls), period)]
        nodes = capture.recorder.builder.nodes
        self.nodes = range(calls[0].start, len(nodes))
        self.own_writes = own_writes(capture, self.iterations)
        self.writes = written_in(capture, self.iterations, self.own_writes)
        self.aliases: set[int] = set()
        for call in calls:
            self._check(call)
        kept = {id(storage) for call in calls for storage in storages_kept(call)}
        self.each_outs = [tuple([out for call in each for out in call.outs]) for each in self.iterations]
        self.outs = self.each_outs[-1]
        self.kept = {i for i, out in enumerate(self.each_outs[0]) if id(out._storage) in kept}
        self.histories = [out.requires_grad for out in self.outs]
        self.results = [_numbers_of(outs) for outs in self.each_outs]
        self.carried: dict[Before, Tensor] = {}
        self._count = 0  # of results of the calls so far
        self.calls = [self._planned(i) for i in range(period)]
        if any(begin._data.type is not self._type_of(self.outs[o.result]) for o, begin in self.carried.items()):
            raise NoIteration("a value changes its type")
        if any(begin.requires_grad and not self.histories[o.result] for o, begin in self.carried.items()):
            raise NoIteration("the first iteration alone begins with what has a history")
        self._refuse_common_begins()

    def _type_of(self, out: Tensor) -> TensorType:
        written = self.writes.get(id(out._storage))
        return out._data.type if written is None else written.type

    def may_be_taken_back(self) -> bool:
        """Whether the results of the recorded iterations are still no more than what the calls gave: behind the loop
        they may have been given hooks."""
        try:
            for each in self.iterations:
                for call in each:
                    self._check(call)
        except NoIteration:
            return False
        return True

    def _refuse_common_begins(self) -> None:
        """Raises NoIteration where the first iteration reads one tensor in two places of which later ones read
        different ones: its gradients would be added up in another order. (A later iteration is the first one, then.)
        """
        begins = [begin for begin in self.carried.values() if begin.requires_grad]
        fixed = {id(o.value) for call in self.calls for o in sources_of(call.operands) if type(o) is Fixed}
        if len(set(map(id, begins))) < len(begins) or any(id(begin) in fixed for begin in begins):
            raise NoIteration("the first iteration reads one tensor where others read several")

    def _check(self, call: Call) -> None:
        """Raises NoIteration for a call that a block cannot make again, and for a result that is more than what the
        call gave."""
        op = call.op
        if op.unbacked_from is not None or op.enter is not None or op.view_if_captured or not call.outs:
            raise NoIteration
        for out in call.outs:
            if type(out) is not Tensor or type(out._data) is not SymbolicPayload:
                raise NoIteration
            history = out._autograd
            if history is not None and id(out._storage) in self.writes:
                if history.hooks or history.retains_grad:
                    raise NoIteration
            elif history is not None and (
                history.hooks or history.retains_grad or not isinstance(history.node, OpNode)
                or history.node.hook_tables is not None
            ):
                raise NoIteration

    def _planned(self, number: int) -> PlannedCall:
        first, *others = [each[number] for each in self.iterations]
        latest = others[-1]
        if any(call.op is not first.op or len(call.args) != len(first.args) for call in others):
            raise NoIteration
        kinds = {
            (type(call.out), *((id(out._data.type), out.requires_grad) for out in call.outs))
            for call in (first, *others)
        }
        write = self._write(latest)
        if len(kinds) != 1 or (write is None and any(out is value for out in latest.outs for value in latest.args)):
            raise NoIteration
        for value in tensors_in(latest.args) if self.writes else ():
            self._check_memory(value)
        columns = [[each[number].args[i] for each in self.iterations] for i in range(len(first.args))]
        numbers = {i: Numbers(columns[i]) for i in first.op.tensor_positions if self._are_numbers(first, columns[i])}
        operands = tuple([numbers.get(i) or self._operand(column) for i, column in enumerate(columns)])
        counts = [o for o in operands if type(o) is Counted]
        row = self._row(number, operands, counts[0]) if counts else None
        results = range(self._count, self._count + len(latest.outs))
        if write is None:
            self.aliases.update(results if id(latest.outs[0]._storage) in self.writes else ())
        elif type(write) is Written and write.row is not None and type(operands[1]) is not Same:
            raise NoIteration("writes a row that is no result of the iteration")
        if row is None and any(each.row in results for each in self.writes.values()):
            raise NoIteration("writes a part that is no row of its own")
        self._count = results.stop
        return PlannedCall(
            latest.op, operands, row, results, latest.outs, type(latest.out) is tuple, latest.place[:2],
            latest.grad, write,
        )

    def _write(self, call: Call) -> Written | OwnWrite | None:
        """What the next call writes."""
        if call.write is None:
            return None
        return self.own_writes.get(self._count) or self.writes[id(call.write.base._storage)]

    def _check_memory(self, value: Tensor) -> None:
        """Raises NoIteration where the next call may not read a tensor, since iterations write what it shows: of rows
        that are written only what has been written there; of a whole the tensor itself, and views of what it is then.
        """
        written = self.writes.get(id(value._storage))
        if written is None:
            return
        numbers = [n for n in self.results[-1].get(id(value), ()) if n < self._count]
        if written.row is None:
            since = [n for n in written.numbers if n < self._count and (not numbers or n > numbers[-1])]
            is_there = value is written.base or (bool(numbers) and not since)
        elif value is written.base:
            is_there = self._count == written.row
        else:
            is_there = written.row in numbers and self._count >= written.numbers[0]
        if not is_there:
            raise NoIteration("reads what is written")

    def _are_numbers(self, call: Call, values: Sequence[Any]) -> bool:
        """Whether an operand is another number in each iteration, for which a 0-dim tensor of float64 may stand."""
        op, kind = call.op, type(values[0])
        if kind is SymFloat and self.capture.repeats.is_over_size and _are_live(values):
            is_same = len({v.value for v in values}) == 1
        elif kind in (int, float) or (kind is Expr and self.capture.repeats.is_over_size):
            is_same = len(set(map(memo_key, values))) == 1
        else:
            return False
        if is_same or not isinstance(op.type, Pointwise) or op.scalar is None:
            return False
        if any(type(v) is not kind or (kind is int and abs(v) > EXACT) for v in values):
            return False
        operands = [self.capture.tensors.payload_of(v).type for v in call.args if isinstance(v, Tensor)]
        return len(call.outs) == 1 and takes_doubles(call.out._data.type, operands)

    def _operand(self, values: Sequence[Any]) -> Any:
        first, *others = values
        if all([type(v) is tuple and len(v) == len(first) for v in values]) and any(
            isinstance(part, Tensor) for part in first
        ):
            return Several(tuple([self._operand(parts) for parts in zip(*values, strict=True)]))
        if isinstance(first, Tensor):
            return self._tensor(values)
        if any(type(v) is not type(first) for v in others):
            raise NoIteration
        if type(first) is SymFloat and _are_live(values) and len({v.value for v in values}) == 1:
            return Lifted(first)
        if type(first) is Expr and type(step := others[0] - first) is int and step:
            counted = Counted(first, step)
            if all(counted.is_at(v, i) for i, v in enumerate(values)):
                return counted
        keys = [memo_key(v) for v in values]
        if all(key == keys[0] for key in keys):
            return Literal(first)
        if type(first) is int:
            counted = Counted(first, others[0] - first)
            if all(v == counted.at(i) for i, v in enumerate(values)):
                return counted
        if all(v is first for v in others):
            return Fixed(first)
        raise NoIteration

    def _tensor(self, values: Sequence[Any]) -> Any:
        latest = self._source(len(values) - 1, values[-1])
        if type(latest) is Fixed:
            if any(v is not values[0] for v in values) or type(values[0]) not in plain_kinds:
                raise NoIteration("another tensor in each iteration")
            return latest
        lag = latest.ago if type(latest) is Before else 0
        for i in range(lag, len(values)):
            source = self._source(i, values[i])
            if type(source) is not type(latest) or source != latest:
                raise NoIteration("a result of changing places")
        for i, begin in enumerate(values[:lag]):
            before = Before(latest.result, lag - i)
            if type(self._source(i, begin)) is not Fixed or type(begin) is not Tensor:
                raise NoIteration("the first iteration begins with another result")
            written = self.writes.get(id(begin._storage))
            begin = begin if written is None else written.begin.before
            if type(begin._data) is not SymbolicPayload or self.carried.setdefault(before, begin) is not begin:
                raise NoIteration("the first iterations begin with different values")
        return latest

    def _source(self, iteration: int, value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise NoIteration("a tensor, or none")
        for ago in range(min(LAG, iteration) + 1):
            numbers = self.results[iteration - ago].get(id(value), ())
            number = next((n for n in reversed(numbers) if ago or n < self._count), None)
            if number is not None:
                return Before(number, ago) if ago else Same(number)
        return Fixed(value)

    def _row(self, number: int, operands: tuple[Any, ...], counted: Counted) -> Row:
        """Which row of its first operand a call reads in the first iteration. Raises NoIteration where it reads
        something else."""
        base = operands[0]
        begin = self.capture.env.hint(counted.begin)
        if type(base) is not Fixed or self.iterations[0][number].op.view is None or begin < 0:
            raise NoIteration
        whole = self.capture.tensors.payload_of(base.value).geometry()
        shown = [each[number].out._data.geometry() for each in self.iterations]
        for dim in range(len(whole.dims)):
            dims, strides = ((*all_[:dim], *all_[dim + 1 :]) for all_ in (whole.dims, whole.strides))
            if all([
                row.dims == dims and row.strides == strides
                and row.offset - whole.offset == counted.at(i) * whole.strides[dim]
                for i, row in enumerate(shown)
            ]):
                return Row(counted, dim)
        raise NoIteration

    # ---- the code that compares calls with it
    def comparing(self, loop: Any, classes: Sequence[type[PendingStorage]], install: Any) -> Iterator[Any]:
        """The results of one call after the other (`RepeatedCalls.call`), up to one that is not as planned. `loop` is
        told how far it came. install: puts the capture's profile function on, which is taken off meanwhile; or None.

        An iterator, since a step of it is not seen by a profile function as a call is: that is most of what a call
        costs."""
        names: dict[str, Any] = {
            "install": install, "take_off": sys.setprofile,
            "loop": loop, "repeats": self.capture.repeats, "modes": modes, "hooks": default_hooks,
            "new": object.__new__, "Tensor": Tensor, "Payload": SymbolicPayload, "State": PendingState,
            "key": memo_key,
        }

        def name(value: Any) -> str:
            text = f"c{len(names)}"
            names[text] = value
            return text

        before = sorted(self.carried, key=lambda o: -o.ago)
        lines = [f"p{o.result}_{o.ago} = {name(self.each_outs[-o.ago][o.result])}" for o in before]
        lines += [f"n = loop.iterations = {self.recorded}", "out = None", "while True:", "    loop.calls = 0"]
        for i, call in enumerate(self.calls):
            op = call.op if call.write is None else in_place(call.op)
            tests = [f"op is {name(op)}", f"len(a) == {len(call.operands)}"]
            tests += [test for at, o in enumerate(call.operands) for test in _tests(o, f"a[{at}]", name)]
            # (the default dtype stays: a function that sets it is no program)
            tests += [f"modes.grad is {call.grad}", "modes.special is None", "not hooks.stack"]
            body = ["op, a = repeats.call", f"if not ({' and '.join(tests)}): return"]
            numbers = [(at, o.values) for at, o in enumerate(call.operands) if type(o) is Numbers]
            body += [f"{name(values)}.append(a[{at}])" for at, values in numbers]
            for number, out in zip(call.results, call.outs, strict=True) if type(call.write) is not Written else ():
                own = f"s{call.write.of}" if type(call.write) is OwnWrite else "new(Tensor)"
                body += _pending(number, out, self.histories[number], classes[number], name, own)
            if type(call.write) is Written:
                row, number = call.write.row, call.results[0]
                body.append(f"s{number} = {name(call.write.base) if row is None else f's{row}'}")
                body.append(f"{name(call.write.storage)}.version += 1")
            result = f"s{call.results[0]}"
            if call.is_tuple:
                result = f"({', '.join(f's{number}' for number in call.results)},)"
                named = class_of(call.op, len(call.results))
                if named is not None:
                    result = f"{name(named)}{result}"
            body.append(f"out, loop.calls = {result}, {i + 1}")
            lines += ["    yield out", *[f"    {line}" for line in (body if install is None else _unwatched(body))]]
        lines += ["    n = loop.iterations = n + 1", *[f"    {line}" for line in map(_handed_on, before)]]
        results = function_factory("loop", tuple(names), "calls()", lines)(*names.values())()
        next(results)  # up to where it waits for a call
        return results  # type: ignore[no-any-return]


def argument_of(
    operand: Any, same: Callable[[int], Any], before: Callable[[Before], Any], number: Callable[[Any], Any]
) -> Any:
    """What an operand is in one iteration. same, before: give results of it, and of earlier ones; number: gives a
    number that is another one in each."""
    kind = type(operand)
    if kind is Several:
        return tuple([argument_of(part, same, before, number) for part in operand.parts])
    if kind is Same:
        return same(operand.result)
    if kind is Before:
        return before(operand)
    return number(operand) if kind in (Counted, Numbers) else operand.value


def _numbers_of(outs: Sequence[Tensor]) -> dict[int, list[int]]:
    """By the id of a tensor, as which results it stands among them: of one that is written, several."""
    numbers: dict[int, list[int]] = {}
    for i, out in enumerate(outs):
        numbers.setdefault(id(out), []).append(i)
    return numbers


def _are_live(values: Sequence[Any]) -> bool:
    """Whether they are lifted numbers of a capture that goes on."""
    return all([type(v) is SymFloat and v.is_live for v in values])


def _pending(
    number: int, out: Tensor, has_history: bool, kind: type[PendingStorage], name: Callable[[Any], str], own: str
) -> Iterator[str]:
    """The lines that make a tensor of a result, which is like `out`. own: what gives the tensor."""
    data = out._data
    yield f"s{number}, m, d = {own}, new({name(kind)}), new(Payload)"
    yield "m.iteration = n"
    yield f"d.storage, d.path, d.type, d._geometry = m, (), {name(data.type)}, {name(data.geometry())}"
    yield f"d._memo, d._generation, d.permuted = None, -1, {kind.permuted!r}"
    yield f"s{number}._data, s{number}._storage, s{number}._view = d, m, None"
    if has_history:
        yield "h = new(State)"
        yield "h.storage = m"
        yield f"s{number}._autograd = h"
    else:
        yield f"s{number}._autograd = None"


def _unwatched(lines: Sequence[str]) -> list[str]:
    """Lines that run without the profile function of the capture."""
    return ["take_off(None)", "try:", *[f"    {line}" for line in lines], "finally: install()"]


def _handed_on(before: Before) -> str:
    """The line at the end of an iteration by which the next one has an earlier result."""
    number, ago = before
    return f"p{number}_{ago} = " + (f"p{number}_{ago - 1}" if ago > 1 else f"s{number}")


def sources_of(operands: Sequence[Any]) -> Iterator[Any]:
    """Where operands come from, tuples opened."""
    for o in operands:
        if type(o) is Several:
            yield from sources_of(o.parts)
        else:
            yield o


def _tests(operand: Any, text: str, name: Callable[[Any], str]) -> Iterator[str]:
    kind = type(operand)
    if kind is Same:
        yield f"{text} is s{operand.result}"
    elif kind is Before:
        yield f"{text} is p{operand.result}_{operand.ago}"
    elif kind is Fixed:
        yield f"{text} is {name(operand.value)}"
    elif kind is Lifted:
        yield f"type({text}) is {name(SymFloat)} and {text}.is_live and {text}.value is {name(operand.value.value)}"
    elif kind is Counted:
        if type(operand.begin) is int:
            yield f"type({text}) is int and {text} == {operand.begin} + {operand.step} * n"
        else:  # (the same for every size: nothing is asked)
            yield f"{name(operand.is_at)}({text}, n)"
    elif kind is Numbers:
        yield f"type({text}) is {name(type(operand.values[0]))}"
        if type(operand.values[0]) is SymFloat:
            yield f"{text}.is_live"
        if type(operand.values[0]) is int:
            yield f"-{EXACT} <= {text} <= {EXACT}"
    elif kind is Several:
        yield f"type({text}) is tuple and len({text}) == {len(operand.parts)}"
        for i, part in enumerate(operand.parts):
            yield from _tests(part, f"{text}[{i}]", name)
    else:
        yield _is_equal(operand.value, text, name)


def _is_equal(value: Any, text: str, name: Callable[[Any], str]) -> str:
    """The test that something is an equal literal: of the same type, and 0.0 is not -0.0."""
    kind = type(value)
    if value is None or kind is bool:
        return f"{text} is {value}"
    if kind is int or (kind is float and value and math.isfinite(value)):
        return f"type({text}) is {kind.__name__} and {text} == {value!r}"
    return f"type({text}) is {name(kind)} and key({text}) == {name(memo_key(value))}"
