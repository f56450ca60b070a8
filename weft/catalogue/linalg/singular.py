"""Singular values: svd and svdvals."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.linalg.square import _adjoint, _iterated
from weft.ops.batching import same
from weft.ops.layout import column_major
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


def check_matrix(name: str, A: TensorType) -> None:
    """A must be matrices of a differentiable dtype that LAPACK has. Raises DTypeError, ShapeError."""
    if A.dtype is not None and A.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise DTypeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {A.dtype}")
    if A.dims is not None and A.ndim < 2:
        raise ShapeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")


def smaller(a: Dim, b: Dim) -> Dim:
    """The smaller of two sizes; a question about symbols becomes a guard."""
    return a if shape_env.less(a, b) else b


def _svd_type(A: TensorType, full_matrices: bool) -> tuple[TensorType, TensorType, TensorType]:
    check_matrix("svd", A)
    real = None if A.dtype is None else A.dtype.to_real() if A.dtype.is_complex else A.dtype
    if not A.is_complete:
        return (tensor_type(A.dtype, None), tensor_type(real, None), tensor_type(A.dtype, None))
    *batch, m, n = A.shape
    k = smaller(m, n)
    u, v = (m, n) if full_matrices else (k, k)
    return (
        tensor_type(A.dtype, (*batch, m, u), A.device), tensor_type(real, (*batch, k), A.device),
        tensor_type(A.dtype, (*batch, v, n), A.device),
    )


def _svd(A: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    u, s, v = _iterated("svd", A, lambda: np.linalg.svd(A, full_matrices))
    return np.ascontiguousarray(u), np.ascontiguousarray(s), np.ascontiguousarray(v)


def _as(x: Any, like: Any) -> Any:
    return aten.to(x, like.dtype) if x.dtype is not like.dtype else x


def _columns(x: Any) -> Any:
    """Numbers per column, to multiply matrices by."""
    return aten.unsqueeze(x, -2)


def _gaps(S: Any) -> Any:
    """s_j**2 - s_i**2 at (i, j), and 1 on the diagonal."""
    square = S * S
    gaps = aten.unsqueeze(square, -2) - aten.unsqueeze(square, -1)
    return gaps + aten.diag_embed(aten.ones_like(S))


def _skew(x: Any) -> Any:
    return x - _adjoint(x)


def _svd_back(gs: Any, A_dims: Any, result: Any, result1: Any, result2: Any, full_matrices: bool) -> Any:
    """U (skew(U^H gU)/E S + diag(gS) + S skew(V^H gV)/E) V^H, and what lies outside the spans of U and V for matrices
    that are not square."""
    gU, gS, gVh = gs
    m, n = A_dims[-2:]
    k = result1.dims[-1]
    U, S, Vh = aten.narrow(result, -1, 0, k), result1, aten.narrow(result2, -2, 0, k)
    if gU is not None:
        gU = aten.narrow(gU, -1, 0, k)
    if gVh is not None:
        gVh = aten.narrow(gVh, -2, 0, k)
    if gU is None and gVh is None:
        return aten.matmul(U * _columns(_as(gS, result)), Vh)
    s = _as(S, result)
    inner = None
    gaps = _as(_gaps(S), result)
    if gU is not None:
        inner = _skew(aten.matmul(_adjoint(U), gU)) / gaps * _columns(s)
    if gVh is not None:
        right = aten.unsqueeze(s, -1) * (_skew(aten.matmul(Vh, _adjoint(gVh))) / gaps)
        inner = right if inner is None else inner + right
    if result.dtype.is_complex and gU is not None:  # the phase that U and V share
        phase = aten.diagonal(_skew(aten.matmul(_adjoint(U), gU)), 0, -2, -1) / (2 * s)
        inner = inner - aten.diag_embed(aten.diagonal(inner, 0, -2, -1)) + aten.diag_embed(phase)
    if gS is not None:
        inner = inner + aten.diag_embed(_as(gS, result))
    out = aten.matmul(aten.matmul(U, inner), Vh)
    if gU is not None and not shape_env.less(m, n) and not shape_env.equal(m, n):
        scaled = gU / _columns(s)
        out = out + aten.matmul(scaled - aten.matmul(U, aten.matmul(_adjoint(U), scaled)), Vh)
    if gVh is not None and shape_env.less(m, n):
        scaled = gVh / aten.unsqueeze(s, -1)
        out = out + aten.matmul(U, scaled - aten.matmul(aten.matmul(scaled, _adjoint(Vh)), Vh))
    return out


define(
    "aten::linalg_svd(Tensor A, bool full_matrices=True) -> (Tensor U, Tensor S, Tensor Vh)",
    "Singular value decomposition: A = U diag(S) Vh, S descending. Gradients through U and Vh need distinct "
    "singular values.",
    precision="float32",
    type=_svd_type,
    kernel=_svd,
    lies=lambda A, full_matrices: (column_major(A.ndim), None, column_major(A.ndim)),
    vjp={"A": _svd_back},
    batch=same,
    public=("linalg",),
    out=True,
    samples=lambda rng: [((rng.normal(size=(4, 3)), False), {}), ((rng.normal(size=(2, 3, 3)), True), {})],
    reference=lambda A, full_matrices: tuple(np.linalg.svd(A, full_matrices)),
)


def _svdvals_type(A: TensorType) -> TensorType:
    check_matrix("svdvals", A)
    return _svd_type(A, False)[1]


define(
    "aten::linalg_svdvals(Tensor A) -> Tensor",
    "The singular values of matrices, descending.",
    precision="float32",
    type=_svdvals_type,
    decompose=lambda A: aten.linalg_svd(A, False)[1],
    public=("linalg",),
    out=True,
    samples=lambda rng: [((rng.normal(size=(4, 3)),), {}), ((rng.normal(size=(2, 2, 5)),), {})],
    reference=lambda A: np.linalg.svd(A, compute_uv=False),
)
