"""Operators whose meaning has changed since an archive was written, with the one that its programs count on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Kwargs, Scripted
from weft.jit.script.frontend.values import Simple, SugaredValue
from weft.jit.torchscript.graphs.calls import call_by_name
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt

Meaning = Callable[[Context, ast.AST, Sequence[SugaredValue], Kwargs], SugaredValue]
_INTEGERS = """
def div_of_version_3(self: Tensor, other: Tensor) -> Tensor:
    if self.is_floating_point() or other.is_floating_point():
        return self / other
    return self.div(other, rounding_mode="trunc")
"""
_NUMBER = """
def div_of_version_3(self: Tensor, other: {kind}) -> Tensor:
    if self.is_floating_point():
        return self / other
    return self.div(other, rounding_mode="trunc")
"""


def older_meaning(name: str, version: int) -> Meaning | None:
    """What an operator meant in programs of a version; None where it is what it was."""
    last, meaning = _OLDER.get(name, (-1, None))
    return meaning if version <= last else None


def _div(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: Kwargs) -> SugaredValue:
    """Up to version 3, a quotient of integers was one."""
    first, second = (a.as_value(ctx, node) for a in args[:2])
    if not isinstance(first.type, tt.TensorType) or len(args) > 2 or second.type is tt.FLOAT:
        return _plain(ctx, node, "aten::div", args, kwargs)
    text = _INTEGERS if isinstance(second.type, tt.TensorType) else _NUMBER.format(kind=second.type)
    names: dict[str, Any] = {"Tensor": Tensor, "number": tt.NUMBER}
    return Scripted(ctx.program.program_of_text(text, names)).call(ctx, node, [first, second], {}, 1)


def _full(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: Kwargs) -> SugaredValue:
    """Up to version 4, what is full of an integer was of floats unless a dtype was named."""
    if len(args) < 2 or "dtype" in kwargs:
        return _plain(ctx, node, "aten::full", args, kwargs)
    size, value, *rest = args
    return _plain(ctx, node, "aten::full", [size, ctx.prim("float", node, value.as_value(ctx, node)), *rest], kwargs)


def _plain(ctx: Context, node: ast.AST, name: str, args: Sequence[SugaredValue], kwargs: Kwargs) -> Simple:
    (result,) = call_by_name(ctx, node, name, args, kwargs)
    return result


_OLDER: dict[str, tuple[int, Meaning]] = {"aten::div": (3, _div), "aten::full": (4, _full)}
