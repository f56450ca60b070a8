"""Compiling a definition: its signature, its statements, its result."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from weft.ir.graph import Graph
from weft.jit.program import MISSING, Parameter, Program, accepted
from weft.jit.script.annotations import written
from weft.jit.script.frontend import (  # noqa: F401  (each registers the syntax that it is about)
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
from weft.jit.script.frontend.branches import RESULT, joined
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.exits import always_leaves
from weft.jit.script.frontend.outside import python_constant
from weft.jit.script.frontend.statements import run
from weft.jit.script.frontend.types import (
    annotated_parameter,
    annotated_type,
    annotation_of,
    has_open_arguments,
    python_value,
)
from weft.jit.script.frontend.values import Simple, SugaredValue
from weft.jit.script.source import Source
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
        declared = {p.name: p.type for p in types}
        program.parameters = tuple(replace(p, type=declared.get(p.name, p.type)) for p in program.parameters)
    ctx.return_type = returned_type(ctx, definition, function)
    if not (loose or types):
        _check_defaults(ctx, definition, program.parameters)
    else:  # weft's own modules say Any where any of PyTorch's arguments will do
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


def _check_defaults(ctx: Context, definition: ast.FunctionDef, parameters: Sequence[Parameter]) -> None:
    for p in parameters:
        if p.default is not MISSING and accepted(p.default, p.type) is MISSING:
            default = "None" if p.default is None else f"a {type(p.default).__name__}"
            spec = definition.args
            place = next(a for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs) if a.arg == p.name)
            ctx.fail(place, f"Expected a default value of type {written(p.type)} for '{p.name}', not {default}")


def _as_tensor(parameter: Parameter) -> Parameter:
    return replace(parameter, type=tt.optional(tt.TENSOR) if parameter.default is None else tt.TENSOR)


def _result_type(ctx: Context) -> Type:
    if ctx.return_type is not None:
        return ctx.return_type
    if not ctx.returned:
        return tt.NONE
    common, _ = ctx.returned[0]
    for kind, node in ctx.returned[1:]:
        both = joined(common, kind)
        if both is None:
            ctx.fail(
                node,
                f"Previous return statement returned a value of type {written(common)} but this return statement "
                f"returns a value of type {written(kind)}",
            )
        common = both
    return common


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


def returned_type(ctx: Context, definition: ast.FunctionDef, function: Any) -> Type | None:
    """The type of the result that a definition declares, or None."""
    comment = _type_comment(ctx, definition)
    if comment is not None and comment.returns is not None:
        return annotated_type(ctx, comment.returns)
    evaluated = getattr(function, "__annotations__", {}).get("return")
    return None if definition.returns is None else annotated_type(ctx, definition.returns, evaluated)


def _type_comment(ctx: Context, definition: ast.FunctionDef) -> ast.FunctionType | None:
    """`# type: (int, Tensor) -> Tensor`; without a result (`# type: (int)`), `returns` is None."""
    text = definition.type_comment
    if text is None:
        return None
    written = "->" in text
    try:
        parsed = ast.parse(text if written else f"{text} -> None", mode="func_type")
    except SyntaxError:
        ctx.fail(definition, f"the types of the arguments and of the result are written `# type: (int) -> int`, not as "
                             f"`# type: {text}`")
    for part in (*parsed.argtypes, parsed.returns):
        for piece in ast.walk(part):
            piece.lineno, piece.col_offset = definition.lineno, definition.col_offset  # type: ignore[attr-defined]
            piece.end_lineno = piece.end_col_offset = None  # type: ignore[attr-defined]
    if not written:
        parsed.returns = None  # type: ignore[assignment]
    return parsed


def parameters_of(
    ctx: Context,
    definition: ast.FunctionDef,
    function: Any = None,
    self_type: Type | None = None,
    is_open: bool = False,
) -> tuple[Parameter, ...]:
    """The parameters of a definition. What has neither annotation nor a number as default is a tensor.

    is_open: `*args` and `**kwargs` may stand behind them.
    """
    spec = definition.args
    if self_type is not None and not (spec.posonlyargs or spec.args):
        ctx.fail(definition, "a method needs a parameter for its object: `def forward(self):`")
    if not is_open and (spec.vararg is not None or spec.kwarg is not None):
        ctx.fail(
            spec.vararg or spec.kwarg or definition,
            "a function with *args or **kwargs cannot be compiled; name each argument",
        )
    comment = _type_comment(ctx, definition)
    positional = [*spec.posonlyargs, *spec.args]
    written: list[ast.expr | None] = [annotation_of(a) for a in (*positional, *spec.kwonlyargs)]
    if comment is not None and not has_open_arguments(comment):
        skipped = 1 if self_type is not None else 0
        if len(comment.argtypes) != len(written) - skipped:
            ctx.fail(
                definition, f"Number of type annotations ({len(comment.argtypes)}) did not match the number of "
                            f"function parameters ({len(written) - skipped}): `# type: {definition.type_comment}`",
            )
        written[skipped:] = comment.argtypes
    defaults = _defaults(ctx, definition, function)
    evaluated = getattr(function, "__annotations__", {})
    parameters: list[Parameter] = []
    for i, arg in enumerate((*positional, *spec.kwonlyargs)):
        default = defaults.get(arg.arg, MISSING)
        if i == 0 and self_type is not None:
            parameters.append(Parameter(arg.arg, self_type))
            continue
        annotation = written[i]
        hint = evaluated.get(arg.arg) if annotation is arg.annotation else None
        kind, repeats = (
            annotated_parameter(ctx, annotation, hint) if annotation is not None else (_inferred(default), 0)
        )
        if repeats and default is not MISSING and not isinstance(default, (list, tuple)):
            default = [default] * repeats
        parameters.append(Parameter(arg.arg, kind, default, i >= len(positional), repeats))
    return tuple(parameters)


def _inferred(default: Any) -> Type:
    plain = None if default is MISSING or default is None else python_constant(default)
    return tt.TENSOR if plain is None else plain.type


def _defaults(ctx: Context, definition: ast.FunctionDef, function: Any) -> dict[str, Any]:
    if function is not None:
        parameters = inspect.signature(function, follow_wrapped=True).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    spec = definition.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [
        *zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True),
        *((a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None),
    ]
    return {a.arg: python_value(ctx, d) if not isinstance(d, ast.Constant) else d.value for a, d in pairs}
