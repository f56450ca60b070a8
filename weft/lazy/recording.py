"""Recording a rule: it is run once on tensors without bytes, on a device of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.functionalizer.storage import Order
from weft.functionalizer.views import show
from weft.functionalizer.writes import Path, replay
from weft.lazy.calls import Drawn, decides, needed_for
from weft.lazy.device import LazyDevice
from weft.lazy.payload import CALLS, LazyPayload, LazyStorage
from weft.lazy.recorded import NEXT_NUMBER, OperandOf, Recorded, RecordedCall, ResultOf, Structure
from weft.lazy.states import State
from weft.lazy.trace import Trace
from weft.lazy.values import Array, Cell, Deferred
from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.support.errors import WeftError
from weft.tensor.backend import Backend
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import view_of
from weft.types.tensor_type import TensorType

Rule = Callable[..., Any]
Args = tuple[Any, ...]
Operand = tuple[LazyPayload, Order | None]  # with its order in memory


class Unrecordable(WeftError):
    """A rule does what cannot be repeated blindly: it reads a value, draws, or gives back a view of an operand."""


# ---- where rules are recorded
class _Calls(Trace):
    """A trace that notes what identifies its calls."""

    finds_sizes = False

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.structures: list[Any] = []
        self.counted: list[Op] = []

    def count(self, op: Op) -> None:
        if op.effect not in ("pure", "raises"):
            raise Unrecordable(f"{op.name} has an effect")
        self.counted.append(op)

    def _new_state(self, structure: Any) -> State:
        self.structures.append(structure)
        return super()._new_state(structure)


class _Device(LazyDevice):
    """A device whose tensors have no bytes."""

    trace: _Calls

    def __init__(self, name: str, make: Callable[[LazyDevice], Backend]) -> None:
        super().__init__(name)
        self.trace = _Calls(name)
        self.trace.compute, self.trace.bytes_of = self.compute, self.bytes_of
        self.backend = make(self)

    def bytes_of(self, value: Deferred, what: str) -> Array:
        raise Unrecordable(f"{what} reads a value")

    def compute(self, values: Sequence[Deferred], what: str) -> None:
        raise Unrecordable(f"{what} needs values")

    def cut(self, count: bool = True) -> None:
        raise Unrecordable("too many calls")

    def leave_default_dtype(self) -> None:
        """Nothing waits here: what was recorded is kept for the default dtype that it was recorded under."""


# ---- what a rule gives
class FreshResult:
    """A new tensor around a result: the order of its dims, and the view of it that the tensor is, if it is one."""

    __slots__ = ("geometry", "order", "path", "turn", "type")

    def __init__(self, number: int, payload: LazyPayload) -> None:
        self.turn, self.order, self.path, self.type = number, payload.storage.order, payload.path, payload.type
        self.geometry = payload.geometry() if payload.path else None

    def made(self, device: LazyDevice, values: Sequence[Deferred]) -> Tensor:
        """The tensor."""
        out = device.fresh(values[self.turn], self.order)
        if not self.path:
            return out
        return _seen(device, out, _shown(out._data, self.path, self.type, self.geometry), self.path)


class _Operand:
    """An operand itself."""

    __slots__ = ("turn",)

    def __init__(self, number: int) -> None:
        self.turn = number


class ViewOfOperand:
    """A view of an operand. steps: from there; taken: as they continue its path."""

    __slots__ = ("geometry", "steps", "taken", "turn", "type")

    def __init__(self, number: int, steps: Path, operand: LazyPayload) -> None:
        self.turn, self.steps, depth = number, steps, len(operand.path)
        for op, rest, index in steps:
            shown = show(op, operand, rest).results
            if shown is None or shown[index][0][: len(operand.path)] != operand.path:
                raise Unrecordable("it gives a view of memory that cannot be shown so")
            path, kind, geometry = shown[index]
            operand = LazyPayload(operand.storage, path, kind, geometry)
        self.taken, self.type, self.geometry = operand.path[depth:], operand.type, operand.geometry()

    def made(self, device: LazyDevice, operand: Tensor) -> Tensor:
        """The tensor."""
        data = device.shown(operand)
        assert data is not None
        return _seen(device, operand, _shown(data, data.path + self.taken, self.type, self.geometry), self.steps)


def _shown(data: LazyPayload, path: Path, kind: TensorType, geometry: Geometry | None) -> LazyPayload:
    """Another view of a payload's storage."""
    return type(data)(data.storage, path, kind, geometry)


def _seen(device: LazyDevice, source: Tensor, payload: LazyPayload, steps: Path) -> Tensor:
    """The tensor that these view operators give."""
    storage = source.storage()
    for op, rest, index in steps:
        source = view_of(source, storage, payload, op, rest, index)
    return device.note(source)


class Replay:
    """A rule as it was recorded: its calls, what it gives back, and which operands' storages it writes: how often, and
    which result is the last value.
    """

    __slots__ = ("calls", "gives_operands", "outputs", "writes")

    def __init__(
        self, calls: Recorded, outputs: Any, writes: tuple[tuple[int, int, int], ...], gives_operands: bool
    ) -> None:
        self.calls, self.outputs, self.writes, self.gives_operands = calls, outputs, writes, gives_operands

    def results(self, device: LazyDevice, tensors: Sequence[Tensor], values: Sequence[Deferred]) -> Any:
        """What the rule gives back, made of these results."""
        return self._made(self.outputs, device, tensors, values)

    def _made(self, output: Any, device: LazyDevice, tensors: Sequence[Tensor], values: Sequence[Deferred]) -> Any:
        kind = type(output)
        if kind is FreshResult:
            return output.made(device, values)
        if output is None:
            return None
        if kind is _Operand:
            return tensors[output.turn]
        if kind is ViewOfOperand:
            return output.made(device, tensors[output.turn])
        return kind([
            device.fresh(values[o.turn], o.order) if type(o) is FreshResult and not o.path
            else self._made(o, device, tensors, values) for o in output
        ])


# ---- recording
class Recording:
    """One run of a rule on stand-ins of its operands."""

    def __init__(self, name: str, make: Callable[[LazyDevice], Backend]) -> None:
        self.device = _Device(name, make)
        self.stand_ins: list[Tensor] = []
        self.values: list[Deferred] = []
        self._operands: list[LazyPayload] = []
        self.gives_operands = False
        self._results: list[Deferred] = []
        self._given: list[LazyStorage] = []

    def run(self, rule: Rule, args: Args, operands: Sequence[Operand]) -> tuple[Any, list[tuple[int, int, int]]]:
        """What the rule gives, as outputs and writes. operands: what stands for the tensors among the arguments."""
        at = iter(operands)
        with self.device.backend.constants(()):
            out = rule(*[self._stand_in(a, at) for a in args])
        writes = []
        for i, (tensor, value) in enumerate(zip(self.stand_ins, self.values, strict=True)):
            storage = tensor._data.storage
            if storage.value is not value:
                writes.append((i, storage.version, self._turn(storage.value)))
        return self._output(out), writes

    def path(self, value: Deferred, path: Path, structures: dict[Any, Structure]) -> Recorded:
        """What a path shows of a value."""
        (base,) = self.values = [self._value(value.type_)]
        shown = replay(CALLS, base, path)
        self._results = [] if shown is base else [shown]
        return self.calls(structures, ())

    def _value(self, kind: TensorType) -> Deferred:
        value = Deferred(self.device.trace, kind)
        value.cell = Cell()  # (nobody waits for it)
        return value

    def _stand_in(self, a: Any, operands: Iterator[Operand]) -> Any:
        if type(a) is tuple:
            return tuple([self._stand_in(v, operands) for v in a])
        if not isinstance(a, (Tensor, LazyPayload)):
            return a
        operand, order = next(operands)
        value = self._value(operand.read().type_)
        storage = LazyStorage(self.device, value, order)
        out = tensor_around(LazyPayload(storage, (), value.type_))
        out._storage = storage
        self.stand_ins.append(out)
        self.values.append(value)
        self._operands.append(operand)
        return out

    def _output(self, out: Any) -> Any:
        if out is None:
            return None
        if isinstance(out, (tuple, list)) and type(out) in (tuple, list):
            return type(out)([self._output(o) for o in out])
        if not isinstance(out, Tensor) or type(out._data) is not LazyPayload:
            raise Unrecordable("it gives something else than tensors")
        payload = out._data
        storage = payload.storage
        for i, tensor in enumerate(self.stand_ins):
            if out is tensor:
                return _Operand(i)
            if storage is tensor._data.storage:
                if self._operands[i].is_apart:
                    raise Unrecordable("it gives a view of memory that was only read")
                return ViewOfOperand(i, payload.path, self._operands[i])
        if storage.device is not self.device:
            raise Unrecordable("it gives what comes from elsewhere")
        if any(storage is other for other in self._given):
            raise Unrecordable("it gives two tensors of one memory")
        self._given.append(storage)
        return FreshResult(self._turn(storage.value), payload)

    def _turn(self, value: Deferred) -> int:
        """The number of a result, or of an operand from behind: -1 is the first."""
        if value.node is None:
            for i, operand in enumerate(self.values):
                if value is operand:
                    self.gives_operands = True
                    return -1 - i
            raise Unrecordable("it makes a tensor of values")
        for i, result in enumerate(self._results):
            if value is result:
                return i
        self._results.append(value)
        return len(self._results) - 1

    # ---- its calls
    def calls(self, structures: dict[Any, Structure], floats: Sequence[float]) -> Recorded:
        """The calls that the results need."""
        nodes = self.device.trace.nodes
        needed = needed_for(nodes, self._results)
        places_of = {id(v): i for i, v in enumerate(self.values)}
        used: list[int] = []
        places = {position: i for i, position in enumerate(needed)}

        def placed(a: Any, is_fixed: bool) -> Any:
            kind = type(a)
            if kind is Deferred:
                if a.node is not None:
                    return ResultOf(places[a.node.position], a.index)
                if id(a) not in places_of:
                    raise Unrecordable("it makes a tensor of values")
                if places_of[id(a)] not in used:
                    used.append(places_of[id(a)])
                return OperandOf(used.index(places_of[id(a)]))
            if kind is tuple:
                return tuple([placed(v, is_fixed) for v in a])
            if kind is Drawn:
                raise Unrecordable("it draws")
            return NEXT_NUMBER if (kind is int or kind is float) and not is_fixed else a

        calls: list[RecordedCall] = []
        numbers: list[Any] = []
        for node in map(nodes.__getitem__, needed):
            args = tuple([placed(a, decides(node.op, i, a)) for i, a in enumerate(node.args)])
            start = len(numbers)
            numbers.extend(node.numbers)
            calls.append(RecordedCall(node.op, args, slice(start, len(numbers)), node.types))
        results = tuple([ResultOf(places[v.node.position], v.index) for v in self._results if v.node is not None])
        key = (tuple(self.device.trace.structures), results, tuple(used))
        structure = structures.setdefault(key, Structure())
        by_identity = {id(g): i for i, g in enumerate(floats)}
        held = tuple([(i, by_identity[id(n)]) for i, n in enumerate(numbers) if id(n) in by_identity])
        types, first = tuple([v.type_ for v in self._results]), range(len(used))
        read = first if used == list(first) else tuple(used)
        counted = tuple(self.device.trace.counted)
        return Recorded(structure, read, tuple(calls), tuple(numbers), held, results, types, counted)
