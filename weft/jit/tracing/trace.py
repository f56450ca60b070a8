"""weft.jit.trace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from weft.guards.asides import stepping_aside
from weft.ir.graph import Block, Graph, Value, values_in
from weft.jit.errors import CompileError
from weft.jit.functions import ScriptFunction, script_function
from weft.jit.module import ScriptModule, wrapped_module
from weft.jit.program import Parameter, Program
from weft.jit.script.entry import compile_exported
from weft.jit.script.frontend.definitions import finished_graph
from weft.jit.script.frontend.values import Simple
from weft.jit.tracing.assigned import Assigned
from weft.jit.tracing.checking import check_trace as check
from weft.jit.tracing.lifted import with_lifted_numbers
from weft.jit.tracing.recorder import Recorder
from weft.jit.tracing.values import type_of_example
from weft.nn.modules.module import Module
from weft.ops.route import default_route
from weft.runtime.generator import traced_by
from weft.support.errors import ArgumentError, StateError
from weft.tensor.modes import active_trace, modes


def record(
    function: Callable[..., Any], inputs: Sequence[Any], name: str, names: Sequence[str], root: ScriptModule | None,
    by_name: bool = False,
) -> Program:
    """The program of what a function does with inputs, which it is given by position, or by their names."""
    return with_lifted_numbers(
        function.forward if isinstance(function, Module) else function,
        lambda: _record(function, inputs, name, names, root, by_name),
    )


def _record(
    function: Callable[..., Any], inputs: Sequence[Any], name: str, names: Sequence[str], root: ScriptModule | None,
    by_name: bool,
) -> Program:
    recorder = Recorder(name, root)
    ctx = recorder.ctx
    entered = []
    for held, label in zip(inputs, names, strict=True):
        kind = type_of_example(held)
        value = Simple(ctx.builder.param(kind, label), kind)
        recorder.program.parameters += (Parameter(label, kind),)
        entered.append(recorder.entered(held, value))
    around, modes.trace = modes.trace, recorder
    assigned = Assigned(root)
    try:
        with (
            stepping_aside(), recorder, default_route(recorder.operator), traced_by(recorder.refuse_state),
            assigned.shown(recorder.shown_as),
        ):
            result = _call(function, entered, names if by_name else None)
        assigned.record(recorder)
        left = recorder.finish(result)
    finally:
        assigned.restore()
        modes.trace = around
    recorder.program.returns = left.type
    recorder.program.graph = finished_graph(ctx, left)
    _check_scopes(recorder.program.graph)
    return recorder.program


def _call(function: Callable[..., Any], inputs: Sequence[Any], names: Sequence[str] | None) -> Any:
    return function(*inputs) if names is None else function(**dict(zip(names, inputs, strict=True)))


def _check_scopes(graph: Graph) -> None:
    """Raises CompileError where a value of a function that is called later, or of a branch, is used outside of it."""

    def check(values: Iterable[Value], visible: set[Value], place: str) -> None:
        if any(v not in visible for v in values):
            raise CompileError(
                f"weft.jit.trace: {place}: a tensor that was made within a branch, a loop, a hook or the function of a "
                "transform is used outside of it; return it from there"
            )

    def look(block: Block, outside: set[Value]) -> None:
        visible = {*outside, *block.params}
        for node in block.nodes:
            for inner in node.blocks:
                look(inner, visible)
            check(node.inputs(), visible, f"{node.where or graph.name} ({node.op.name})")
            visible.update(node.outputs)
        check(values_in(tuple(block.results)), visible, f"a result of {graph.name}")

    look(graph.block, set())


def trace(
    func: Any,
    example_inputs: Any = None,
    check_trace: bool = True,
    check_inputs: Sequence[Any] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
) -> Any:
    """The program of what a function or Module does with example inputs: a tensor, or a tuple of tensors, numbers,
    lists and dicts of them; example_kwarg_inputs has them by name instead.

    Sizes that it reads stay values, so that other sizes give other results. Branches of Python's are not in it: a
    warning (TracerWarning) says where a tensor's value became Python's. check_trace: record again, with the example
    and with each of check_inputs, raise TracingCheckError where the graph is another one, and warn where the results
    differ (random numbers, say) by more than check_tolerance. strict is PyTorch's: lists and dicts may go out of a
    trace either way.
    """
    if isinstance(func, (ScriptFunction, ScriptModule)):
        return func
    if not callable(func):
        raise ArgumentError(f"weft.jit.trace: a function or Module can be traced, not a {type(func).__name__}")
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and getattr(func, "__name__", "") == "forward":
        func = owner
    inputs, names = _by_position(func, example_inputs, example_kwarg_inputs)
    by_name = example_kwarg_inputs is not None
    if isinstance(func, Module):
        _refuse_backward_hooks(func)
        traced: Any = wrapped_module(func)
        again = _recording(func, f"{traced._script_name}.forward", names, traced, by_name)
        program = again(inputs)
        traced._add("forward", program)
        compile_exported(traced)
    else:
        again = _recording(func, _name(func), names, None, by_name)
        program = again(inputs)
        traced = ScriptFunction(program, func)
    if check_trace:
        for checked in [inputs, *map(_as_tuple, check_inputs or ())]:
            check(_positional(func, names, by_name), again, traced, program, checked, check_tolerance)
    return traced


def trace_module(
    mod: Module,
    inputs: Mapping[str, Any],
    check_trace: bool = True,
    check_inputs: Sequence[Mapping[str, Any]] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    example_inputs_is_kwarg: bool = False,
) -> ScriptModule:
    """A Module of which several methods are traced: `inputs` has the example inputs of each by the method's name."""
    _refuse_backward_hooks(mod)
    traced = wrapped_module(mod)
    for name, example in inputs.items():
        method = getattr(mod, name)
        examples = (None, example) if example_inputs_is_kwarg else (example, None)
        positional, names = _by_position(method, *examples)
        recorded = mod if name == "forward" else method
        again = _recording(recorded, f"{traced._script_name}.{name}", names, traced, example_inputs_is_kwarg)
        program = again(positional)
        traced._add(name, program)
        if check_trace:
            others = [_by_position(method, c[name], None)[0] for c in check_inputs or () if name in c]
            for checked in [positional, *others]:
                plain = _positional(method, names, example_inputs_is_kwarg)
                check(plain, again, getattr(traced, name), program, checked, check_tolerance)
    return traced


def _refuse_backward_hooks(module: Module) -> None:
    for name, inner in module.named_modules():
        if any(getattr(inner, f"_{kind}_hooks", None) for kind in ("backward", "backward_pre", "plain_backward")):
            raise StateError(
                f"weft.jit.trace: Modules that have backward hooks assigned cannot be traced; take those of "
                f"{name or type(inner).__name__} away"
            )


def _recording(
    func: Any, name: str, names: Sequence[str], root: ScriptModule | None, by_name: bool
) -> Callable[[Sequence[Any]], Program]:
    return lambda inputs: record(func, inputs, name, names, root, by_name)


def _positional(func: Any, names: Sequence[str], by_name: bool) -> Callable[..., Any]:
    """The function as its trace is called: its inputs by position, also where parameters between them were left out."""
    return (lambda *inputs: _call(func, inputs, names)) if by_name else func


def _as_tuple(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, (tuple, list)) and not hasattr(example, "_fields") else (example,)


def _by_position(
    func: Any, example: Any, by_name: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], list[str]]:
    """The example inputs in the order of the parameters, and their names."""
    called = func.forward if isinstance(func, Module) else func
    if by_name is None:
        if example is None:
            raise ArgumentError("weft.jit.trace: give example_inputs, or example_kwarg_inputs")
        inputs = _as_tuple(example)
        return inputs, _labels(called, len(inputs))
    if example is not None:
        raise ArgumentError("weft.jit.trace: give example_inputs or example_kwarg_inputs, not both")
    try:
        bound = inspect.signature(called).bind(**by_name)
    except TypeError as problem:
        raise ArgumentError(f"weft.jit.trace: example_kwarg_inputs do not fit: {problem}") from None
    names = [n for n in bound.arguments if n in by_name]
    return tuple(by_name[n] for n in names), names


def _name(func: Any) -> str:
    name = f"{getattr(func, '__module__', 'trace')}.{getattr(func, '__qualname__', 'trace')}"
    return "".join(
        c if c.isalnum() or c in "._" else "_" for c in name.replace(".<locals>", "").replace("<lambda>", "trace")
    )


def _labels(func: Any, count: int) -> list[str]:
    code = getattr(inspect.unwrap(func), "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    names = names[1:] if names[:1] == ["self"] else names
    return names[:count] if len(names) >= count else [f"x{i}" for i in range(count)]


def script_if_tracing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: within a trace the function is compiled, so that its branches and loops stay; elsewhere it is
    Python's.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return script_function(function)(*args, **kwargs) if active_trace() is not None else function(*args, **kwargs)

    called.__weft_original__ = function  # type: ignore[attr-defined]
    return called
