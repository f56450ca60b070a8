"""A step as a callable: `weft.lazy.extract_compiled_graph`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft.lazy.metrics as metrics
from weft.lazy.api import lazy_payload
from weft.lazy.backend import lazy_backend
from weft.lazy.device import LazyDevice
from weft.lazy.executor import Job
from weft.lazy.payload import fresh
from weft.lazy.programs import Plan
from weft.lazy.values import Cell, Deferred
from weft.support import pytree
from weft.support.errors import ArgumentError, Unsupported
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType


@dataclass
class _Step:
    """One traced step: its plan, where each input comes from (an argument, by number, or a value that is kept), the
    numbers of its calls, the types of its results, what each output is, and which arguments it writes.
    """

    plan: Plan
    inputs: list[int | Deferred]
    numbers: list[Any]
    types: list[TensorType]
    outputs: list[Callable[[Sequence[Tensor], list[Deferred]], Any]]
    spec: pytree.TreeSpec
    written: list[tuple[int, int]]


def extract_compiled_graph(function: Callable[..., Any], args: Sequence[Tensor]) -> Callable[..., Any]:
    """A callable that runs the program of `function(*args)` without tracing it: lazy tensors in, lazy tensors out.

    Arguments that the function writes are written. Other tensors that it reads keep the values that they have now.
    Arguments of other sizes or dtypes are traced anew, once for each. Raises Unsupported where the function reads a
    value while it is traced, and ArgumentError for arguments that are not lazy.
    """
    steps: dict[Any, _Step] = {}
    device = lazy_payload(args[0], "extract_compiled_graph").storage.device if args else None
    if device is None:
        raise ArgumentError("extract_compiled_graph: give the lazy tensors that the function is called with")

    def run(*given: Tensor) -> Any:
        kinds = tuple([lazy_payload(t, "extract_compiled_graph").type for t in given])
        step = steps.get(kinds)
        if step is None:
            step = steps[kinds] = _traced(device, function, given)
        return _run(device, step, given)

    steps[tuple([lazy_payload(t, "extract_compiled_graph").type for t in args])] = _traced(device, function, args)
    return run


def _traced(device: LazyDevice, function: Callable[..., Any], args: Sequence[Tensor]) -> _Step:
    """The step that a function does, called with copies of the arguments."""
    before, trace = _cuts(), device.trace
    device.cut(False)
    copies = [_copy(device, t) for t in args]
    read = [c._data.storage.value for c in copies]
    leaves, spec = pytree.flatten(function(*copies))
    if _cuts() != before:
        raise Unsupported(
            "extract_compiled_graph: the function reads a value, or calls an operator that is computed at once, while "
            f"it is traced; it cannot be one program ({metrics.causes()[-1] if metrics.causes() else 'a fallback'})"
        )
    with trace.lock:
        wanted: list[Deferred] = []
        outputs = [_output(device, wanted, copies, leaf) for leaf in leaves]
        written = [
            (i, _place(wanted, c._data.read())) for i, c in enumerate(copies) if c._data.storage.value is not read[i]
        ]
        for value in wanted:
            trace.bring(value)
        plan = Plan(trace, wanted)
        sources = {id(v): i for i, v in enumerate(read)}
        inputs = [sources.get(id(trace.inputs[turn]), trace.inputs[turn]) for turn in plan.inputs]
        numbers = plan.numbers(trace)
    return _Step(plan, inputs, numbers, [v.type_ for v in wanted], outputs, spec, written)


def _output(device: LazyDevice, wanted: list[Deferred], copies: list[Tensor], leaf: Any) -> Any:
    """How to make an output of a call's arguments and results."""
    if not isinstance(leaf, Tensor):
        return lambda args, results: leaf
    for i, copy in enumerate(copies):
        if leaf is copy:
            return lambda args, results: args[i]
    place = _place(wanted, lazy_payload(leaf, "extract_compiled_graph").read())
    return lambda args, results: fresh(device, results[place])


def _copy(device: LazyDevice, tensor: Tensor) -> Tensor:
    """A tensor of its own with the value that the argument has, which is there."""
    payload = lazy_payload(tensor, "extract_compiled_graph")
    value = payload.read()
    device.compute([value], "extract_compiled_graph()")
    stand_in = Deferred(device.trace, value.type_)
    stand_in.cell = value.cell
    return fresh(device, stand_in)


def _place(wanted: list[Deferred], value: Deferred) -> int:
    """The place of a value among those that are wanted; each is there once."""
    for i, v in enumerate(wanted):
        if v is value:
            return i
    wanted.append(value)
    return len(wanted) - 1


def _cuts() -> tuple[int, ...]:
    """How often values were asked for, and operators computed at once."""
    return tuple([
        metrics.counter_value(name) or 0
        for name in metrics.counter_names() if name.startswith("aten::") or name == "SyncedTensorsWithIR"
    ])


def _run(device: LazyDevice, step: _Step, args: Sequence[Tensor]) -> Any:
    given = [t._data.read() for t in args]
    values = [given[source] if isinstance(source, int) else source for source in step.inputs]
    device.compute([v for v in values if v.cell is None], "a step that was extracted")
    numbers = [*[d for v in values for d in v.dims], *step.numbers]
    program = step.plan.program(numbers, (), lambda: "a step that was extracted")
    cells = [Cell() for _ in step.plan.wanted]
    results = []
    for cell, kind in zip(cells, step.types, strict=True):
        value = Deferred(device.trace, kind)
        value.cell = cell
        results.append(value)
    device.executor.submit(Job(program, [v.cell for v in values], numbers, list(cells)))  # type: ignore[misc]
    for i, place in step.written:
        payload = lazy_payload(args[i], "extract_compiled_graph")
        lazy_backend(device).put(args[i], payload, results[place])
    return pytree.unflatten([output(args, results) for output in step.outputs], step.spec)
