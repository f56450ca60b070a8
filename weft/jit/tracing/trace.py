"""weft.jit.trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from weft.jit.frontend.definitions import finished_graph
from weft.jit.frontend.values import Simple
from weft.jit.functions import ScriptFunction
from weft.jit.module import ScriptModule, wrapped_module
from weft.jit.program import Parameter, Program
from weft.jit.recorders import RECORDING
from weft.jit.tracing.recorder import Recorder
from weft.jit.tracing.values import check_again, type_of_example
from weft.nn.modules.module import Module
from weft.ops.route import default_route
from weft.support.errors import ArgumentError


def record(
    function: Callable[..., Any], inputs: Sequence[Any], name: str, names: Sequence[str], root: ScriptModule | None
) -> Program:
    """The program of what a function does with inputs."""
    recorder = Recorder(name, root)
    ctx = recorder.ctx
    entered = []
    for held, label in zip(inputs, names, strict=True):
        kind = type_of_example(held)
        value = Simple(ctx.builder.param(kind, label), kind)
        recorder.program.parameters += (Parameter(label, kind),)
        entered.append(recorder.entered(held, value))
    RECORDING.append(recorder)
    try:
        with recorder, default_route(recorder.operator):
            result = function(*entered)
        left = recorder.left(result)
    finally:
        RECORDING.pop()
    recorder.program.returns = left.type
    recorder.program.graph = finished_graph(ctx, left)
    return recorder.program


def trace(func: Any, example_inputs: Any, check_trace: bool = True, **options: Any) -> Any:
    """The program of what a function or Module does with example inputs: a tensor, or a tuple of tensors, numbers,
    lists and dicts of them.

    Sizes that it reads stay values, so that other sizes give other results. Branches of Python's are not in it: a
    warning (TracerWarning) says where a
    tensor's value became Python's. check_trace: run both again, and warn where the results differ (random numbers,
    say).
    """
    inputs = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    if isinstance(func, (ScriptFunction, ScriptModule)):
        return func
    if isinstance(func, Module):
        made: Any = _trace_module(func, inputs)
    elif callable(func):
        made = ScriptFunction(record(func, inputs, _name(func), _labels(func, len(inputs)), None), func)
    else:
        raise ArgumentError(f"weft.jit.trace: a function or Module can be traced, not a {type(func).__name__}")
    if check_trace:
        check_again(func, made, inputs)
    return made


def _name(func: Any) -> str:
    name = f"{getattr(func, '__module__', 'trace')}.{getattr(func, '__qualname__', 'trace')}"
    return "".join(
        c if c.isalnum() or c in "._" else "_" for c in name.replace(".<locals>", "").replace("<lambda>", "trace")
    )


def _labels(func: Any, count: int) -> list[str]:
    code = getattr(inspect.unwrap(func) if callable(func) else func, "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    names = names[1:] if names[:1] == ["self"] else names
    return names[:count] if len(names) >= count else [f"x{i}" for i in range(count)]


def _trace_module(module: Module, inputs: Sequence[Any]) -> ScriptModule:
    root = wrapped_module(module)
    name = f"{root._script_name}.forward"
    program = record(module, inputs, name, _labels(type(module).forward, len(inputs)), root)
    root._add("forward", program)
    return root
