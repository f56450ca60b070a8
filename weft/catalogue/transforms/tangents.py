"""Written tangent rules: linear operators apply to the tangent, products to each factor's, sorted values take
their places with them.

Those of pointwise entries and views follow; every other entry's follows from its vjp (transposed twice).
Imported by the transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import OPS, Joint, Op
from weft.ops.packet import Packet, aten
from weft.ops.route import call

Values = tuple[Any, ...]
Rule = Callable[..., Any]


def pushes(*operators: Packet) -> Callable[[Rule], Rule]:
    """Enter the tangent rule of entries that stand elsewhere: of one overload, or of an operator that has no other."""

    def enter(rule: Rule) -> Rule:
        for packet in operators:
            (op,) = packet.overloads
            object.__setattr__(op, "jvp", rule)
        return rule

    return enter


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
    found = aten.gather(direction, dim, indices if keeps else aten.unsqueeze(indices, dim))
    return (found if keeps else aten.squeeze(found, dim)), None



pushes(
    aten.sum, aten.mean, aten.cumsum, aten.flip, aten.roll, aten.tril, aten.triu, aten._contiguous_copy, aten.gather,
    aten.index_select, aten.index.Tensor, aten.embedding, aten.cat, aten.stack, aten._shift, aten.fft_rfft,
    aten.fft_irfft, aten.unfold_backward, aten.as_strided_backward, aten.embedding_dense_backward, aten.scatter_add,
    aten.scatter.src, aten.index_add, aten.index_copy, aten.masked_select, aten._unsafe_view,
)(linear)
pushes(aten.mm, aten.bmm, aten._convolve, aten._convolve_input, aten._convolve_weight)(product)
pushes(
    aten.sort.stable, aten.sort.default, aten.topk, aten.kthvalue, aten.median.dim, aten.nanmedian.dim, aten.max.dim,
    aten.min.dim, aten.cummax, aten.cummin,
)(picked)
pushes(
    aten.view_as_real_copy, aten.view_as_real_scatter, aten.view_as_complex_copy, aten.view_as_complex_scatter,
    aten.view_bits_copy, aten.view_bits_scatter,
)(linear)
for _op in tuple(OPS.values()):  # what a view shows as memory of its own, or put where it looks
    if (_op.copies or _op.scatters) is not None and _op.kernel is not None and _op.vjp:
        object.__setattr__(_op, "jvp", linear)


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


pushes(aten.constant_pad_nd)(lambda op, primals, tangents, out: aten.constant_pad_nd(tangents[0], primals[1]))
pushes(aten._softmax)(_softmax)
pushes(aten._log_softmax)(_log_softmax)
pushes(aten.linear)(_linear)
