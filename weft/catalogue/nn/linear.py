"""The linear layer: rows times a matrix of weights, and a bias."""

from __future__ import annotations

from typing import Any

from weft.catalogue.linalg.matmul import conjugate, joint_dtype
from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.batching import Flags, full_rank, whole
from weft.ops.op import NodeBy, Op, define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, dims_text, same_dims
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type


def _linear_type(input: TensorType, weight: TensorType, bias: TensorType | None) -> TensorType:
    dtype = joint_dtype("linear", input, weight)
    if not (input.is_complete and weight.is_complete):
        return tensor_type(dtype, None)
    if weight.ndim not in (1, 2):
        raise ShapeError(f"linear: weight must be a matrix or a vector, got {weight.ndim}D")
    k, k2 = input.shape[-1] if input.ndim else 1, weight.shape[-1]
    if input.ndim == 0 or not shape_env.equal(k, k2):
        rows = dm.product(input.shape[:-1]) if input.ndim else 1
        raise ShapeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{k} and {k2}x{weight.shape[0]})")
    out = (*input.shape[:-1], *weight.shape[:-1])
    if bias is not None and bias.is_complete:
        if bias.dtype is not dtype:
            raise DTypeError(
                f"linear: expected bias to have the dtype of input and weight, got {bias.dtype} and {dtype}"
            )
        if not same_dims(broadcast_dims("linear", [out, bias.shape]), out):
            raise ShapeError(
                f"linear: bias of size {dims_text(bias.shape)} does not fit the result's size {dims_text(out)}"
            )
    return tensor_type(dtype, out, input.device)


def _rows(x: Any) -> Any:
    """The tensor as a matrix of its last dim's vectors."""
    return x if x.ndim == 2 else aten.reshape(x, (dm.product(x.dims[:-1]), x.dims[-1]))


def _linear(input: Any, weight: Any, bias: Any) -> Any:
    if bias is not None:  # the sum is rounded once
        return cast(_product(widened(input), widened(weight)) + widened(bias), input.dtype)
    return _product(input, weight)


def _product(input: Any, weight: Any) -> Any:
    if weight.ndim == 1:
        out = aten.matmul(input, weight)
    else:
        out = aten.mm(_rows(input), aten.t(weight))
        if input.ndim != 2:
            out = aten.reshape(out, (*input.dims[:-1], weight.dims[0]))
    return out


def _linear_grad_input(g: Any, input_dims: Any, weight: Any) -> Any:
    if weight.ndim == 1:
        return aten.unsqueeze(g, -1) * conjugate(weight)
    return aten.reshape(aten.mm(_rows(g), conjugate(weight)), input_dims)


def _linear_grad_weight(g: Any, input: Any, weight_dims: Any) -> Any:
    if len(weight_dims) == 1:
        return aten.sum_to_size(aten.unsqueeze(g, -1) * conjugate(input), weight_dims)
    return aten.mm(aten.t(_rows(g)), conjugate(_rows(input)))


def _linear_grad_bias(g: Any, bias_dims: Any) -> Any:
    return aten.sum(_rows(g), 0) if len(bias_dims) == 1 and g.ndim > 1 else aten.sum_to_size(g, bias_dims)


def _linear_batch(op: Op, size: Dim, flags: Flags, input: Any, weight: Any, bias: Any) -> Any:
    if not flags[1] and not flags[2]:
        return aten.linear(input, weight, bias)
    dtype = input.dtype
    if bias is not None:  # the sum is rounded once
        input, weight, bias = (widened(x) for x in (input, weight, bias))
    middle = input.dims[int(flags[0]) : -1]  # the dims of an example but the last
    is_matrix = weight.ndim - bool(flags[1]) == 2
    rows = aten.reshape(input, (*((size,) if flags[0] else ()), dm.product(middle), input.dims[-1]))
    out = aten.matmul(rows, aten.transpose(weight, -1, -2) if is_matrix else aten.unsqueeze(weight, -1))
    out = aten.reshape(out, (
        *((size,) if flags[0] or flags[1] else ()), *middle, *((out.dims[-1],) if is_matrix else ()),
    ))
    if bias is None:
        return out
    if not (flags[0] or flags[1]):
        out = whole(out, size)
    rank = input.ndim - bool(flags[0])
    return cast(out + (full_rank(bias, True, size, rank) if flags[2] else bias), dtype)


def _linear_tangent(op: Op, primals: Any, tangents: Any, out: Any) -> Any:
    x, weight, _ = primals
    of_x, of_weight, of_bias = tangents
    parts = [] if of_x is None else [aten.linear(of_x, weight)]
    if of_weight is not None:
        parts.append(aten.linear(x, of_weight))
    if of_bias is not None:
        parts.append(of_bias)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


linear = define(
    "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    "input @ weight.T + bias: input [..., k], weight [n, k], bias [n] -> [..., n].",
    precision="lower",
    node=NodeBy("bias", "MmBackward0.linear", "AddmmBackward0.linear"),
    type=_linear_type,
    decompose=_linear,
    out=True,
    # in the order of addmm's gradients: a bias accumulates before its weight
    vjp={"bias": _linear_grad_bias, "input": _linear_grad_input, "weight": _linear_grad_weight},
    batch=_linear_batch, jvp=_linear_tangent, padding=0,
    public=("nn.functional",),
    samples=draw(
        case(F(2, 3), F(4, 3), F(4)), case(F(2, 2, 3), F(4, 3)), case(F(3), F(4, 3), F(4)), case(F(2, 3), F(3))
    ),
    reference=lambda x, w, b: x @ w.T + (0 if b is None else b),
)
