"""What tangent rules (jvp) are written with: `rule(op, primals, tangents, out)`, where `out` are the results, and a
tangent that is None is zero.

Rules of pointwise entries and views follow, as does every other entry's from its vjp, transposed twice; a written rule
is cheaper.
"""

from __future__ import annotations

from typing import Any

from weft.ops.op import Joint, Op
from weft.ops.packet import aten
from weft.ops.route import call

Values = tuple[Any, ...]


def linear(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    """The operator is linear in all of its differentiable tensors together."""
    return call(op, tuple([
        _or_zeros(p, t) if _is_operand(op, i) else p for i, (p, t) in enumerate(zip(primals, tangents, strict=True))
    ]))


def _is_operand(op: Op, position: int) -> bool:
    """Whether the argument is one that the operator is linear in."""
    names = op.vjp.inputs if isinstance(op.vjp, Joint) else (op.vjp or {})
    return op.schema.arguments[position].name in names


def _or_zeros(primal: Any, tangent: Any) -> Any:
    if isinstance(primal, tuple):
        return tuple([_or_zeros(p, t) for p, t in zip(primal, tangent or (None,) * len(primal), strict=True)])
    return aten.zeros_like(primal) if tangent is None and primal is not None else tangent


def product(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    """The operator is linear in each of its differentiable tensors."""
    total: Any = None
    for i, tangent in enumerate(tangents):
        if tangent is not None:
            part = call(op, (*primals[:i], tangent, *primals[i + 1 :]))
            total = part if total is None else total + part
    return total


def picked(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    """Values that were picked along a dim: their tangents come from the same places."""
    values, indices = out
    direction = tangents[0]
    if direction.ndim == 0:
        return aten.reshape(direction, values.dims), None
    dim = primals[op.schema.index("dim")]
    keeps = values.ndim == direction.ndim
    gathered = aten.gather(direction, dim, indices if keeps else aten.unsqueeze(indices, dim))
    return (gathered if keeps else aten.squeeze(gathered, dim)), None
