"""Short ways to write entries of one family: they fill in the type rule and what the family derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.ops.op import Joint, Op, View, define
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.types.dtype import DType

Vjp = Mapping[str, Callable[..., Any]] | Joint | None


def pointwise(
    schema: str,
    doc: str,
    *,
    scalar: Callable[..., Any],
    vjp: Vjp,
    over: tuple[str, ...] | None = None,
    compute: str | Callable[[DType], DType] = "promote",
    result: str | DType = "compute",
    accepts: Callable[[DType], bool] | None = None,
    wants: str = "",
    keep: tuple[str, ...] = (),
    **fields: Any,
) -> Op:
    """An operator given by the value of one element. In-place and out= variants and Python numbers come with it."""
    parsed = parse_schema(schema)
    rule = Pointwise(parsed, over, compute, result, accepts, wants, keep)
    fields = {"inplace": True, "out": True, "numbers": True, **fields}
    return define(parsed, doc, type=rule, scalar=scalar, vjp=vjp, **fields)


def view(schema: str, doc: str, geometry: Callable[..., Any], numpy: Callable[..., Any] | None = None, **fields: Any) -> Op:
    """A view operator: its type, gradient (through its scatter), `_copy` and `_scatter` twins follow from the geometry."""
    return define(parse_schema(schema), doc, view=View(geometry, numpy), **fields)


def is_one(value: Any) -> bool:
    """Whether a number argument is literally 1 (so that a formula may leave the factor out)."""
    return type(value) in (int, float) and value == 1


def scaled(g: Any, factor: Any) -> Any:
    """g * factor, without the multiplication by a literal 1."""
    return g if is_one(factor) else g * factor
