"""Rules that are replayed. What a gradient's formula, or an optimizer's update, does to operands of the same types is
recorded once; from then on it is one entry of the trace, and none of its code runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft.functionalizer.memory_format import is_permuted, order_like
from weft.functionalizer.storage import Order
from weft.functionalizer.writes import Path, replay
from weft.lazy.device import LazyDevice
from weft.lazy.payload import CALLS, LazyPayload
from weft.lazy.recorded import Recorded, Structure
from weft.lazy.recording import Args, Recording, Replay, Rule, Unrecordable
from weft.lazy.trace import LONGEST
from weft.lazy.values import Deferred
from weft.lazy.views import is_plain
from weft.ops.geometry import Geometry
from weft.ops.overrides import plain_kinds
from weft.support.locations import user_mark
from weft.tensor.backend import Backend
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

MOST_KINDS = 128  # of operands that one rule is recorded for; a rule with more runs as it is
MOST_ORDERS = MOST_PATHS = 4096
NOT_RECORDED: Any = object()  # the rule is to be run as it is


class Rules:
    """The rules that were recorded for one device. make: what makes a back end for a device."""

    def __init__(self, device: LazyDevice, make: Callable[[LazyDevice], Backend]) -> None:
        self._device, self._make = device, make
        self._known: dict[tuple[Any, ...], Replay | None] = {}
        self._structures: dict[Any, Structure] = {}
        self._kinds: Counter[Any] = Counter()
        self._orders: dict[Geometry, Order | bool | None] = {}
        self._shown: dict[tuple[TensorType, Path], Recorded | None] = {}

    def forget(self) -> None:
        """Record anew from now on."""
        self._known.clear()
        self._structures.clear()
        self._kinds.clear()
        self._shown.clear()

    def run(self, owner: Any, rule: Rule, args: Args) -> Any:
        """`rule(*args)`, or NOT_RECORDED. owner: what the rule is known by."""
        tensors: list[Tensor] = []
        values: list[Deferred] = []
        signs = self._signs(args, tensors, values, None)
        if signs is None:
            return NOT_RECORDED
        key = (owner, signs)
        found = self._known.get(key, NOT_RECORDED)
        if found is NOT_RECORDED:
            found = self._record(key, rule, args, tensors, ())
        if found is None:
            return NOT_RECORDED
        return found.results(self._device, tensors, self._appended(found, values, ()))

    def update(self, rule: Rule, args: Args) -> bool:
        """Whether `rule(*args)` was done, which writes into tensors among its arguments and gives nothing."""
        tensors: list[Tensor] = []
        values: list[Deferred] = []
        given: list[float] = []
        signs = self._signs(args, tensors, values, given)
        if signs is None or len({id(t._data.storage) for t in tensors}) < len(tensors):
            return False
        key = (rule, signs)
        found = self._known.get(key, NOT_RECORDED)
        if found is NOT_RECORDED:
            found = self._record(key, rule, args, tensors, given)
        if found is None:
            return False
        mark = user_mark(2)
        results = self._appended(found, values, given)
        for place, count, turn in found.writes:
            target = tensors[place]
            target._data.storage.write(results[turn])
            target._data.storage.lasts = True  # a parameter, or what is known of it
            storage = target.storage()
            storage.version += count
            storage.written = (storage.version, mark)
        return True

    def _appended(self, found: Replay, values: list[Deferred], given: Sequence[float]) -> tuple[Deferred, ...]:
        trace, calls = self._device.trace, found.calls
        if len(trace.nodes) >= LONGEST:
            self._device.cut(False)
        results = trace.replay(calls, tuple([values[i] for i in calls.used]), calls.numbers_with(given))
        return (*results, *reversed(values)) if found.gives_operands else results

    def show(self, value: Deferred, path: Path) -> Deferred:
        """What the view at the end of a path shows of a value."""
        key = (value.type_, path)
        found = self._shown.get(key)
        if found is None:
            if not all([is_plain(rest) for _, rest, _ in path]):
                shown: Deferred = replay(CALLS, value, path)
                return shown
            if len(self._shown) >= MOST_PATHS:
                self._shown.clear()
            found = self._shown[key] = Recording(self._device.name, self._make).path(value, path, self._structures)
        return self._device.trace.replay(found, (value,), found.numbers)[0] if found.results else value

    # ---- which recording it is
    def _signs(
        self, args: Args, tensors: list[Tensor], values: list[Deferred], given: list[float] | None
    ) -> tuple[Any, ...] | None:
        """What a recording depends on: an entry for each argument; None where there is none for such arguments. given:
        takes floats that may be others the next time.
        """
        device = self._device
        signs: list[Any] = []
        for a in args:
            kind = type(a)
            if kind in plain_kinds:
                data = a._data
                if not isinstance(data, LazyPayload) or data.storage.device is not device:
                    return None
                value = data.read()
                tensors.append(a)
                values.append(value)
                if data.permuted is False and not data.path:
                    signs.append(value.type_)
                    continue
                order = self._order(a, data)
                if order is False or (given is not None and data.path):
                    return None
                # (what views look like hangs on the gaps too)
                signs.append((value.type_, order, data.storage.order, data.geometry() if data.path else None))
            elif a is None or kind is DType or kind is str:
                signs.append(a)
            elif kind is tuple:
                inner = self._signs(a, tensors, values, None)
                if inner is None:
                    return None
                signs.append((tuple, inner))
            elif kind is float:
                if given is None or a in _SPECIAL:
                    signs.append((float, repr(a)))
                else:
                    given.append(a)
                    signs.append(float)
            elif kind is int or kind is bool:
                signs.append((kind, a))
            else:
                return None
        return tuple(signs)

    def _order(self, tensor: Tensor, data: LazyPayload) -> Order | bool | None:
        """The order in memory of a tensor's dims: None for row-major, False where elements repeat."""
        if not data.path:
            return data.storage.order
        g = data.geometry()
        found = self._orders.get(g, True)
        if found is True:
            if len(self._orders) >= MOST_ORDERS:
                self._orders.clear()
            if any([s == 0 and d != 1 for s, d in zip(g.strides, g.dims, strict=True)]):
                found = False
            else:
                found = order_like(tensor, None) if is_permuted(tensor, None) else None
            self._orders[g] = found
        return found

    def _record(
        self, key: tuple[Any, ...], rule: Rule, args: Args, tensors: Sequence[Tensor], given: Sequence[float]
    ) -> Replay | None:
        if self._kinds[key[0]] >= MOST_KINDS:
            return None
        self._kinds[key[0]] += 1
        try:
            found = self._recorded(rule, args, tensors, given)
        except Exception:  # what is wrong is said where the rule runs as it is
            found = None
        self._known[key] = found
        return found

    def _recorded(self, rule: Rule, args: Args, tensors: Sequence[Tensor], given: Sequence[float]) -> Replay:
        orders = [order if type(order) is tuple else None for order in [self._order(t, t._data) for t in tensors]]
        first = self._run(rule, args, orders, [g * 1.0 for g in given])
        if given:  # numbers that go into calls as they are, and nowhere else
            second = self._run(rule, args, orders, [g * 0.83 + 0.21 for g in given])
            if not _differ_in_given_alone(first.calls, second.calls):
                raise Unrecordable("it computes with its numbers")
        return first

    def _run(self, rule: Rule, args: Args, orders: Sequence[Order | None], given: Sequence[float]) -> Replay:
        recording = Recording(self._device.name, self._make)
        numbers = iter(given)
        changed = tuple([next(numbers) if type(a) is float else a for a in args]) if given else args
        outputs, writes = recording.run(rule, changed, orders)
        calls = recording.calls(self._structures, given)
        return Replay(calls, outputs, tuple(writes), recording.gives_operands)


def _differ_in_given_alone(a: Recorded, b: Recorded) -> bool:
    changing = {place for place, _ in a.given}
    rest = [[repr(n) for i, n in enumerate(r.numbers) if i not in changing] for r in (a, b)]
    return a.structure is b.structure and a.given == b.given and rest[0] == rest[1]


_SPECIAL = frozenset((0.0, 1.0))  # numbers that rules ask for
