"""A step as a callable: `weft.lazy.extract_compiled_graph`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft.lazy.metrics as metrics
from weft.functionalizer.storage import Order
from weft.functionalizer.writes import Path
from weft.layers import walk
from weft.lazy.api import lazy_payload
from weft.lazy.backend import lazy_backend
from weft.lazy.calls import Drawn
from weft.lazy.device import LazyDevice, device_of
from weft.lazy.executor import Job
from weft.lazy.payload import LazyPayload, LazyStorage, fresh
from weft.lazy.programs import Plan
from weft.lazy.trace import Trace
from weft.lazy.values import Cell, Deferred
from weft.support import pytree
from weft.support.errors import ArgumentError, Unsupported
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.sym import SymInt
from weft.types.tensor_type import TensorType


@dataclass(frozen=True)
class _Source:
    """Where the program finds a value that the arguments show: what an argument shows, or the base of a storage that
    several of them show (`is_base`). arg: the number of one of these arguments.
    """

    arg: int
    is_base: bool

    def value(self, args: Sequence[Tensor]) -> Deferred:
        """The value now."""
        data = args[self.arg]._data
        value: Deferred = data.storage.value if self.is_base else data.read()
        return value

    def write(self, device: LazyDevice, args: Sequence[Tensor], value: Deferred) -> None:
        """Let the arguments show another one."""
        target = args[self.arg]
        data = target._data
        shown = LazyPayload(data.storage, (), data.storage.type) if self.is_base else data
        lazy_backend(device).put(target, shown, value)


@dataclass
class _Step:
    """One traced step: its plan, where each input comes from (a source, by number, or a value that is kept), the
    numbers of its calls, the types of its results and the orders of their dims in memory, what each output is, the
    sources, and which of them it writes.
    """

    plan: Plan
    inputs: list[int | Deferred]
    numbers: list[Any]
    types: list[TensorType]
    orders: list[Order | None]
    outputs: list[Callable[[Sequence[Tensor], list[Tensor]], Any]]
    spec: pytree.TreeSpec
    sources: list[_Source]
    written: list[tuple[_Source, int]]


def extract_compiled_graph(function: Callable[..., Any], args: Sequence[Tensor]) -> Callable[..., Any]:
    """A callable that runs the program of `function(*args)` without tracing it: lazy tensors in, lazy tensors out.

    Arguments that the function writes are written. Other tensors that it reads keep the values that they have now.
    Arguments of other sizes or dtypes, or that share memory in another way, are traced anew, once for each. Raises
    Unsupported where the function reads a value while it is traced, draws random numbers, gives a size that the run
    finds, or writes tensors that are none of its arguments; and ArgumentError for arguments that are not lazy.
    """
    steps: dict[Any, _Step] = {}
    device = device_of(lazy_payload(args[0], "extract_compiled_graph")) if args else None
    if device is None:
        raise ArgumentError("extract_compiled_graph: give the lazy tensors that the function is called with")

    def step_of(tensors: Sequence[Tensor]) -> _Step:
        kinds = _kinds(tensors)
        step = steps.get(kinds)
        if step is None:
            step = steps[kinds] = _traced(device, function, tensors)
        return step

    def run(*tensors: Tensor) -> Any:
        return _run(device, step_of(tensors), tensors)

    _program(device, step_of(args), args)
    return run


def _kinds(args: Sequence[Tensor]) -> tuple[Any, ...]:
    """What a program holds for: the types of the arguments, and how those lie that share a storage."""
    payloads = [lazy_payload(t, "extract_compiled_graph") for t in args]
    sources = _sources(args)
    return tuple([
        (p.type, source.arg, p.path, p.storage.type, p.storage.order) if source.is_base else p.type
        for p, source in zip(payloads, sources, strict=True)
    ])


def _sources(args: Sequence[Tensor]) -> list[_Source]:
    """The source of each argument."""
    storages = [t._data.storage for t in args]
    return [_Source(storages.index(s), storages.count(s) > 1) for s in storages]


def _traced(device: LazyDevice, function: Callable[..., Any], args: Sequence[Tensor]) -> _Step:
    """The step that a function does, called with copies of the arguments."""
    before, trace = _cuts(), device.trace
    device.cut(False)
    sources = _sources(args)
    distinct = list(dict.fromkeys(sources))
    stand_ins = {source: _stand_in(device, source.value(args)) for source in distinct}
    storages = {s: LazyStorage(device, stand_ins[s], args[s.arg]._data.storage.order) for s in distinct if s.is_base}
    copied = {id(t): _copy(device, t, stand_ins[s], storages.get(s)) for t, s in zip(args, sources, strict=True)}
    copies = [copied[id(t)] for t in args]
    leaves, spec = pytree.flatten(function(*copies))
    cuts = [name for name, count in _cuts().items() if count != before.get(name, 0)]
    if cuts:
        fallbacks = [name for name in cuts if name.startswith("aten::")]
        read = next((c for c in reversed(metrics.causes()) if c.startswith("sync")), "sync")
        cause = f"fallback: {', '.join(fallbacks)}" if fallbacks else read
        raise Unsupported(
            "extract_compiled_graph: the function reads a value, or calls an operator that is computed at once, while "
            f"it is traced; it cannot be one program ({cause})"
        )
    _refuse_writes_outside(trace, copies)
    with trace.lock:
        wanted: list[Deferred] = []
        outputs = [_output(wanted, copies, leaves, leaf) for leaf in leaves]
        ends = {source: source.value(copies) for source in distinct}
        written = [(s, _place(wanted, value)) for s, value in ends.items() if value is not stand_ins[s]]
        for value in wanted:
            trace.bring(value)
        plan = Plan(trace, wanted)
        places = {id(stand_ins[s]): i for i, s in enumerate(distinct)}
        inputs = [places.get(id(trace.inputs[slot]), trace.inputs[slot]) for slot in plan.inputs]
        numbers = plan.numbers_of_calls(trace)
    if any([type(n) is Drawn for n in numbers]):
        raise Unsupported("extract_compiled_graph: the function draws random numbers; they would be the same each time")
    orders = _orders(wanted, leaves)
    return _Step(plan, inputs, numbers, [v.type_ for v in wanted], orders, outputs, spec, distinct, written)


def _refuse_writes_outside(trace: Trace, copies: Sequence[Tensor]) -> None:
    """Raises Unsupported where the function wrote a tensor that it was not given, which has its value again then."""
    mine = {id(copy._data.storage) for copy in copies}
    before = [(s, None if s.settled is None else s.settled()) for s in trace.waiting() if id(s) not in mine]
    written = [(storage, value) for storage, value in before if value is not None]
    for storage, value in written:
        storage.replace(value)
    if written:
        raise Unsupported(
            f"extract_compiled_graph: the function writes a tensor of sizes {list(written[0][0].type.shape)} that is "
            "none of its arguments; give it as an argument"
        )


def _orders(wanted: Sequence[Deferred], leaves: Sequence[Any]) -> list[Order | None]:
    """The order in memory of the dims of each result."""
    shown = [leaf._data for leaf in leaves if isinstance(leaf, Tensor)]
    orders = {id(data.storage.value): data.storage.order for data in shown if not data.path}
    return [orders.get(id(value)) for value in wanted]


def _output(wanted: list[Deferred], copies: list[Tensor], leaves: Sequence[Any], leaf: Any) -> Any:
    """How to make an output of a call's arguments and results."""
    if not isinstance(leaf, Tensor):
        if type(leaf) is SymInt:
            raise Unsupported("extract_compiled_graph: the function gives a size that the run finds; give the tensor")
        return lambda args, results: leaf
    for i, copy in enumerate(copies):
        if leaf is copy:
            return lambda args, results: args[i]
    data = lazy_payload(leaf, "extract_compiled_graph")
    for i, copy in enumerate(copies):
        depth = len(copy._data.path)
        if data.storage is copy._data.storage and data.path[:depth] == copy._data.path:
            return lambda args, results: _seen(args[i], data.path[depth:])
    others = [other for other in leaves if isinstance(other, Tensor) and other is not leaf]
    if any([other._data.storage is data.storage for other in others]):
        base = _place(wanted, data.storage.value)
        return lambda args, results: _seen(results[base], data.path)
    place = _place(wanted, data.read())
    return lambda args, results: results[place]


def _seen(source: Tensor, path: Path) -> Tensor:
    """What a path of views shows of a tensor."""
    for op, rest, index in path:
        shown = walk.walk(op, (source, *rest))
        source = shown[index] if isinstance(shown, tuple) else shown
    return source


def _stand_in(device: LazyDevice, value: Deferred) -> Deferred:
    """An input of the program with the value that is there."""
    device.compute([value], "extract_compiled_graph()")
    deferred = Deferred(device.trace, value.type_)
    deferred.cell = value.cell
    return deferred


def _copy(device: LazyDevice, tensor: Tensor, value: Deferred, storage: LazyStorage | None) -> Tensor:
    """A tensor that shows what an argument shows: a value, or a part of a storage."""
    if storage is None:
        return fresh(device, value)
    data = tensor._data
    out = tensor_around(LazyPayload(storage, data.path, data.type, data.geometry()))
    out._storage = storage
    return out


def _place(wanted: list[Deferred], value: Deferred) -> int:
    """The place of a value among those that are wanted; each is there once."""
    for i, v in enumerate(wanted):
        if v is value:
            return i
    wanted.append(value)
    return len(wanted) - 1


def _cuts() -> dict[str, int]:
    """How often values were asked for, and operators computed at once, by the names of their counters."""
    return {
        name: metrics.counter_value(name) or 0
        for name in metrics.counter_names() if name.startswith("aten::") or name == "SyncedTensorsWithIR"
    }


def _program(device: LazyDevice, step: _Step, args: Sequence[Tensor]) -> tuple[Any, list[Deferred], list[Any]]:
    """The program for a call, what it reads, and its numbers."""
    operands = [source.value(args) for source in step.sources]
    values = [operands[source] if isinstance(source, int) else source for source in step.inputs]
    device.compute([v for v in values if v.cell is None], "a step that was extracted")
    numbers = [*[d for v in values for d in v.dims], *step.numbers]
    return step.plan.program(numbers, (), lambda: "a step that was extracted"), values, numbers


def _run(device: LazyDevice, step: _Step, args: Sequence[Tensor]) -> Any:
    program, values, numbers = _program(device, step, args)
    cells = [Cell() for _ in step.plan.wanted]
    results = []
    for cell, kind in zip(cells, step.types, strict=True):
        value = Deferred(device.trace, kind)
        value.cell = cell
        results.append(value)
    job = Job(program, [v.cell for v in values], numbers, list(cells), step.plan.unbacked_sizes)  # type: ignore[misc]
    device.executor.submit(job)
    if step.plan.unbacked_sizes:  # (each run finds its own)
        for value in results:
            value.type_ = value.type_.with_dims(value.read().shape)
    for source, place in step.written:
        source.write(device, args, results[place])
    tensors = [fresh(device, value, order) for value, order in zip(results, step.orders, strict=True)]
    return pytree.unflatten([output(args, tensors) for output in step.outputs], step.spec)
