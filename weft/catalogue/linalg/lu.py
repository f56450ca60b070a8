"""LU factorizations with row exchanges: lu_factor, lu, lu_solve; the attempts that report instead of raising: inv_ex,
solve_ex, cholesky_ex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.failures import (
    cholesky_factors,
    no_row,
    not_definite,
    of_matrix,
    undefined_minors,
    zero_in_factor,
)
from weft.catalogue.linalg.singular import check_matrix, smaller
from weft.catalogue.linalg.square import (
    _adjoint,
    _as_vectors,
    _check_square,
    _cholesky_back,
    _cholesky_type,
    _is_vector,
)
from weft.catalogue.samples import D, F, case, draw
from weft.ops.batching import same
from weft.ops.layout import column_major
from weft.ops.op import NOT_DIFFERENTIABLE, Out, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import ShapeError, Unsupported
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


# ---- the factorization
def _factor_type(A: TensorType, pivot: bool, check_errors: bool) -> tuple[TensorType, TensorType, TensorType]:
    if not pivot:
        raise Unsupported(
            "linalg.lu_factor: pivot=False is not offered; without row exchanges a regular matrix may have no factors"
        )
    check_matrix("lu_factor", A)
    if not A.is_complete:
        return tensor_type(A.dtype, None), tensor_type(dt.int32, None), tensor_type(dt.int32, None)
    *batch, m, n = A.shape
    return A, tensor_type(dt.int32, (*batch, smaller(m, n)), A.device), tensor_type(dt.int32, tuple(batch), A.device)


def factor(A: Array, pivot: bool, check_errors: bool) -> tuple[Array, Array, Array]:
    """Column by column for all matrices of the batch: the greatest element comes up, the rows below are cleared."""
    m, n = A.shape[-2:]
    x = np.array(A.reshape(_count(A), m, n))
    which = np.arange(len(x))
    pivots = np.zeros((len(x), min(m, n)), np.int32)
    info = np.zeros(len(x), np.int32)
    for j in range(min(m, n)):
        top = j + np.argmax(_magnitude(x[:, j:, j]), 1)
        pivots[:, j] = top + 1
        x[which, j], x[which, top] = x[which, top], x[which, j].copy()
        head = x[:, j, j]
        info = np.where((head == 0) & (info == 0), j + 1, info)
        x[:, j + 1 :, j] /= np.where(head == 0, 1, head)[:, None]
        x[:, j + 1 :, j + 1 :] -= x[:, j + 1 :, j, None] * x[:, j, None, j + 1 :]
    if check_errors and info.any():
        first = int(np.argmax(info != 0))
        raise of_matrix(zero_in_factor(A), first, int(info[first]))
    return (
        x.reshape(A.shape), pivots.reshape(*A.shape[:-2], min(m, n)), np.asarray(info.reshape(A.shape[:-2]), np.int32)
    )


def _magnitude(x: Array) -> Array:
    """What decides which row comes up; of complex numbers the sum of both parts, as LAPACK has it."""
    return np.abs(x.real) + np.abs(x.imag) if np.iscomplexobj(x) else np.abs(x)


def _count(A: Array) -> int:
    return int(np.prod(A.shape[:-2]))


def _factor_back(gs: Sequence[Any], result0: Any, result1: Any) -> Any:
    """With A = P [L; L'] [U, U'], L and U square, and gradients of the same parts: of the square part of A, for tall
    matrices P (gL + L^-H (triu(gU U^H) - triu(L^H gL))) U^-H where L^H gL has all rows, for others
    P L^-H (gU + (tril(L^H gL, -1) - tril(gU U^H, -1)) U^-H) where gU U^H has all columns; the rows below are gL' U^-H,
    the columns beside are L^-H gU'."""
    m, n = result0.dims[-2], result0.dims[-1]
    k = smaller(m, n)
    lower, upper = _triangles(result0, k)
    g_lower, g_upper = aten.tril(aten.narrow(gs[0], -1, 0, k), -1), aten.triu(aten.narrow(gs[0], -2, 0, k))
    by_rows, by_columns = aten.matmul(_adjoint(lower), g_lower), aten.matmul(g_upper, _adjoint(upper))
    L, U = _adjoint(aten.narrow(lower, -2, 0, k)), _adjoint(aten.narrow(upper, -1, 0, k))
    if shape_env.less(n, m):
        inner = aten.linalg_solve_triangular(L, aten.triu(by_columns - by_rows), upper=True, unitriangular=True)
        both = aten.linalg_solve_triangular(U, g_lower + _below(inner, m - k), upper=False, left=False)
    else:
        inner = aten.linalg_solve_triangular(U, aten.tril(by_rows - by_columns, -1), upper=False, left=False)
        beside = aten.mT(_below(aten.mT(inner), n - k))
        both = aten.linalg_solve_triangular(L, g_upper + beside, upper=True, unitriangular=True)
    return aten.matmul(_permutation(result1, m, both.dtype), both)


def _triangles(LU: Any, k: Any) -> tuple[Any, Any]:
    """L [..., m, k] with ones on its diagonal, and U [..., k, n]."""
    lower = aten.tril(aten.narrow(LU, -1, 0, k), -1)
    return lower + aten.eye(LU.dims[-2], k, dtype=LU.dtype), aten.triu(aten.narrow(LU, -2, 0, k))


def _below(x: Any, rows: Any) -> Any:
    """x and so many rows of zeros."""
    return aten.constant_pad_nd(x, (0, 0, 0, rows))


define(
    "aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, "
    "Tensor info)",
    "Both triangles of an LU factorization in one matrix, the row that each row was exchanged with (from 1), "
    "and the first zero of U's diagonal (0: none).",
    type=_factor_type,
    kernel=factor,
    failure=zero_in_factor,
    lies=lambda A, *rest: (column_major(A.ndim), None, None),
    vjp={"A": _factor_back},
    batch=same,
    effect="raises",
    public=("linalg",),
    out=True,
    samples=draw(case(F(3, 3)), case(D(2, 4, 4))),
)


def pivot_rows(pivots: Array, rows: int) -> Array:
    """Which row of A each row of L U is."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1])), pivots.shape[-1])
    refused = np.argwhere((flat < 1) | (flat > rows))
    if len(refused):
        element, entry = refused[0].tolist()
        raise of_matrix(no_row(pivots, rows), element, entry + 1)
    order = np.tile(np.arange(rows), (len(flat), 1))
    which = np.arange(len(flat))
    for j in range(flat.shape[1]):
        other = flat[:, j].astype(np.int64) - 1
        order[which, j], order[which, other] = order[which, other], order[which, j].copy()
    return order.reshape(*pivots.shape[:-1], rows)


define(
    "aten::_lu_rows(Tensor pivots, int rows) -> Tensor",
    "Which row of the matrix each row of the product of its LU factors is.",
    type=lambda pivots, rows: tensor_type(
        dt.int64, None if pivots.dims is None else (*pivots.dims[:-1], rows), pivots.device
    ),
    kernel=pivot_rows,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    failure=no_row,
    public=(),
)


def _permutation(pivots: Any, rows: Any, dtype: Any) -> Any:
    order = aten._lu_rows(pivots, rows)
    return aten._to_copy(aten.eq(aten.unsqueeze(order, -2), aten.unsqueeze(aten._iota(rows), -1)), dtype=dtype)


def _check_pivots(name: str, LU: Any, pivots: Any, count: Any) -> None:
    wanted = (*LU.dims[:-2], count)
    if len(pivots.dims) != len(wanted) or any(
        not shape_env.equal(a, b) for a, b in zip(pivots.dims, wanted, strict=True)
    ):
        raise ShapeError(
            f"{name}: expected LU_pivots of shape {dims_text(wanted)}, one row number for each step of the "
            f"factorization of {dims_text(LU.dims)}, but got {dims_text(pivots.dims)}"
        )


def _unpacked(LU: Any, pivots: Any) -> tuple[Any, Any, Any]:
    check_matrix("lu_unpack", tensor_type(LU.dtype, tuple(LU.dims)))
    m, n = LU.dims[-2], LU.dims[-1]
    k = smaller(m, n)
    _check_pivots("lu_unpack", LU, pivots, k)
    return (_permutation(pivots, m, LU.dtype), *_triangles(LU, k))


define(
    "aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    "Both triangles of an LU factorization in one matrix, and the row that each row was exchanged with (from 1). "
    "Raises LinAlgError where U has a zero on its diagonal.",
    decompose=lambda A, pivot: aten.linalg_lu_factor_ex(A, pivot=pivot, check_errors=True)[:2], public=("linalg",),
    out=True,
    samples=draw(case(F(3, 3))),
)
define(
    "aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    (
        "A = P L U with a permutation P, a lower triangular L with ones on its diagonal, and an upper triangular U: "
        "A [..., m, n]."
    ),
    decompose=lambda A, pivot: _unpacked(*aten.linalg_lu_factor_ex(A, pivot=pivot)[:2]), public=("linalg",), out=True,
    samples=draw(case(F(3, 3))),
)
define(
    (
        "aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
        "-> (Tensor P, Tensor L, Tensor U)"
    ),
    "The factors P, L and U that lu_factor packs.", decompose=lambda LU, pivots, data, rows: _unpacked(LU, pivots),
    public=("weft",), out=True,
)


def _lu_solve(LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> Any:
    _check_square("lu_solve", tensor_type(LU.dtype, tuple(LU.dims)))
    _check_pivots("lu_solve", LU, pivots, LU.dims[-1])
    if not left:  # X A = B is A^H X^H = B^H
        return _adjoint(_lu_solve(LU, pivots, _adjoint(B), True, not adjoint))
    P = _permutation(pivots, LU.dims[-1], LU.dtype)
    if adjoint:
        half = aten.linalg_solve_triangular(_adjoint(LU), B, upper=False)
        whole = aten.linalg_solve_triangular(_adjoint(LU), half, upper=True, unitriangular=True)
        return aten.mT(aten.matmul(aten.mT(whole), aten.mT(P)))  # column by column, as all solutions lie
    half = aten.linalg_solve_triangular(LU, aten.matmul(_adjoint(P), B), upper=False, unitriangular=True)
    return aten.linalg_solve_triangular(LU, half, upper=True)


define("aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
       "The X with A X = B (or X A = B; or with A's adjoint), given lu_factor(A): B [..., n, k].",
       decompose=_lu_solve, public=("linalg",), out=True)


# ---- attempts that report
def _solve_ex(A: Any, B: Any, left: bool) -> tuple[Any, Any]:
    LU, pivots, info = aten.linalg_lu_factor_ex(A)
    if not _is_vector(A, B):
        return _lu_solve(LU, pivots, B, left, False), info
    if not left:
        raise ShapeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False")
    return _as_vectors(_lu_solve(LU, pivots, aten.unsqueeze(B, -1), True, False)), info


def _inv_ex(A: Any) -> tuple[Any, Any]:
    _check_square("inv", tensor_type(A.dtype, tuple(A.dims)))
    LU, pivots, info = aten.linalg_lu_factor_ex(A)
    return _lu_solve(LU, pivots, aten.expand_as(aten.eye(A.dims[-1], dtype=A.dtype), A), True, False), info


define(
    (
        "aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, "
        "Tensor info)"
    ),
    (
        "linalg.solve that raises nothing for a singular matrix: `info` says which element of U's diagonal is 0 "
        "(0: none is)."
    ),
    decompose=lambda A, B, left, check_errors: _solve_ex(A, B, left), public=("linalg",), out=True,
    samples=draw(case(D(3, 3), F(3, 2)), case(D(2, 2), F(2))),
)
define(
    "aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    (
        "linalg.inv that raises nothing for a singular matrix: `info` says which element of U's diagonal is 0 "
        "(0: none is)."
    ),
    precision="float32",
    decompose=lambda A, check_errors: _inv_ex(A), public=("linalg",), out=True, samples=draw(case(D(3, 3))),
)


def _attempted_cholesky(x: Array, upper: bool, check_errors: bool) -> tuple[Array, Array]:
    """NaN where a matrix has no factor; info: the order of the first leading minor that is not positive definite."""
    n = x.shape[-1]
    flat = x.reshape(_count(x), n, n)
    source = np.swapaxes(flat, -2, -1).conj() if upper else flat
    info = np.zeros(len(flat), np.int32)
    out = cholesky_factors(source)
    if out is None:
        for element, order in undefined_minors(source):
            info[element] = order
            if check_errors:
                raise of_matrix(not_definite("cholesky_ex")(x), element, order)
        out = np.full_like(flat, np.nan)
        out[info == 0] = np.linalg.cholesky(source[info == 0])
    out = np.swapaxes(out, -2, -1).conj() if upper else out
    return np.ascontiguousarray(out).reshape(x.shape), np.asarray(info.reshape(x.shape[:-2]), np.int32)


define(
    "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    "linalg.cholesky that raises nothing: `info` is the order of the first leading minor that is not positive "
    "definite (0: none), and L is NaN there.",
    precision="float32",
    type=lambda self, upper, check_errors: (
        _cholesky_type(self, upper), tensor_type(dt.int32, None if self.dims is None else self.shape[:-2], self.device)
    ),
    kernel=_attempted_cholesky,
    failure=not_definite("cholesky_ex"),
    lies=lambda self, *rest: (column_major(self.ndim), None),
    vjp={"self": lambda gs, result0, upper: _cholesky_back(gs[0], result0, upper)},
    batch=same,
    effect="raises",
    public=("linalg",),
    out=True,
)
define(
    "aten::lu(Tensor self, bool pivot=True, bool get_infos=False) -> (Tensor LU, Tensor pivots)",
    "linalg.lu_factor, by its older name; with get_infos linalg.lu_factor_ex.",
    decompose=lambda self, pivot, get_infos: (
        aten.linalg_lu_factor_ex(self, pivot=pivot) if get_infos else aten.linalg_lu_factor(self, pivot=pivot)
    ),
    more=("get_infos",),
    out=Out("any"),
    samples=draw(case(F(3, 3))),
)
define(
    "aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    "linalg.lu_solve, by its older name: the X with A X = self.",
    precision="float32",
    decompose=lambda self, LU, pivots: _lu_solve(LU, pivots, self, True, False), out=True,
)
