"""Interfaces: classes of which only the methods' signatures count. A value of such a type is an object or a Module that
has the methods; which one they are of is found when the program runs.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from typing import Any

from weft.jit.program import Parameter, Program
from weft.jit.script.annotations import CLASSES, INTERFACES
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import bound_operands, spread
from weft.jit.script.frontend.values import Simple, SugaredValue
from weft.types.tensor_type import ClassType, Type


def interface_of(kind: Type | None) -> type | None:
    """The interface that a type is, or None."""
    cls = CLASSES.get(kind.name) if isinstance(kind, ClassType) else None
    return cls if cls in INTERFACES else None


def methods_of(cls: type) -> dict[str, Any]:
    """The methods that an interface asks for."""
    return {name: raw for name, raw in vars(cls).items() if inspect.isfunction(raw)}


class InterfaceMethod(SugaredValue):
    """A method of whatever stands behind an interface."""

    kind = "method of an interface"

    def __init__(self, value: Simple, name: str, function: Any) -> None:
        self.value, self.name, self.function = value, name, function

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        signature = signature_of(ctx, node, self.function)
        operands = bound_operands(ctx, node, signature, args, kwargs)
        op = ctx.op("prim::CallMethod")
        result = ctx.emit(op, (self.value.operand, self.name, tuple(operands), str(signature.returns)), node)
        return spread(ctx, node, result)


def signature_of(ctx: Context, node: ast.AST, function: Any) -> Program:
    """What a method of an interface takes, without the object, and gives."""
    return ctx.program.python_signature(ctx, node, function, is_method=True)  # type: ignore[no-any-return]


def interface_member(ctx: Context, node: ast.AST, value: Simple, cls: type, name: str) -> SugaredValue:
    """`value.name`. Raises CompileError."""
    methods = methods_of(cls)
    name = "forward" if name == "__call__" and "__call__" not in methods else name
    if name not in methods:
        ctx.fail(node, f"the interface '{cls.__name__}' has no method '{name}'; it has {', '.join(methods)}")
    return InterfaceMethod(value, name, methods[name])


def extends(ctx: Context, node: ast.AST, cls: type, actual: type) -> bool:
    """Whether an interface has the methods of another one. Raises CompileError for methods of other signatures."""
    methods = methods_of(actual)
    for name in methods_of(cls):
        if name not in methods:
            ctx.fail(
                node, f"the interface '{actual.__name__}' has no method '{name}' of the interface '{cls.__name__}'"
            )
        signature = signature_of(ctx, node, methods[name])
        _check_signature(ctx, node, cls, name, signature, signature.parameters)
    return True


def check_implements(ctx: Context, node: ast.AST, cls: type, name: str, program: Program) -> None:
    """Raises CompileError where a method of an object has another signature than the interface says."""
    _check_signature(ctx, node, cls, name, program, program.parameters[1:])


def _check_signature(
    ctx: Context, node: ast.AST, cls: type, name: str, program: Program, parameters: Sequence[Parameter]
) -> None:
    wanted = signature_of(ctx, node, methods_of(cls)[name])
    fits = len(parameters) == len(wanted.parameters) and all(map(_takes, parameters, wanted.parameters))
    if not fits or not program.returns.is_subtype_of(wanted.returns):
        ctx.fail(
            node,
            f"{program.schema()} does not fit the interface '{cls.__name__}', which has {wanted.schema()}",
        )


def _takes(actual: Parameter, wanted: Parameter) -> bool:
    return wanted.type.is_subtype_of(actual.type)
