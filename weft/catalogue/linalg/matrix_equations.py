"""What follows from solving and factoring: condition numbers, inverses of tensors,
scalar products of vectors in batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.matmul import conjugate
from weft.catalogue.linalg.square import _check_square as check_square
from weft.catalogue.samples import D, F, case, draw
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.support.errors import ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.tensor_type import tensor_type

define(
    "aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", "The sum of conj(x) * y along a dim.",
    precision="lower",
    decompose=lambda x, y, dim: aten.sum(conjugate(x) * y, dim), public=("linalg",), out=True,
    samples=draw(case(F(2, 3), F(3))), reference=lambda x, y, dim: np.sum(np.conj(x) * y, dim),
)


def _cond(self: Any, p: Any) -> Any:
    if p in (None, 2, -2):
        values = aten.linalg_svdvals(self)
        most, least = aten.select(values, -1, 0), aten.select(values, -1, -1)
        return least / most if p == -2 else most / least
    inverse, info = aten.linalg_inv_ex(self)
    return aten.where(
        aten.eq(info, 0), aten.linalg_matrix_norm(self, p) * aten.linalg_matrix_norm(inverse, p), math.inf
    )


define(
    "aten::linalg_cond(Tensor self, Object? p=None) -> Tensor",
    (
        "The condition number: the norm of a matrix times that of its inverse; by its singular values for p=2 "
        "(the default) and -2."
    ),
    precision="float32",
    decompose=_cond, public=("linalg",), out=Out("castable"), samples=draw(case(D(3, 3)), case(D(3, 3), "fro")),
    reference=lambda x, p: np.linalg.cond(x, p),
)


def _tensorinv(self: Any, ind: int) -> Any:
    if ind <= 0:
        raise ShapeError("Expected a strictly positive integer for 'ind'")
    rows, columns = self.dims[:ind], self.dims[ind:]
    if not shape_env.equal(dm.product(rows), dm.product(columns)):
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {dm.product(columns)} != {dm.product(rows)}"
        )
    return aten.reshape(aten.linalg_inv(aten.reshape(self, (dm.product(rows), dm.product(columns)))), (*columns, *rows))


def _tensorsolve(self: Any, other: Any, dims: Sequence[int] | None) -> Any:
    if dims:
        moved = [normalize_dim("tensorsolve", d, self.ndim) for d in dims]
        self = aten.permute(self, (*(d for d in range(self.ndim) if d not in moved), *moved))
    shape = self.dims[other.ndim :]
    if not shape_env.equal(dm.product(shape), dm.product(other.dims)):
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {self.dims} and {other.dims}"
        )
    return aten.reshape(
        aten.linalg_solve(aten.reshape(self, (-1, dm.product(shape))), aten.reshape(other, (-1,))), shape
    )


define(
    "aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
    "The inverse of a tensor as a matrix of its first `ind` dims by its others.",
    precision="float32", decompose=_tensorinv,
    public=("linalg",), out=Out("castable"), samples=draw(case(F(4, 2, 2), 1)),
    reference=lambda x, ind: np.linalg.tensorinv(x, ind),
)
define(
    "aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    "The X with tensordot(A, X, X.ndim) == B.",
    precision="float32", decompose=_tensorsolve, public=("linalg",), out=Out("castable"),
    samples=draw(case(F(2, 3, 6), F(2, 3))), reference=lambda a, b, dims: np.linalg.tensorsolve(a, b, dims),
)


def _cholesky_inverse(self: Any, upper: bool) -> Any:
    check_square("cholesky_inverse", tensor_type(self.dtype, tuple(self.dims)))
    return aten.cholesky_solve(aten.expand_as(aten.eye(self.dims[-1], dtype=self.dtype), self), self, upper)


define(
    "aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    "The inverse of L L^H (U^H U with upper), given the factor.",
    precision="float32", decompose=_cholesky_inverse, out=Out("castable"),
    samples=draw(case(D(3, 3))),
    reference=lambda x, upper: np.linalg.inv(
        np.triu(x).conj().T @ np.triu(x) if upper else np.tril(x) @ np.tril(x).conj().T
    ),
)


def _svd(self: Any, some: bool, compute_uv: bool) -> tuple[Any, Any, Any]:
    if not compute_uv:
        values = aten.linalg_svdvals(self)
        m, n = self.dims[-2:]
        return aten.new_zeros(self, (*self.dims[:-2], m, m)), values, aten.new_zeros(self, (*self.dims[:-2], n, n))
    U, values, adjoint = aten.linalg_svd(self, full_matrices=not some)
    return U, values, conjugate(aten.transpose(adjoint, -2, -1))


define(
    "aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    "linalg.svd by its older name: self = U diag(S) V^H, and it gives V itself; thin factors unless `some` is False.",
    precision="float32",
    decompose=_svd, out=True, samples=draw(case(F(4, 3))),
)
