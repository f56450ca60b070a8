"""Hooks of a Module in programs: `__call__` is the pre-hooks, `forward`, and the hooks, all of them compiled."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from weft.jit.program import Program
from weft.jit.script.frontend.compile import Linker, compile_python, names_in, names_of
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.definitions import compile_definition, finished_graph
from weft.jit.script.frontend.functions import Scripted
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue
from weft.jit.script.source import Source, function_source
from weft.types.tensor_type import NONE, TupleType, class_of

MakeLinker = Callable[[Program, Any, Any], Linker]


def hooks_of(owner: Any) -> tuple[list[Any], list[Any]]:
    """The pre-hooks and the hooks of the Module that was scripted."""
    original = owner.__dict__.get("_original")
    if original is None:
        return [], []
    return list(original._forward_pre_hooks.values()), list(original._forward_hooks.values())


def has_hooks(owner: Any) -> bool:
    """Whether calling the Module is more than its `forward`."""
    return "__call__" in owner._programs or any(hooks_of(owner))


def compile_call(owner: Any, make_linker: MakeLinker) -> Program:
    """The program of `module(...)`: each hook sees what Python's would, and may replace it. Raises CompileError."""
    before, after = hooks_of(owner)
    forward = owner._programs.get("forward") or owner._compiled("forward")
    hooks = [[_hook(owner, h, make_linker) for h in some] for some in (before, after)]
    program = Program(f"{owner._script_name}.__call__", forward.parameters)
    if hooks[0]:
        program.parameters = _typed_by(forward.parameters, hooks[0][0])
    linker = make_linker(program, names_in({}), compile_python)
    ctx = Context("__call__", Source("<hooks>", ""), lambda name, node: None, linker)
    node = ast.Pass(lineno=1, col_offset=0)
    module, *arguments = (Simple(ctx.builder.param(p.type, p.name), p.type) for p in program.parameters)
    args: Sequence[SugaredValue] = arguments
    for hook in hooks[0]:
        returned = Scripted(hook).call(ctx, node, [module, TupleValue(args)], {}, 1)
        if not _is_none(returned):
            is_tuple = isinstance(returned, Simple) and isinstance(returned.type, TupleType)
            args = returned.elements(ctx, node) if is_tuple else [returned]
    result = Scripted(forward).call(ctx, node, [module, *args], {}, 1)
    for hook in hooks[1]:
        returned = Scripted(hook).call(ctx, node, [module, TupleValue(args), result], {}, 1)
        result = result if _is_none(returned) else returned
    left = result.as_value(ctx, node)
    program.returns, program.graph = left.type, finished_graph(ctx, left)
    return program


def _hook(owner: Any, hook: Any, make_linker: MakeLinker) -> Program:
    definition, source = function_source(hook)
    program = Program(f"{owner._script_name}.{hook.__name__}")
    linker = make_linker(program, names_of(hook), compile_python)
    return compile_definition(definition, source, linker, hook, class_of(owner._script_name))


def _typed_by(parameters: Sequence[Any], hook: Program) -> tuple[Any, ...]:
    """The first pre-hook says of which types the arguments are."""
    kind = hook.parameters[1].type
    if not isinstance(kind, TupleType) or len(kind.elements) != len(parameters) - 1:
        return tuple(parameters)
    typed = zip(parameters[1:], kind.elements, strict=True)
    return (parameters[0], *(replace(p, type=t) for p, t in typed))


def _is_none(value: SugaredValue) -> bool:
    return isinstance(value, Simple) and value.type is NONE
