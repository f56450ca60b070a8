"""Distances between rows, and the bilinear form."""

from __future__ import annotations

from weft.catalogue.widening import cast, widened
from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.tensor.tensor import Tensor

__all__ = ["bilinear", "pairwise_distance", "pdist"]


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dim."""
    return aten.linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms between all pairs of rows of [n, m]: [n (n - 1) / 2], in the order of the upper triangle."""
    if input.ndim != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    rows, columns = aten.unbind(aten.triu_indices(input.dims[0], input.dims[0], 1), 0)
    return aten.linalg_vector_norm(input[rows] - input[columns], p, -1)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1[..., a] weight[o, a, b] x2[..., b] + bias[o]: [..., o]."""
    out = aten.einsum("...a,oab,...b->...o", [widened(x) for x in (input1, weight, input2)])
    return cast(out if bias is None else out + widened(bias), input1.dtype)  # rounded once
