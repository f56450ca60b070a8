"""What one iteration of a loop does, found by comparing three of them: its calls, and where each operand comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.autograd.node import OpNode
from weft.autograd.saved import default_hooks
from weft.ir.builder import memo_key
from weft.ops.op import Op
from weft.ops.overrides import plain_kinds
from weft.record.repeats.pending import PendingState, PendingStorage
from weft.record.symbolic import SymbolicPayload
from weft.support.generated import function_factory
from weft.support.locations import Location, located
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.dtype import get_default

if TYPE_CHECKING:
    from weft.record.capture import Capture


class Call(NamedTuple):
    """One call of an operator. grad: the grad mode; place: where the user's code stands, innermost frame first; start:
    how many nodes there were before."""

    op: Op
    args: tuple[Any, ...]
    out: Any
    grad: bool
    place: tuple[Any, ...]
    start: int

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal where calls repeat."""
        return self.op, self.grad, self.place


class NoIteration(Exception):
    """The calls do not repeat in a way that a loop can have."""


class Same(NamedTuple):
    """The result of a call of the same iteration."""

    call: int


class Before(NamedTuple):
    """The result of a call of the iteration before."""

    call: int


class Fixed(NamedTuple):
    """The same object in every iteration, and no result of them."""

    value: Any


class Literal(NamedTuple):
    """An equal value in every iteration."""

    value: Any


class Counted(NamedTuple):
    """An integer that changes by the same step with each iteration."""

    begin: int
    step: int

    def at(self, iteration: Any) -> Any:
        """What it is in an iteration."""
        return self.begin + self.step * iteration


class Several(NamedTuple):
    """A tuple of operands."""

    parts: tuple[Any, ...]


class PlannedCall(NamedTuple):
    """A call of an iteration. row: whether it reads the row of its first operand that the iteration's number says;
    out: what it gave in the latest iteration; has_history: whether that wants a gradient; mark: the user's instruction
    that it comes from."""

    op: Op
    operands: tuple[Any, ...]
    row: Counted | None
    out: Tensor
    has_history: bool
    mark: tuple[Any, ...]

    @property
    def where(self) -> Location | None:
        """The user's line."""
        return located(self.mark or None)


class Iteration:
    """The calls of an iteration.

    carried: the calls whose results the next iteration reads, each with what the first iteration read in their place.
    nodes: where the nodes of the recorded iterations stand in the graph.
    """

    def __init__(self, capture: Capture, calls: Sequence[Call], period: int) -> None:
        """calls: of several iterations. Raises NoIteration."""
        self.grad = modes.grad
        self.capture, self.period, self.recorded = capture, period, len(calls) // period
        self.place = calls[0].place
        self.iterations = [calls[i : i + period] for i in range(0, len(calls), period)]
        nodes = capture.recorder.builder.nodes
        self.nodes = range(calls[0].start, len(nodes))
        for call in calls:
            self._check(call)
        self.results = [{id(call.out): i for i, call in enumerate(each)} for each in self.iterations]
        self.carried: dict[int, Tensor] = {}
        self.calls = [self._planned(i) for i in range(period)]
        for number, begin in self.carried.items():
            if begin._data.type is not self.calls[number].out._data.type:
                raise NoIteration

    def _check(self, call: Call) -> None:
        """Raises NoIteration for a call that a block cannot make again, and for a result that is more than what the
        call gave."""
        op, out = call.op, call.out
        if op.unbacked_from is not None or op.host or op.enter is not None or op.view_if_captured:
            raise NoIteration
        if call.grad is not self.grad or type(out) is not Tensor or type(out._data) is not SymbolicPayload:
            raise NoIteration
        history = out._autograd
        if history is not None and (
            history.hooks or history.retains_grad or not isinstance(history.node, OpNode)
            or history.node.hook_tables is not None
        ):
            raise NoIteration

    def _planned(self, number: int) -> PlannedCall:
        first, *others = [each[number] for each in self.iterations]
        latest = others[-1]
        if any(call.op is not first.op or len(call.args) != len(first.args) for call in others):
            raise NoIteration
        types = {id(call.out._data.type) for call in (first, *others)}
        histories = {call.out.requires_grad for call in (first, *others)}
        if len(types) != 1 or len(histories) != 1 or id(latest.out) in map(id, latest.args):
            raise NoIteration
        operands = tuple([
            self._operand([each[number].args[i] for each in self.iterations]) for i in range(len(first.args))
        ])
        counts = [o for o in operands if type(o) is Counted]
        row = self._row(number, operands, counts[0]) if counts else None
        return PlannedCall(latest.op, operands, row, latest.out, histories.pop(), latest.place[:2])

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
                raise NoIteration
            return latest
        for i in range(1 if type(latest) is Before else 0, len(values)):
            source = self._source(i, values[i])
            if type(source) is not type(latest) or source.call != latest.call:
                raise NoIteration
        if type(latest) is Before:
            begin = self.carried.setdefault(latest.call, values[0])
            if begin is not values[0] or type(begin) is not Tensor or type(begin._data) is not SymbolicPayload:
                raise NoIteration
            if type(self._source(0, begin)) is not Fixed:
                raise NoIteration
        return latest

    def _source(self, iteration: int, value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise NoIteration
        number = self.results[iteration].get(id(value))
        if number is not None:
            return Same(number)
        number = self.results[iteration - 1].get(id(value)) if iteration else None
        return Fixed(value) if number is None else Before(number)

    def _row(self, number: int, operands: tuple[Any, ...], counted: Counted) -> Counted:
        """Which row of its first operand a call reads in the first iteration. Raises NoIteration where it reads
        something else."""
        base = operands[0]
        if type(base) is not Fixed or self.iterations[0][number].op.view is None:
            raise NoIteration
        whole = self.capture.tensors.payload_of(base.value).geometry()
        rows = []
        for each in self.iterations:
            shown = each[number].out._data.geometry()
            offset = shown.offset - whole.offset
            if shown.dims != whole.dims[1:] or shown.strides != whole.strides[1:]:
                raise NoIteration
            rows.append(offset)
        if any(offset != counted.at(i) * whole.strides[0] for i, offset in enumerate(rows)) or counted.begin < 0:
            raise NoIteration
        return counted

    # ---- the code that compares calls with it
    def comparing(self, loop: Any, classes: Sequence[type[PendingStorage]]) -> Iterator[Any]:
        """The results of one call after the other (`RepeatedCalls.call`), up to one that is not as planned. `loop` is
        told how far it came.

        An iterator, since a step of it is not seen by a profile function as a call is: that is most of what a call
        costs."""
        names: dict[str, Any] = {
            "loop": loop, "repeats": self.capture.repeats, "modes": modes, "hooks": default_hooks,
            "new": object.__new__, "Tensor": Tensor, "Payload": SymbolicPayload, "State": PendingState,
            "key": memo_key, "grad": self.grad, "default": get_default, "dtype": get_default(),
        }

        def name(value: Any) -> str:
            text = f"c{len(names)}"
            names[text] = value
            return text

        before = {o.call for call in self.calls for o in _sources(call.operands) if type(o) is Before}
        lines = [f"p{i} = {name(self.calls[i].out)}" for i in before]
        lines += [f"n = loop.iterations = {self.recorded}", "out = None", "while True:", "    loop.calls = 0"]
        for i, call in enumerate(self.calls):
            tests = [f"op is {name(call.op)}", f"len(a) == {len(call.operands)}"]
            tests += [test for at, o in enumerate(call.operands) for test in _tests(o, f"a[{at}]", name)]
            tests += ["modes.grad is grad", "modes.special is None", "not hooks.stack", "default() is dtype"]
            kind, data = classes[i], call.out._data
            lines += [
                "    yield out", "    op, a = repeats.call",
                f"    if not ({' and '.join(tests)}): return",
                f"    s{i}, m, d = new(Tensor), new({name(kind)}), new(Payload)",
                "    m.iteration = n",
                f"    d.storage, d.path, d.type, d._geometry = m, (), {name(data.type)}, {name(data.geometry())}",
                f"    d._memo, d._generation, d.permuted = None, -1, {kind.permuted!r}",
                f"    s{i}._data, s{i}._storage, s{i}._view = d, m, None",
            ]
            if call.has_history:
                lines += ["    h = new(State)", "    h.storage = m", f"    s{i}._autograd = h"]
            else:
                lines.append(f"    s{i}._autograd = None")
            lines += [f"    out, loop.calls = s{i}, {i + 1}"]
        lines += ["    n = loop.iterations = n + 1", *[f"    p{i} = s{i}" for i in before]]
        results = function_factory("loop", tuple(names), "calls()", lines)(*names.values())()
        next(results)  # up to where it waits for a call
        return results  # type: ignore[no-any-return]


def argument_of(operand: Any, same: Callable[[int], Any], before: Callable[[int], Any], iteration: Any) -> Any:
    """What an operand is in one iteration, of this number. same, before: what calls of it, and of the one before, have
    given."""
    kind = type(operand)
    if kind is Several:
        return tuple([argument_of(part, same, before, iteration) for part in operand.parts])
    if kind is Same:
        return same(operand.call)
    if kind is Before:
        return before(operand.call)
    return operand.at(iteration) if kind is Counted else operand.value


def _sources(operands: Sequence[Any]) -> Iterator[Any]:
    for o in operands:
        if type(o) is Several:
            yield from _sources(o.parts)
        else:
            yield o


def _tests(operand: Any, text: str, name: Callable[[Any], str]) -> Iterator[str]:
    kind = type(operand)
    if kind is Same:
        yield f"{text} is s{operand.call}"
    elif kind is Before:
        yield f"{text} is p{operand.call}"
    elif kind is Fixed:
        yield f"{text} is {name(operand.value)}"
    elif kind is Counted:
        yield f"type({text}) is int and {text} == {operand.begin} + {operand.step} * n"
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
