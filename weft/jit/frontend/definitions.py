"""Compiling a definition: its signature, its statements, its result."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from weft.ir.graph import Graph
from weft.jit.annotations import written
from weft.jit.frontend import (  # noqa: F401  (each registers the syntax that it is about)
    assignments,
    calls,
    containers,
    expressions,
    loops,
    members,
    operations,
    strings,
    subscripts,
)
from weft.jit.frontend.branches import RESULT, joined
from weft.jit.frontend.context import Context
from weft.jit.frontend.exits import always_leaves
from weft.jit.frontend.outside import python_constant
from weft.jit.frontend.statements import run
from weft.jit.frontend.types import annotated_type, annotation_of, is_open, python_value
from weft.jit.frontend.values import Simple, SugaredValue
from weft.jit.program import MISSING, Parameter, Program
from weft.jit.source import Source
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type


class Resolver(Protocol):
    """Finds what a definition refers to, and has the program that is filled in."""

    program: Program

    def resolve(self, ctx: Context, name: str, node: ast.AST) -> SugaredValue | None:
        """What a name that is no variable stands for."""


def compile_definition(
    definition: ast.FunctionDef,
    source: Source,
    linker: Resolver,
    function: Any = None,
    self_type: Type | None = None,
    loose: bool = False,
    types: Sequence[Parameter] = (),
) -> Program:
    """Fill in the program of a definition. `function` has the default values, where there is a Python function.
    types: of the parameters, where another definition declares them.

    loose: what is annotated as Any is a tensor, or is inferred.
    """
    program = linker.program
    ctx = Context(program.name.rpartition(".")[2], source, lambda name, node: linker.resolve(ctx, name, node), linker)
    program.text = source.text
    program.parameters = parameters_of(ctx, definition, function, self_type)
    if types:
        known = {p.name: p.type for p in types}
        program.parameters = tuple(replace(p, type=known.get(p.name, p.type)) for p in program.parameters)
    ctx.return_type = _returned(ctx, definition)
    if loose:  # weft's own modules say Any where any of PyTorch's arguments will do
        program.parameters = tuple(_as_tensor(p) if p.type is tt.ANY else p for p in program.parameters)
        ctx.return_type = None if "Any" in str(ctx.return_type) else ctx.return_type
    ctx.open_types = {p.name: p.type for p in program.parameters if len(tt.members_of(p.type)) > 1}
    for p in program.parameters:
        ctx.scope.assign(p.name, Simple(ctx.builder.param(p.type, p.name), p.type))
    body = list(definition.body)
    if not always_leaves(body):
        body.append(ast.copy_location(ast.Return(None), body[-1]))
    run(ctx, body)
    program.returns = _result_type(ctx)
    program.graph = _finished(ctx, program.returns)
    return program


def _as_tensor(parameter: Parameter) -> Parameter:
    return replace(parameter, type=tt.optional(tt.TENSOR) if parameter.default is None else tt.TENSOR)


def _result_type(ctx: Context) -> Type:
    if ctx.return_type is not None:
        return ctx.return_type
    if not ctx.returned:
        return tt.NONE
    found, _ = ctx.returned[0]
    for kind, node in ctx.returned[1:]:
        both = joined(found, kind)
        if both is None:
            ctx.fail(
                node,
                f"Previous return statement returned a value of type {written(found)} but this return statement "
                f"returns a value of type {written(kind)}",
            )
        found = both
    return found


def finished_graph(ctx: Context, result: Simple) -> Graph:
    """The graph of what has been emitted, with this result."""
    return ctx.builder.graph([result.operand])


def _finished(ctx: Context, kind: Type) -> Graph:
    """The graph; values that stand for the result have its type now."""
    for value in ctx.pending:
        value.type = kind
    if ctx.blank is not None:
        ctx.blank.args = (str(kind),)
    result = ctx.scope.find(RESULT)
    return ctx.builder.graph([result.operand if isinstance(result, Simple) else None])


def _returned(ctx: Context, definition: ast.FunctionDef) -> Type | None:
    comment = _type_comment(definition)
    if comment is not None:
        return annotated_type(ctx, comment.returns)
    return None if definition.returns is None else annotated_type(ctx, definition.returns)


def _type_comment(definition: ast.FunctionDef) -> ast.FunctionType | None:
    if definition.type_comment is None:
        return None
    found = ast.parse(definition.type_comment, mode="func_type")
    for part in (*found.argtypes, found.returns):
        for piece in ast.walk(part):
            piece.lineno, piece.col_offset = definition.lineno, definition.col_offset  # type: ignore[attr-defined]
            piece.end_lineno = piece.end_col_offset = None  # type: ignore[attr-defined]
    return found


def parameters_of(
    ctx: Context, definition: ast.FunctionDef, function: Any = None, self_type: Type | None = None
) -> tuple[Parameter, ...]:
    """The parameters of a definition. What has neither annotation nor a number as default is a tensor."""
    spec = definition.args
    if spec.vararg is not None or spec.kwarg is not None:
        ctx.fail(
            spec.vararg or spec.kwarg or definition,
            "a function with *args or **kwargs cannot be compiled; name each argument",
        )
    comment = _type_comment(definition)
    positional = [*spec.posonlyargs, *spec.args]
    written: list[ast.expr | None] = [annotation_of(a) for a in (*positional, *spec.kwonlyargs)]
    if comment is not None and comment.argtypes and not is_open(comment):
        skipped = 1 if self_type is not None else 0
        written[skipped : skipped + len(comment.argtypes)] = comment.argtypes
    defaults = _defaults(ctx, definition, function)
    found: list[Parameter] = []
    for i, arg in enumerate((*positional, *spec.kwonlyargs)):
        default = defaults.get(arg.arg, MISSING)
        if i == 0 and self_type is not None:
            found.append(Parameter(arg.arg, self_type))
            continue
        annotation = written[i]
        kind = annotated_type(ctx, annotation) if annotation is not None else _inferred(default)
        found.append(Parameter(arg.arg, kind, default, i >= len(positional)))
    return tuple(found)


def _inferred(default: Any) -> Type:
    plain = None if default is MISSING or default is None else python_constant(default)
    return tt.TENSOR if plain is None else plain.type


def _defaults(ctx: Context, definition: ast.FunctionDef, function: Any) -> dict[str, Any]:
    if function is not None:
        found = inspect.signature(function, follow_wrapped=True).parameters.values()
        return {p.name: p.default for p in found if p.default is not inspect.Parameter.empty}
    spec = definition.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [
        *zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True),
        *((a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None),
    ]
    return {a.arg: python_value(ctx, d) if not isinstance(d, ast.Constant) else d.value for a, d in pairs}
