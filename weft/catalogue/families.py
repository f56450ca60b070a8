"""Short ways to write entries of one family: they fill in the type rule and what the family derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any

from weft.ops.op import NOT_DIFFERENTIABLE, Joint, Op, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.support.errors import Unsupported
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


def _error(grad: Any, self: Any, operator: str) -> Unsupported:
    return Unsupported(
        f"the derivative for '{operator}' is not implemented; detach() its result where no gradient is wanted"
    )


def _refuse(grad: Any, self: Any, operator: str) -> Any:
    raise _error(grad, self, operator)


_REFUSED = define(
    "prim::no_formula(Tensor grad, Tensor self, str operator) -> Tensor",
    "The gradient of an operator by `self`, which nobody can compute: raises Unsupported (a NotImplementedError) when "
    "a backward call comes to it.",
    type=lambda grad, self, operator: self,
    kernel=_refuse,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    public=(),
)


def no_formula(operator: str, *inputs: str) -> Mapping[str, Callable[..., Any]]:
    """The `vjp` of an operator whose derivative by `inputs` is not zero but not there: the results require grad, and
    backward raises Unsupported where it comes to them, instead of losing a gradient."""

    def rule(name: str) -> Callable[..., Any]:
        def refuse(g: Any, value: Any) -> Any:
            return call(_REFUSED, (g, value, operator))

        # (formulas are given what their parameters are named after)
        parameters = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in ("g", name)]
        refuse.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return refuse

    return {name: rule(name) for name in inputs}
