"""Types that the user wrote: annotations, as the names in them mean at that place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from weft.jit.script.annotations import NAMES, UnknownType, repeats_of, type_of_annotation
from weft.jit.script.frontend.context import Context
from weft.types.tensor_type import Type


class _Names(Mapping[str, Any]):
    """The names that an annotation can use: those of the function's surroundings, and those of typing."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def __getitem__(self, name: str) -> Any:
        boxed = self.ctx.program.python_object(name)
        if boxed is not None:
            return boxed[0]
        if name in NAMES:
            return NAMES[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def python_value(ctx: Context, node: ast.AST) -> Any:
    """What an annotation, or another constant expression, is in Python. Raises CompileError."""
    try:
        parsed: Any = ast.parse(node.value, mode="eval").body if _is_text(node) else node  # type: ignore[attr-defined]
        expression = ast.Expression(parsed)
        return eval(
            compile(expression, ctx.source.file, "eval"), {}, _Names(ctx)
        )  # the user's own annotation, as Python reads it
    except Exception as problem:
        ctx.fail(node, f"the annotation means nothing here: {type(problem).__name__}: {problem}; import or define the "
                       "type where the function is defined")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def annotated_type(ctx: Context, node: ast.AST, evaluated: Any = None) -> Type:
    """The type that an annotation means. `evaluated` is what Python has made of it, if it has. Raises CompileError."""
    return annotated_parameter(ctx, node, evaluated)[0]


def annotated_parameter(ctx: Context, node: ast.AST, evaluated: Any = None) -> tuple[Type, int]:
    """The type that the annotation of a parameter means, and how often one value stands in such a list (0: never)."""
    value = python_value(ctx, node) if evaluated is None or isinstance(evaluated, str) else evaluated
    if isinstance(value, str):
        return annotated_parameter(ctx, ast.copy_location(ast.Constant(value), node))
    try:
        return type_of_annotation(_forward(ctx, node, value)), repeats_of(value)
    except UnknownType as problem:
        ctx.fail(node, f"Unknown type: {problem}")


def _forward(ctx: Context, node: ast.AST, value: Any) -> Any:
    """References by name within a generic type, looked up."""
    arguments = getattr(value, "__args__", None)
    if type(value).__name__ == "ForwardRef":
        return python_value(ctx, ast.copy_location(ast.Constant(value.__forward_arg__), node))
    if arguments and any(type(a).__name__ == "ForwardRef" for a in arguments):
        return value.copy_with(tuple(_forward(ctx, node, a) for a in arguments))
    return value


def annotation_of(arg: ast.arg) -> ast.expr | None:
    """The annotation of an argument, or the comment behind it: `x,  # type: int`."""
    if arg.annotation is not None or arg.type_comment is None:
        return arg.annotation
    return ast.copy_location(ast.Constant(arg.type_comment), arg)


def has_open_arguments(comment: ast.FunctionType) -> bool:
    """`# type: (...) -> T`, where each argument has a comment of its own."""
    return any(isinstance(a, ast.Constant) and a.value is ... for a in comment.argtypes)
