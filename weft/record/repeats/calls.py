"""The calls of operators that a function makes, in their order, and when they begin to repeat: the same operators, from
the same places in the user's code, at a fixed distance. Whatever is not such a call ends a repetition.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from weft.autograd.anomaly import anomaly
from weft.autograd.saved import default_hooks
from weft.ir.builder import REPEATABLE
from weft.ops.op import Op
from weft.record.repeats.each_call import EachCall, Run
from weft.record.repeats.for_statement import instruction_at
from weft.record.repeats.iteration import Call, Iteration
from weft.record.repeats.joins import is_joined, joined
from weft.record.repeats.lengths import LoopOverSize, over
from weft.record.repeats.pending import take_recorded
from weft.record.repeats.python_loop import PythonLoop
from weft.record.repeats.written import NoIteration, Target, target_of
from weft.record.restart import Restart
from weft.support.locations import is_internal
from weft.tensor.backend import tensors_in
from weft.tensor.modes import modes
from weft.types.sym import SymInt

if TYPE_CHECKING:
    from weft.record.capture import Capture

ITERATIONS = 3  # that are recorded before the next ones are predicted
LONGEST = 2048  # calls of an iteration
KEPT = 4 * LONGEST  # calls
TRIES = 3  # to predict what follows one place: the first iterations of a loop may differ from the others
FRAMES = 8  # of the user's that tell where a call stands


class RepeatedCalls(EachCall):
    """The latest calls of one capture.

    predicted: gives the result of the call that `call` names, where it is the predicted one. follows_sizes: whether
    loops over a size may go on for others.
    """

    def __init__(self, capture: Capture, follows_sizes: bool = True) -> None:
        super().__init__()
        self.capture, self.follows_sizes = capture, follows_sizes
        self.loop: PythonLoop | None = None
        self._calls: list[Call] = []
        self._latest: dict[tuple[Any, ...], int] = {}  # by place, the number of the last call there
        self._period = self._matched = 0
        self._over: list[LoopOverSize] = []
        self._refused: Counter[tuple[Any, ...]] = Counter()  # by place, the predictions that did not last
        self._depth = 0  # of calls within calls

    def run(self, function: Run, op: Op, args: tuple[Any, ...]) -> Any:
        """Run a call of an operator, and note it."""
        if self._depth:
            return function(op, args)
        if self.loop is not None:  # the call was not the predicted one
            self.end()
        if is_joined(op, args):
            with self.resting():
                op, args = joined(op, args)
        return self._run(function, op, args, None, self._may_repeat(op))

    def write(self, function: Run, op: Op, args: tuple[Any, ...]) -> Any:
        """Run an in-place operator, and note it: what was predicted before is recorded before."""
        if not self._depth and self.loop is not None:
            self.end()
        self._depth += 1
        try:
            for tensor in tensors_in(args):
                take_recorded(tensor)
            if args[0]._storage in self.kept:
                raise Restart(unrolled=True)  # (its backward may be an error, which no loop sees)
            target = None if self._depth > 1 or not self._may_repeat(op) else target_of(self.capture, args[0])
        finally:
            self._depth -= 1
        return function(op, args) if self._depth else self._run(function, op, args, target, target is not None)

    def _run(self, function: Run, op: Op, args: tuple[Any, ...], target: Target | None, may_repeat: bool) -> Any:
        start = len(self.capture.recorder.builder.nodes)
        self._depth = 1
        try:
            out = function(op, args)
        except BaseException:
            self._forget()
            raise
        finally:
            self._depth = 0
        if self.has_recorded:  # a result of an earlier loop, which nodes of the call came with
            self.has_recorded = False
            self._forget()
        elif may_repeat:
            written = None if target is None else target.written()
            self._note(Call(op, args, out, modes.grad, _place(4), start, written))
        else:
            self._forget()
        return out

    def over(self, size: Any, frame: FrameType, item: Any, make: Callable[[int], Any]) -> LoopOverSize | None:
        """What a `for` statement goes over (lengths.py)."""
        if self._depth or modes.capture is not self.capture or not self.may_change(size):
            return None
        loop = over(self.capture, size, frame, item, make)
        if loop is not None:
            self._over.append(loop)
        return loop

    @property
    def is_over_size(self) -> bool:
        """Whether a loop is going on that may go on for other sizes."""
        return any(loop.frame is not None for loop in self._over)

    def may_change(self, size: Any) -> bool:
        """Whether calls may bring other values of a size, or of a number."""
        return self.follows_sizes and type(size) is SymInt and size.is_live

    def finish(self) -> None:
        """The function has ended: what is not known to be a loop of a size is one of so many iterations."""
        self.end()
        for loop in self._over:
            loop.fix()
        self._over.clear()

    def abandon(self) -> None:
        """Nothing more is recorded."""
        if self.loop is not None:
            self.loop.abandon()
        self.loop, self.predicted, self.call = None, (), None

    def end(self) -> None:
        """What follows is not a predicted call: the iterations so far are recorded."""
        if not self._depth:
            self._forget()
        loop = self.loop
        if loop is None:
            return
        self.loop, self.predicted, self.call = None, (), None
        self._depth += 1
        try:
            if loop.record():
                self.loops += 1
            else:
                self._refused[loop.place] += 1
        finally:
            self._depth -= 1

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within the block calls are not the function's own, or may not be predicted."""
        self.end()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _forget(self) -> None:
        self._calls.clear()
        self._latest.clear()
        self._period = self._matched = 0

    def _may_repeat(self, op: Op) -> bool:
        return (
            (op.observes or op.effect) in REPEATABLE and modes.special is None
            and not default_hooks.stack and not anomaly.enabled and self.capture.recorder.depth == 0
        )

    def _note(self, call: Call) -> None:
        calls = self._calls
        if len(calls) >= KEPT:
            self._forget()
        number, period = len(calls), self._period
        key = call.key
        if not 0 < period <= number or calls[number - period].key != key:  # (the same place may come twice in it)
            self._period, self._matched = number - self._latest.get(key, number), 0
            period = self._period
        self._latest[key] = number
        calls.append(call)
        self._matched += 1
        more, rest = divmod(self._matched, period) if period else (0, 1)
        if not rest and more >= ITERATIONS - 1 and period <= LONGEST:
            self._predict(calls[-ITERATIONS * period :])

    def _predict(self, calls: list[Call]) -> None:
        if self._refused[calls[0].place] >= TRIES:
            return
        try:
            iteration = Iteration(self.capture, calls, len(calls) // ITERATIONS)
        except NoIteration:
            self._refused[calls[0].place] += 1
            return
        self.loop = PythonLoop(self.capture, iteration)
        self.predicted = self.loop.predicted
        self._forget()


def _place(depth: int) -> tuple[Any, ...]:
    """Where the user's code stands: the instructions of its innermost frames."""
    frame = sys._getframe(depth)
    place: list[Any] = []
    while frame is not None and len(place) < 2 * FRAMES:
        code = frame.f_code
        if not is_internal(code.co_filename):
            place += (code, instruction_at(code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(place)

