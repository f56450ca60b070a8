"""Matrix products of groups of rows or columns, each with a matrix of its own: mixtures of experts."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.support.errors import ArgumentError, ShapeError, Unsupported
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

__all__ = ["grouped_mm"]


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Products of groups. offs: [g], where each group of an operand with two dims ends; what lies behind the last one
    is left out (0 in the result).

    [m, k] with [g, k, n]: groups of rows, [m, n]. [g, m, k] with [k, n]: groups of columns, [m, n].
    [m, k] with [k, n]: groups of what is summed over, [g, m, n]. [g, m, k] with [g, k, n]: all pairs, without offs.
    Raises ShapeError, ArgumentError, and Unsupported for a bias, as PyTorch does.
    """
    if bias is not None:
        raise Unsupported("grouped_mm: a bias is not supported")
    ranks = (mat_a.ndim, mat_b.ndim)
    if any(rank not in (2, 3) for rank in ranks):
        raise ShapeError(f"grouped_mm: operands have 2 or 3 dims, got {ranks[0]} and {ranks[1]}")
    if (offs is None) != (ranks == (3, 3)):
        raise ArgumentError("grouped_mm: offs is needed where an operand has 2 dims, and only there")
    if offs is None:
        out: Tensor = aten.matmul(mat_a, mat_b)
    else:
        out = _by_numbers(mat_a, mat_b, offs) if modes.capture is None else _by_masks(mat_a, mat_b, offs)
    return out if out_dtype is None else out.to(out_dtype)


def _by_numbers(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """Each group is cut out: the ends are read."""
    ends = [int(n) for n in offs.tolist()]
    groups = list(zip([0, *ends], ends, strict=False))
    if a.ndim == b.ndim == 2:
        return aten.stack([a[:, start:end] @ b[start:end] for start, end in groups])
    if a.ndim == 2:
        parts = [a[start:end] @ b[g] for g, (start, end) in enumerate(groups)]
        rest: Any = (a.shape[0] - ends[-1], b.shape[2])
        return aten.cat([*parts, aten.zeros(rest, dtype=a.dtype)], 0)
    parts = [a[g] @ b[:, start:end] for g, (start, end) in enumerate(groups)]
    rest = (a.shape[1], b.shape[1] - ends[-1])
    return aten.cat([*parts, aten.zeros(rest, dtype=a.dtype)], 1)


def _by_masks(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """The rest of each group counts as 0: a program of one size serves groups of any."""
    dim = 0 if a.ndim == 2 and b.ndim == 3 else 1
    whole = a if a.ndim == 2 else b
    places = aten.arange(whole.shape[dim])
    group = aten.sum(aten.ge(aten.unsqueeze(places, 1), offs), 1)
    group = aten.unsqueeze(group, 1 - dim)
    products = []
    for g in range(int(offs.shape[0])):
        part = aten.where(aten.eq(group, g), whole, 0)
        products.append(part @ b if a.ndim == b.ndim == 2 else part @ b[g] if a.ndim == 2 else a[g] @ part)
    if a.ndim == b.ndim == 2:
        return aten.stack(products)
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total
