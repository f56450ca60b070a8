"""Written tangent rules: linear operators apply to the tangent, products to each factor's, sorted values take their places with them.

Those of pointwise entries and views follow; every other entry's follows from its vjp (transposed twice). Imported by the transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import OPS, Joint, Op
from weft.ops.packet import aten
from weft.ops.route import call

Values = tuple[Any, ...]
Rule = Callable[..., Any]


def set_rule(name: str, rule: Rule) -> None:
    """Write the tangent rule of an entry that stands elsewhere."""
    object.__setattr__(OPS[name], "jvp", rule)


def linear(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    """The operator is linear in all of its differentiable tensors together."""
    return call(op, tuple([_or_zeros(p, t) if _is_operand(op, i) else p for i, (p, t) in enumerate(zip(primals, tangents, strict=True))]))


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
    found = aten.gather(direction, dim, indices if keeps else aten.unsqueeze(indices, dim))
    return (found if keeps else aten.squeeze(found, dim)), None


LINEAR = (
    "sum", "mean", "cumsum", "flip", "roll", "tril", "triu", "_contiguous_copy", "gather", "index_select", "index.Tensor", "embedding",
    "cat", "stack", "_shift", "fft_rfft", "fft_irfft", "unfold_backward", "as_strided_backward", "embedding_dense_backward", "scatter_add", "scatter.src",
    "index_add", "index_copy", "masked_select", "_unsafe_view",
)
PRODUCTS = ("mm", "bmm", "_convolve", "_convolve_input", "_convolve_weight")
PICKED = ("sort.stable", "sort", "topk", "kthvalue", "median.dim", "nanmedian.dim", "max.dim", "min.dim", "cummax", "cummin")

for _name in LINEAR:
    set_rule(f"aten::{_name}", linear)
for _name in PRODUCTS:
    set_rule(f"aten::{_name}", product)
for _name in PICKED:
    set_rule(f"aten::{_name}", picked)
for _op in list(OPS.values()):
    if _op.schema.namespace == "aten" and _op.kernel is not None and _op.base.endswith(("_copy", "_scatter")) and _op.vjp and (
        f"aten::{_op.base.rpartition('_')[0]}" in {f"aten::{o.base}" for o in OPS.values() if o.view is not None}
    ):
        set_rule(_op.name, linear)


# ---- softmax: its Jacobian is symmetric; that of log_softmax is not
def _softmax(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    weighted = out * aten._to_copy(tangents[0], out.dtype)
    return weighted - out * aten.sum(weighted, (primals[1],), True)


def _log_softmax(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    direction = aten._to_copy(tangents[0], out.dtype)
    return direction - aten.sum(aten.exp(out) * direction, (primals[1],), True)


def _linear(op: Op, primals: Values, tangents: Values, out: Any) -> Any:
    x, weight, _ = primals
    of_x, of_weight, of_bias = tangents
    parts = []
    if of_x is not None:
        parts.append(aten.linear(of_x, weight))
    if of_weight is not None:
        parts.append(aten.linear(x, of_weight))
    if of_bias is not None:
        parts.append(of_bias)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


set_rule("aten::constant_pad_nd", lambda op, primals, tangents, out: aten.constant_pad_nd(tangents[0], primals[1]))
set_rule("aten::_softmax", _softmax)
set_rule("aten::_log_softmax", _log_softmax)
set_rule("aten::linear", _linear)
