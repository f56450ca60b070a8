"""Rules that are replayed. What a gradient's formula, or an optimizer's update, does to operands of the same types is
recorded once; from then on it is one entry of the trace, and none of its code runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from weft.functionalizer.writes import Path, replay
from weft.lazy.device import LazyDevice
from weft.lazy.operands import SPECIAL, Operands, order_of
from weft.lazy.payload import CALLS, LazyPayload
from weft.lazy.recorded import Recorded, Structure
from weft.lazy.recording import Args, Operand, Recording, Replay, Rule, Unrecordable
from weft.lazy.values import Deferred
from weft.lazy.views import is_plain
from weft.support import limits
from weft.support.locations import user_mark
from weft.support.memo import Memo
from weft.tensor.backend import Backend
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType

NOT_RECORDED: Any = object()  # the rule is to be run as it is


class Rules:
    """What was recorded for one device, by what was called and what the call looked like. make: what makes a back end
    for a device."""

    def __init__(self, device: LazyDevice, make: Callable[[LazyDevice], Backend]) -> None:
        self._device, self.make = device, make
        self._known: dict[tuple[Any, ...], Any] = {}
        self.structures: dict[Any, Structure] = {}
        self._kinds: Counter[Any] = Counter()
        self._shown: Memo[tuple[TensorType, Path], Recorded] = Memo(limits.PATHS)

    def forget(self) -> None:
        """Record anew from now on."""
        self._known.clear()
        self.structures.clear()
        self._kinds.clear()
        self._shown.clear()

    # ---- what was recorded
    def find(self, what: Any, looks: list[Any]) -> Any:
        """What was recorded for a call that looks so (None if it is to be run as it is); NOT_RECORDED where there was
        none. What came behind the trace's state before is looked at first.
        """
        state = self._device.trace.state
        met = state.met.get(what)
        if met is not None:
            for earlier, recorded in met:
                if earlier == looks:
                    return recorded
        recorded = self._known.get((what, dt.get_default(), *looks), NOT_RECORDED)
        if recorded is not NOT_RECORDED:
            if met is None:
                state.met = {**state.met, what: [(looks, recorded)]}
            elif len(met) < limits.REPLAYS_OF_A_STATE:
                met.append((looks, recorded))
        return recorded

    def keep(self, what: Any, looks: list[Any], recorded: Any) -> None:
        """Have something for calls that look so."""
        if len(self._known) >= limits.LAZY_CALLS:
            self.forget()
        key = (what, dt.get_default(), *looks)
        self._known[key] = recorded

    def is_full(self, what: Any) -> bool:
        """Whether something came with so many kinds of operands that no more are recorded for it. Counts one."""
        self._kinds[what] += 1
        return self._kinds[what] > limits.KINDS_OF_A_RULE

    # ---- repeating it
    def run(self, owner: Any, rule: Rule, args: Args) -> Any:
        """`rule(*args)`, or NOT_RECORDED. owner: what the rule is known by."""
        operands = Operands()
        if not operands.look(self._device, args):
            return NOT_RECORDED
        replay = self._replay(owner, rule, args, operands, ())
        if replay is None:
            return NOT_RECORDED
        return self.results(replay, operands)

    def of_graph(self, key: list[Any], rule: Rule, values: Sequence[Any]) -> tuple[Replay, Operands] | None:
        """`rule(*values)`, the gradients of a graph that looks so, as it was recorded, with its operands. None if it is
        to be run as it is."""
        operands = Operands()
        operands.looks += key
        if not operands.look(self._device, values):
            return None
        replay = self.find(Rules.of_graph, operands.looks)
        if replay is NOT_RECORDED:
            replay = self.record(Rules.of_graph, tuple(key), rule, tuple(values), operands)
        return None if replay is None or not self._device.may_repeat(replay.calls) else (replay, operands)

    def results(self, replay: Replay, operands: Operands) -> Any:
        """What a recorded rule gives for operands."""
        return replay.results(self._device, operands.tensors, self.appended(replay, operands.values, ()))

    def update(self, rule: Rule, args: Args) -> list[tuple[Tensor, LazyPayload]] | None:
        """Do `rule(*args)`, which writes into tensors among its arguments and gives nothing: those that were written,
        and what they show. None if it is to be run as it is.
        """
        operands, floats = Operands(), list[float]()
        if not operands.look(self._device, args, floats):
            return None
        payloads = operands.payloads
        if len({id(p.storage) for p in payloads}) < len(payloads):
            return None
        replay = self._replay(rule, rule, args, operands, floats)
        if replay is None:
            return None
        mark = user_mark(2)
        results = self.appended(replay, operands.values, floats)
        changed = []
        for place, count, number in replay.writes:
            written = payloads[place].storage
            written.write(results[number])
            written.lasts = True  # a parameter, or what is known of it
            tensor = operands.tensors[place]
            # (a storage has a length, for which it is read: no question of truth)
            storage = tensor.storage() if tensor._storage is None else tensor._storage
            storage.version = version = storage.version + count
            storage.written = (version, mark)
            changed.append((tensor, payloads[place]))
        return changed

    def _replay(
        self, owner: Any, rule: Rule, args: Args, operands: Operands, floats: Sequence[float]
    ) -> Replay | None:
        """The rule as it was recorded, now if it was not; None if it is to be run as it is."""
        replay: Replay | None = self.find(owner, operands.looks)
        if replay is NOT_RECORDED:
            replay = self.record(owner, owner, rule, args, operands, floats)
        return replay if replay is not None and self._device.may_repeat(replay.calls) else None

    def record(
        self, what: Any, kind: Any, rule: Rule, args: Args, operands: Operands, floats: Sequence[float] = ()
    ) -> Replay | None:
        """Record a rule. kind: whose kinds of operands are counted."""
        if self.is_full(kind):
            return None
        try:
            replay: Replay | None = self._recorded(rule, args, operands, floats)
        except Exception:  # what is wrong is said where the rule runs as it is
            replay = None
        self.keep(what, operands.looks, replay)
        return replay

    def appended(self, replay: Any, values: list[Deferred], floats: Sequence[float]) -> tuple[Deferred, ...]:
        """The results of what was recorded, one entry of the trace; behind them, from the end, the operands."""
        trace, calls = self._device.trace, replay.calls
        self._device.make_room()
        used = tuple(values) if calls.used == range(len(values)) else tuple([values[i] for i in calls.used])
        results = trace.replay(calls, used, calls.numbers_with(floats))
        return (*results, *reversed(values)) if replay.gives_operands else results

    def show(self, value: Deferred, path: Path) -> Deferred:
        """What the view at the end of a path shows of a value."""
        key = (value.type_, path)
        recorded = self._shown.get(key)
        if recorded is None:
            if not all([is_plain(rest) for _, rest, _ in path]):
                shown: Deferred = replay(CALLS, value, path)
                return shown
            recorded = self._shown[key] = Recording(self._device.name, self.make).path(value, path, self.structures)
        return self._device.trace.replay(recorded, (value,), recorded.numbers)[0] if recorded.results else value

    # ---- recording
    def _recorded(self, rule: Rule, args: Args, operands: Operands, floats: Sequence[float]) -> Replay:
        shown = self.shown(operands)
        first = self._run(rule, args, shown, [g * 1.0 for g in floats])
        if floats:  # numbers that go into calls as they are, and nowhere else
            second = self._run(rule, args, shown, [g * 0.83 + 0.21 for g in floats])
            if not _differ_in_given_alone(first.calls, second.calls):
                raise Unrecordable("it computes with its numbers")
        return first

    def shown(self, operands: Operands) -> list[Operand]:
        """What stands for operands in a recording."""
        orders = [order_of(data) for data in operands.payloads]
        return [(data, o if type(o) is tuple else None) for data, o in zip(operands.payloads, orders, strict=True)]

    def _run(self, rule: Rule, args: Args, shown: Sequence[Operand], floats: Sequence[float]) -> Replay:
        recording = Recording(self._device.name, self.make)
        if floats:
            numbers = iter(floats)
            args = tuple([next(numbers) if type(a) is float and a not in SPECIAL else a for a in args])
        outputs, writes = recording.run(rule, args, shown)
        calls = recording.calls(self.structures, floats)
        return Replay(calls, outputs, tuple(writes), recording.gives_operands)


@lru_cache(maxsize=limits.ROWS_OF_A_RULE)
def repeated(rule: Rule, count: int, width: int) -> Rule:
    """The rule on so many rows, one behind the other, and on what follows the last."""
    if count == 1:
        return rule

    def each(*args: Any) -> None:
        for i in range(0, count * width, width):
            rule(*args[i : i + width], *args[count * width :])

    return each


def _differ_in_given_alone(a: Recorded, b: Recorded) -> bool:
    changing = {place for place, _ in a.given}
    rest = [[repr(n) for i, n in enumerate(r.numbers) if i not in changing] for r in (a, b)]
    return a.structure is b.structure and a.given == b.given and rest[0] == rest[1]

