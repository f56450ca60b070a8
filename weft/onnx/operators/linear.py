"""Products of matrices, and determinants."""

from __future__ import annotations

from typing import Any

import weft
from weft.onnx.registry import operator, symbolic
from weft.tensor.tensor import Tensor


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    return weft.matmul(a, b)


@symbolic("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::linalg_matmul")
def write_matmul(g: Any, a: Any, b: Any) -> Any:
    return g.op("MatMul", *g.promoted((a, b)))


@operator("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, broadcast: int = 1,
) -> Tensor:
    product = weft.matmul(a.t() if transA else a, b.t() if transB else b)
    product = product if alpha == 1 else (product * alpha).to(a.dtype)
    if c is None:
        return product
    return product + (c if beta == 1 else (c * beta).to(c.dtype))


@symbolic("aten::linear")
def write_linear(g: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if g.ndim(x) == 2 and bias is not None and g.ndim(bias) == 1 and g.ndim(weight) == 2:
        return g.op("Gemm", x, weight, bias, transB=1)
    turned = weight if g.ndim(weight) < 2 else g.op("Transpose", weight, perm=[1, 0])
    product = g.op("MatMul", x, turned)
    return product if bias is None else g.op("Add", product, bias)


@symbolic("aten::addmm")
def write_addmm(g: Any, c: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    return g.op("Gemm", a, b, c, alpha=float(g.known(alpha)), beta=float(g.known(beta)))


@symbolic("aten::addmv", "aten::addbmm", "aten::baddbmm")
def write_baddbmm(g: Any, c: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    g.require(g.node.op.schema.base != "addbmm", "addbmm")
    product = g.op("MatMul", a, b)
    product = product if g.known(alpha) == 1 else g.op("Mul", product, g.like(product, g.known(alpha)))
    return g.op("Add", product, c if g.known(beta) == 1 else g.op("Mul", c, g.like(c, g.known(beta))))


@symbolic("aten::outer", "aten::ger")
def write_outer(g: Any, a: Any, b: Any) -> Any:
    a, b = g.promoted((a, b))
    return g.op("Mul", g.op("Unsqueeze", a, g.ints([1])), g.op("Unsqueeze", b, g.ints([0])))


@symbolic("aten::addcmul", "aten::addcdiv")
def write_addcmul(g: Any, x: Any, a: Any, b: Any, value: Any) -> Any:
    x, a, b, value = g.promoted((x, a, b, value))
    both = g.op("Mul" if g.node.op.schema.base == "addcmul" else "Div", a, b)
    return g.op("Add", x, both if g.known(value) == 1 else g.op("Mul", both, value))


@symbolic("aten::lerp.Tensor")
def write_lerp(g: Any, start: Any, end: Any, weight: Any) -> Any:
    start, end, weight = g.promoted((start, end, weight))
    return g.op("Add", start, g.op("Mul", weight, g.op("Sub", end, start)))


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    return weft.einsum(equation, *inputs)


@symbolic("aten::einsum")
def write_einsum(g: Any, equation: Any, tensors: Any, *others: Any) -> Any:
    return g.op("Einsum", *g.promoted(g.parts(tensors)), equation=g.known(equation))


@symbolic("aten::einsum.one")
def write_einsum_of_one(g: Any, equation: Any, x: Any, *others: Any) -> Any:
    return g.op("Einsum", x, equation=g.known(equation))


@operator("Det")
def det(x: Tensor) -> Tensor:
    return weft.det(x)


@symbolic("aten::det", "aten::linalg_det")
def write_det(g: Any, x: Any) -> Any:
    return g.op("Det", x)


@symbolic("aten::scaled_dot_product_attention")
def write_attention(
    g: Any, query: Any, key: Any, value: Any, mask: Any, dropout: Any, causal: Any, scale: Any, *others: Any
) -> Any:
    g.require(not g.known(dropout), "attention with dropout")
    rank = g.ndim(query)
    width = g.cast(g.number(g.size(query, rank - 1)), g.dtype(query))
    factor = g.op("Reciprocal", g.op("Sqrt", width)) if scale is None else g.like(query, g.known(scale))
    turned = g.op("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = g.op("MatMul", g.op("Mul", query, factor), turned)
    least = g.like(query, float("-inf"))
    if g.known(causal):
        ones = g.filled(g.shape([g.size(query, rank - 2), g.size(key, rank - 2)]), 1, weft.int64)
        seen = g.cast(g.op("Trilu", ones, upper=0), weft.bool)
        scores = g.op("Where", seen, scores, least)
    if mask is not None:
        chosen = g.dtype(mask) is weft.bool
        scores = g.op("Where", mask, scores, least) if chosen else g.op("Add", scores, mask)
    return g.op("MatMul", g.op("Softmax", scores, axis=rank - 1), value)
