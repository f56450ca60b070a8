"""Short ways to write entries of one family: they fill in the type rule and what the family derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.ops.op import Joint, Op, define
from weft.ops.packet import aten
from weft.ops.route import call
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
    rule: type[Pointwise] = Pointwise,
    **fields: Any,
) -> Op:
    """An operator given by the value of one element. In-place and out= variants and Python numbers come with it."""
    parsed = parse_schema(schema)
    checked = rule(parsed, over, compute, result, accepts, wants, keep)
    fields = {"inplace": True, "out": True, "numbers": True, **fields}
    return define(parsed, doc, type=checked, scalar=scalar, vjp=vjp, **fields)


def alias(schema: str, target: Op, **fields: Any) -> Op:
    """A second name for an entry: it opens to a call of `target`, whose type rule it shares
    (argument order must agree)."""
    shared = (
        "inplace", "out", "numbers", "number_first", "numbers_alone", "public", "reference", "samples",
    )
    fields = {**{name: getattr(target, name) for name in shared}, **fields}
    return define(
        parse_schema(schema), target.doc, type=target.type, decompose=lambda *args: call(target, args), **fields
    )


def dtype_of(x: Any) -> DType | None:
    """The dtype of a tensor operand; None for a number, lifted ones included."""
    try:
        dtype = x.dtype
    except (AttributeError, AssertionError):
        return None
    return dtype if isinstance(dtype, DType) else None


def conjugate(x: Any) -> Any:
    """The complex conjugate of a formula's operand; real tensors and numbers come back as they are, without a node."""
    if type(x) is complex:
        return x.conjugate()
    dtype = dtype_of(x)
    return aten.conj(x) if dtype is not None and dtype.is_complex else x


def is_one(value: Any) -> bool:
    """Whether a number argument is literally 1 (so that a formula may leave the factor out)."""
    return type(value) in (int, float) and value == 1


def scaled(g: Any, factor: Any) -> Any:
    """g * factor, without the multiplication by a literal 1."""
    return g if is_one(factor) else g * factor
