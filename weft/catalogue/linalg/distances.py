"""Distances between rows, and slices cut to a norm: cdist, renorm."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.batching import Flags, full_rank
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import Op, define, joint
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import broadcast_dims, normalize_dim
from weft.support.errors import DTypeError, NotForDType, ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# all mean the same here
_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")

_EXACT = (dt.float32, dt.float64)  # dtypes that distances are computed in


def _cdist(x1: Any, x2: Any, p: float, compute_mode: str | None) -> Any:
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise DTypeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.ndim < 2:
            raise ShapeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if not shape_env.equal(x1.dims[-1], x2.dims[-1]):
        raise ShapeError(f"X1 and X2 must have the same number of columns. X1: {x1.dims[-1]} X2: {x2.dims[-1]}")
    if isinstance(p, (int, float)) and p < 0:
        raise ShapeError("cdist only supports non-negative p values")
    if compute_mode not in (None, *_MODES):
        raise ValueProblem(f"{compute_mode} is not a valid value for compute_mode")
    broadcast_dims("cdist", [tuple(x1.dims[:-2]), tuple(x2.dims[:-2])])
    if isinstance(p, (int, float)) and p == 2 and x1.dtype is x2.dtype and x1.dtype in _EXACT:
        return aten._euclidean_dist(x1, x2)
    return aten.linalg_vector_norm(aten.unsqueeze(x1, -2) - aten.unsqueeze(x2, -3), p, -1)


def _pairs(x1: TensorType, x2: TensorType) -> TensorType:
    if x1.dtype is not x2.dtype or x1.dtype not in (None, *_EXACT):
        raise NotForDType(f"_euclidean_dist: not implemented for {x1.dtype} and {x2.dtype}")
    if not (x1.is_complete and x2.is_complete):
        return tensor_type(x1.dtype, None, x1.device)
    batch = broadcast_dims("cdist", [x1.shape[:-2], x2.shape[:-2]])
    return x1.with_dims((*batch, x1.shape[-2], x2.shape[-2]))


def _euclidean(x1: Array, x2: Array) -> Array:
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    return np.sqrt(np.sum(np.multiply(difference, difference, out=difference), -1))


def _euclidean_batch(op: Op, size: Dim, flags: Flags, x1: Any, x2: Any) -> Any:
    rank = max(x.ndim - bool(flag) for x, flag in zip((x1, x2), flags, strict=True))
    return call(op, tuple(full_rank(x, True, size, rank) if f else x for x, f in zip((x1, x2), flags, strict=True)))


def _euclidean_gradients(
    g: Any, needs: Any, x1: Any, x2: Any, x1_dims: tuple[Dim, ...], x2_dims: tuple[Dim, ...], result: Any
) -> tuple[Any, Any]:
    factor = aten.where(aten.eq(result, 0), 0, g / result)
    back, sums = (aten.transpose(x, -2, -1) for x in (factor, aten.sum(factor, (-2,), True)))
    return (
        _towards(factor, aten.sum(factor, (-1,), True), x1, x2, x2_dims[-2]) if needs[0] else None,
        _towards(back, sums, x2, x1, x1_dims[-2]) if needs[1] else None,
    )


def _towards(factor: Any, sums: Any, ends: Any, starts: Any, count: Dim) -> Any:
    """The sums over j of factor[i, j] * (ends[i] - starts[j]), as a product. Both are seen from the middle of the
    starts, so that little cancels where all are far from 0 and near each other. count: how many starts."""
    middle = aten.sum(starts, (-2,), True) / dm.maximum(count, 1)
    return (ends - middle) * sums - aten.matmul(factor, starts - middle)


define(
    "aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
    "The distances of all pairs of rows: [..., n, k], [..., m, k] -> [..., n, m]; 0 has the gradient 0.",
    type=_pairs,
    kernel=_euclidean,
    batch=_euclidean_batch,
    vjp=joint(("x1", "x2"), _euclidean_gradients),
    public=(),
    samples=draw(case(F(3, 4), F(2, 4)), case(F(2, 3, 2), F(2, 2, 2))),
    reference=lambda a, b: np.sqrt(np.sum((a[..., :, None, :] - b[..., None, :, :]) ** 2, -1)),
)

define(
    "aten::cdist(Tensor x1, Tensor x2, float p=2, str? compute_mode=None) -> Tensor",
    "The p-norms of the differences of all pairs of rows: [..., n, k], [..., m, k] -> [..., n, m].",
    precision="float32",
    decompose=_cdist,
    public=("weft",),
    samples=draw(case(F(3, 4), F(2, 4)), case(F(2, 3, 2), F(2, 2, 2), 1.0)),
    reference=lambda a, b, p, mode: np.sum(np.abs(a[..., :, None, :] - b[..., None, :, :]) ** p, -1) ** (1 / p),
)


def _renorm(self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    if self.ndim < 2:
        raise ShapeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    if isinstance(p, (int, float)) and p <= 0:
        raise ShapeError("renorm: non-positive-norm not supported")
    if isinstance(maxnorm, (int, float)) and maxnorm < 0:
        raise ShapeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    at = normalize_dim("renorm", dim, self.ndim)
    wide, dims = widened(self), [d for d in range(self.ndim) if d != at]
    is_over = aten.linalg_vector_norm(wide, p, dims, True) > maxnorm
    # of the slices that are cut alone: the norm of another, which may be NaN, has no part in its gradient
    norm = aten.linalg_vector_norm(aten.where(is_over, wide, 0), p, dims, True)
    factor = aten.where(is_over, maxnorm / (norm + 1e-7), 1)
    return self * cast(factor, self.dtype.to_real() if self.dtype.is_complex else self.dtype)


define(
    "aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    "The slices along dim scaled so that none has a p-norm above maxnorm.",
    decompose=_renorm,
    specialize={"p": lambda p: p <= 0, "maxnorm": lambda maxnorm: maxnorm < 0},  # refused
    lies=ROW_MAJOR,
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 2, 0, 1.5), case(F(2, 3, 2), 1, -1, 2.0)),
    reference=lambda x, p, dim, most: x * np.minimum(
        1,
        most / (
            np.sum(np.abs(x) ** p, tuple(d for d in range(x.ndim) if d != dim % x.ndim), keepdims=True) ** (1 / p)
            + 1e-7
        )),
)
