"""Rules that are replayed. What a gradient's formula, or an optimizer's update, does to operands of the same types is
recorded once; from then on it is one entry of the trace, and none of its code runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from weft.functionalizer.memory_format import is_permuted, order_like
from weft.functionalizer.storage import Order
from weft.functionalizer.writes import Path, replay
from weft.lazy.device import LazyDevice
from weft.lazy.payload import CALLS, LazyPayload
from weft.lazy.recorded import Recorded, Structure
from weft.lazy.recording import Args, Operand, Recording, Replay, Rule, Unrecordable
from weft.lazy.values import Deferred
from weft.lazy.views import is_plain
from weft.ops.geometry import Geometry
from weft.ops.overrides import plain_kinds
from weft.support import limits
from weft.support.locations import user_mark
from weft.support.memo import Memo
from weft.tensor.backend import Backend
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

NOT_RECORDED: Any = object()  # the rule is to be run as it is


class Rules:
    """The rules that were recorded for one device. make: what makes a back end for a device."""

    def __init__(self, device: LazyDevice, make: Callable[[LazyDevice], Backend]) -> None:
        self._device, self.make = device, make
        self._known: dict[tuple[Any, ...], Replay | None] = {}
        self.structures: dict[Any, Structure] = {}
        self._kinds: Counter[Any] = Counter()
        self._orders: Memo[Geometry, Order | bool | None] = Memo(limits.ORDERS)
        self._shown: Memo[tuple[TensorType, Path], Recorded] = Memo(limits.PATHS)
        self.latest: Replay | None = None  # what was repeated last

    def forget(self) -> None:
        """Record anew from now on."""
        self._known.clear()
        self.structures.clear()
        self._kinds.clear()
        self._shown.clear()

    def run(self, owner: Any, rule: Rule, args: Args) -> Any:
        """`rule(*args)`, or NOT_RECORDED. owner: what the rule is known by."""
        operands = Operands()
        signs = self.signs(args, operands, None)
        if signs is None:
            return NOT_RECORDED
        key = (owner, signs, dt.get_default())
        replay = self._known.get(key, NOT_RECORDED)
        if replay is NOT_RECORDED:
            replay = self._record(key, rule, args, operands, ())
        if replay is None or not self._device.may_repeat(replay.calls):
            return NOT_RECORDED
        results = self.appended(replay, operands.values, ())
        self.latest = replay
        return replay.results(self._device, operands.tensors, results)

    def update(self, rule: Rule, args: Args) -> list[tuple[Tensor, LazyPayload]] | None:
        """Do `rule(*args)`, which writes into tensors among its arguments and gives nothing: those that were written,
        and what they show. None if it is to be run as it is.
        """
        operands, floats = Operands(), list[float]()
        signs = self.signs(args, operands, floats)
        payloads = operands.payloads
        if signs is None or len({id(p.storage) for p in payloads}) < len(payloads):
            return None
        key = (rule, signs, dt.get_default())
        replay = self._known.get(key, NOT_RECORDED)
        if replay is NOT_RECORDED:
            replay = self._record(key, rule, args, operands, floats)
        if replay is None or not self._device.may_repeat(replay.calls):
            return None
        mark = user_mark(2)
        results = self.appended(replay, operands.values, floats)
        self.latest = replay
        changed = []
        for place, count, number in replay.writes:
            written = payloads[place].storage
            written.write(results[number])
            written.lasts = True  # a parameter, or what is known of it
            storage = operands.tensors[place].storage()
            storage.version += count
            storage.written = (storage.version, mark)
            changed.append((operands.tensors[place], payloads[place]))
        return changed

    def appended(self, replay: Any, values: list[Deferred], floats: Sequence[float]) -> tuple[Deferred, ...]:
        """The results of what was recorded, one entry of the trace; behind them, from the end, the operands."""
        trace, calls = self._device.trace, replay.calls
        self._device.make_room()
        results = trace.replay(calls, tuple([values[i] for i in calls.used]), calls.numbers_with(floats))
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

    # ---- which recording it is
    def signs(self, args: Args, operands: Operands, floats: list[float] | None) -> tuple[Any, ...] | None:
        """What a recording depends on: an entry for each argument; None where there is none for such arguments. floats:
        takes floats that may be others the next time.
        """
        signs: list[Any] = []
        device = self._device
        tensors, payloads, values = operands.tensors, operands.payloads, operands.values
        for a in args:
            kind = type(a)
            if kind in plain_kinds or isinstance(a, LazyPayload):
                data = a._data if kind in plain_kinds else a
                if type(data) is LazyPayload and data.permuted is False and not data.path:  # (mostly; as below)
                    storage = data.storage
                    type_ = storage.type
                    if storage.device is device and not type_.is_symbolic:
                        tensors.append(a)
                        payloads.append(data)
                        values.append(storage.value)
                        signs.append(storage.value.type_)
                        continue
                data = device.shown(a)
                if data is None or data.env is not None:
                    return None
                value = data.read()
                tensors.append(a)
                payloads.append(data)
                values.append(value)
                if data.permuted is False and not data.path and not data.is_apart:
                    signs.append(value.type_)
                    continue
                order = self._order(data)
                if order is False or (floats is not None and (data.path or data.is_apart)):
                    return None
                # (what views look like hangs on the gaps too)
                geometry = data.geometry() if data.path else None
                signs.append((value.type_, order, data.storage.order, geometry, data.is_apart))
            elif a is None or kind is DType or kind is str:
                signs.append(a)
            elif kind is tuple:
                inner = self.signs(a, operands, None)
                if inner is None:
                    return None
                signs.append((tuple, inner))
            elif kind is float:
                if floats is None or a in SPECIAL:
                    signs.append((float, repr(a)))
                else:
                    floats.append(a)
                    signs.append(float)
            elif kind is int or kind is bool:
                signs.append((kind, a))
            else:
                return None
        return tuple(signs)

    def _order(self, data: LazyPayload) -> Order | bool | None:
        """The order in memory of dims: None for row-major, False where elements repeat."""
        if not data.path:
            return data.storage.order
        g = data.geometry()
        order = self._orders.get(g, True)
        if order is True:
            if any([s == 0 and d != 1 for s, d in zip(g.strides, g.dims, strict=True)]):
                order = False
            else:
                shown = Tensor(data)
                order = order_like(shown, None) if is_permuted(shown, None) else None
            self._orders[g] = order
        return order

    def _record(
        self, key: tuple[Any, ...], rule: Rule, args: Args, operands: Operands, floats: Sequence[float]
    ) -> Replay | None:
        if self._kinds[key[0]] >= limits.KINDS_OF_A_RULE:
            return None
        self._kinds[key[0]] += 1
        try:
            replay = self._recorded(rule, args, operands, floats)
        except Exception:  # what is wrong is said where the rule runs as it is
            replay = None
        self._known[key] = replay
        return replay

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
        orders = [self._order(data) for data in operands.payloads]
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


class Operands:
    """The tensors among a rule's arguments, what they show, and the values of that."""

    __slots__ = ("payloads", "tensors", "values")

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.payloads: list[LazyPayload] = []
        self.values: list[Deferred] = []


def _differ_in_given_alone(a: Recorded, b: Recorded) -> bool:
    changing = {place for place, _ in a.given}
    rest = [[repr(n) for i, n in enumerate(r.numbers) if i not in changing] for r in (a, b)]
    return a.structure is b.structure and a.given == b.given and rest[0] == rest[1]


SPECIAL = frozenset((0.0, 1.0))  # numbers that rules ask for
