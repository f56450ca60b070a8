"""Orthogonal matrices as products of Householder's reflections: geqrf, householder_product (orgqr) and ormqr.

With the vectors as columns of V (ones on its diagonal, zeros above) and factors tau, H1 H2 ... Hk = I - V T V^H, where
T = D (I + S D)^-1, D = diag(tau) and S the part of V^H V above its diagonal. Source: Schreiber and Van Loan, A
storage-efficient WY representation for products of Householder transformations, SIAM J. Sci. Stat. Comput. 10 (1989);
written so that a factor may be 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import no_formula
from weft.catalogue.linalg.matmul import conjugate
from weft.catalogue.linalg.singular import smaller
from weft.catalogue.linalg.square import _adjoint
from weft.catalogue.samples import D, F, case, draw
from weft.ops.batching import same
from weft.ops.layout import column_major
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, same_dims
from weft.support.errors import DTypeError, NotForDType, ShapeError
from weft.types import shape_env
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
_DTYPES = ("float32", "float64", "complex64", "complex128")


def _check_dtype(routine: str, dtype: Any) -> None:
    if dtype is not None and dtype.name not in _DTYPES:
        raise NotForDType(f'"{routine}_cpu" not implemented for {dtype}')


def _by_columns(x: Any) -> Any:
    """A copy that lies column by column, as LAPACK's results do."""
    return aten.mT(aten._contiguous_copy(aten.mT(x)))


# ---- geqrf


def _geqrf_type(self: TensorType) -> tuple[TensorType, TensorType]:
    if self.dims is not None and self.ndim < 2:
        raise ShapeError("torch.geqrf: input must have at least 2 dimensions.")
    _check_dtype("geqrf", self.dtype)
    if not self.is_complete:
        return tensor_type(self.dtype, None), tensor_type(self.dtype, None)
    *batch, m, n = self.shape
    return self, tensor_type(self.dtype, (*batch, smaller(m, n)), self.device)


def _geqrf(A: Array) -> tuple[Array, Array]:
    packed, tau = np.linalg.qr(A, "raw")
    return np.array(np.swapaxes(packed, -2, -1), A.dtype, order="C"), np.asarray(tau, A.dtype)


define(
    "aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)",
    "A QR factorization as LAPACK packs it: R in the upper triangle, the vectors of the reflections below it, and "
    "their factors tau: self [..., m, n], tau [..., min(m, n)].",
    type=_geqrf_type,
    kernel=_geqrf,
    lies=lambda self: (column_major(self.ndim), None),
    vjp=no_formula("geqrf", "self"),
    batch=same,
    out=Out("castable"),
    samples=draw(case(F(4, 3)), case(F(2, 2, 3))),
    reference=lambda A: _packed(A),
)


def _packed(A: Array) -> tuple[Array, Array]:
    """An oracle for real matrices: one reflection for each column."""
    A = np.array(A)
    flat = A.reshape(-1, *A.shape[-2:])
    count = min(A.shape[-2:])
    tau = np.zeros((len(flat), count))
    for x, factors in zip(flat, tau, strict=True):
        for j in range(count):
            size = np.linalg.norm(x[j:, j])
            if np.any(x[j + 1 :, j]):
                top = -np.copysign(size, x[j, j])
                factors[j] = (top - x[j, j]) / top
                v = np.concatenate([[1.0], x[j + 1 :, j] / (x[j, j] - top)])
                x[j:, j:] -= factors[j] * np.outer(v, v @ x[j:, j:])
                x[j + 1 :, j] = v[1:]
    return flat.reshape(A.shape), tau.reshape(*A.shape[:-2], count)


# ---- their product


def _check_tau(name: str, input: Any, tau: Any) -> None:
    if input.ndim - tau.ndim != 1:
        raise ShapeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if not same_dims(input.dims[:-2], tau.dims[:-1]):
        raise ShapeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{dims_text(tau.dims[:-1])}"
        )


def _vectors(input: Any, count: Any) -> Any:
    """V: the first `count` columns below the diagonal, and ones on it."""
    rows = input.dims[-2]
    ones = aten.eye(rows, count, dtype=input.dtype)
    return aten.tril(aten.narrow(input, -1, 0, count), -1) + ones


def _times_middle(V: Any, tau: Any, x: Any, adjoint: bool) -> Any:
    """T x, or T^H x."""
    factors = aten.unsqueeze(tau, -2)  # of columns
    upper = aten.triu(aten.matmul(_adjoint(V), V), 1) * factors
    column = aten.unsqueeze(tau, -1)
    if adjoint:
        return aten.linalg_solve_triangular(_adjoint(upper), conjugate(column) * x, upper=False, unitriangular=True)
    return column * aten.linalg_solve_triangular(upper, x, upper=True, unitriangular=True)


def _householder_product(input: Any, tau: Any) -> Any:
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise ShapeError(f"{name}: input must have at least 2 dimensions.")
    m, n, k = input.dims[-2], input.dims[-1], tau.dims[-1] if tau.ndim else 1
    if shape_env.less(m, n):
        raise ShapeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if shape_env.less(n, k):
        raise ShapeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_tau(name, input, tau)
    if tau.dtype is not input.dtype:
        raise DTypeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {input.dtype}")
    _check_dtype("orgqr", input.dtype)
    V = _vectors(input, k)
    inner = _times_middle(V, tau, _adjoint(aten.narrow(V, -2, 0, n)), False)
    return _by_columns(aten.eye(m, n, dtype=input.dtype) - aten.matmul(V, inner))


def _product_oracle(input: Array, tau: Array) -> Array:
    """One reflection after the other."""
    m, n = input.shape[-2:]
    flat, factors = input.reshape(-1, m, n), tau.reshape(-1, tau.shape[-1])
    out = np.zeros(flat.shape, input.dtype)
    for i, (x, t) in enumerate(zip(flat, factors, strict=True)):
        Q = np.eye(m, dtype=input.dtype)
        for j in range(len(t)):
            v = np.concatenate([np.zeros(j), [1.0], x[j + 1 :, j]])
            Q = Q @ (np.eye(m) - t[j] * np.outer(v, v.conj()))
        out[i] = Q[:, :n]
    return out.reshape(input.shape)


for _name, _public, _names in (
    ("linalg_householder_product", ("linalg",), "Tensor input, Tensor tau"),
    ("orgqr", ("weft", "Tensor"), "Tensor self, Tensor input2"),
):
    define(
        f"aten::{_name}({_names}) -> Tensor",
        "The first n columns of a product of reflections, as geqrf packs them: input [..., m, n] with m >= n, "
        "tau [..., k] with k <= n.",
        decompose=_householder_product,
        public=_public,
        out=Out("castable"),
        samples=draw(case(F(4, 3), F(3)), case(F(2, 3, 3), F(2, 2))),
        reference=_product_oracle,
    )


def _ormqr(self: Any, tau: Any, other: Any, left: bool, transpose: bool) -> Any:
    name = "torch.ormqr"
    for what, x in (("input", self), ("other", other)):
        if x.ndim < 2:
            raise ShapeError(f"{name}: {what} must have at least 2 dimensions.")
    side = -2 if left else -1
    if not shape_env.equal(other.dims[side], self.dims[-2]):
        raise ShapeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if not shape_env.less(tau.dims[-1] if tau.ndim else 1, smaller(other.dims[side], self.dims[-1]) + 1):
        raise ShapeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    _check_tau(name, self, tau)
    if not same_dims(self.dims[:-2], other.dims[:-2]):
        raise ShapeError(
            f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
            f"{dims_text(other.dims[:-2])}"
        )
    for what, x in (("tau", tau), ("other", other)):
        if x.dtype is not self.dtype:
            raise DTypeError(
                f"{name}: Expected input and {what} to have the same dtype, but input has dtype {self.dtype} and "
                f"{what} has dtype {x.dtype}"
            )
    _check_dtype("ormqr", self.dtype)
    V = _vectors(self, tau.dims[-1])
    if left:
        return _by_columns(other - aten.matmul(V, _times_middle(V, tau, aten.matmul(_adjoint(V), other), transpose)))
    # x Q = (Q^H x^H)^H
    turned = _adjoint(other)
    inner = _times_middle(V, tau, aten.matmul(_adjoint(V), turned), not transpose)
    return _by_columns(_adjoint(turned - aten.matmul(V, inner)))


def _ormqr_oracle(self: Array, tau: Array, other: Array, left: bool, transpose: bool) -> Array:
    m = self.shape[-2]
    wide = np.concatenate([self, np.zeros((*self.shape[:-1], max(m - self.shape[-1], 0)))], -1)[..., :m]
    Q = _product_oracle(wide, tau)
    Q = np.swapaxes(Q.conj(), -2, -1) if transpose else Q
    return Q @ other if left else other @ Q


define(
    "aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    "A matrix times the whole product Q of reflections, as geqrf packs them: Q input3, Q^H input3, or from the right. "
    "self [..., m, n], input2 (tau) [..., k].",
    decompose=_ormqr,
    out=True,
    samples=draw(
        case(F(4, 3), F(3), F(4, 2)), case(F(2, 3, 2), F(2, 2), F(2, 4, 3), False),
        case(F(3, 3), F(2), F(3, 3), True, True),
    ),
    reference=_ormqr_oracle,
)

# ---- by their older names


def _triangular_solve(self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> tuple[Any, Any]:
    for what, x in (("b", self), ("A", A)):
        if x.ndim < 2:
            raise ShapeError(
                f"torch.triangular_solve: Expected {what} to have at least 2 dimensions, but it has {x.ndim} "
                "dimensions instead"
            )
    n, k = A.dims[-2], A.dims[-1]
    if not shape_env.equal(n, k):
        raise ShapeError(f"A must be batches of square matrices, but they are {n} by {k} matrices")
    if not shape_env.equal(n, self.dims[-2]):
        raise ShapeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {n} by {n} but each b matrix is "
            f"{self.dims[-2]} by {self.dims[-1]}"
        )
    if self.dtype is not A.dtype:
        raise DTypeError(
            f"Expected b and A to have the same dtype, but found b of type {self.dtype} and A of type {A.dtype} "
            "instead."
        )
    turned = aten.transpose(A, -2, -1) if transpose else A
    X = aten.linalg_solve_triangular(turned, self, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return X, _by_columns(aten.expand(A, (*X.dims[:-2], n, n)))


define(
    "aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) "
    "-> (Tensor solution, Tensor cloned_coefficient)",
    "linalg.solve_triangular, by its older name: the X with A X = self (or A^T X = self), and a copy of A.",
    decompose=_triangular_solve,
    out=True,
    samples=draw(case(F(3, 2), D(3, 3)), case(F(2, 2), D(3, 2, 2), False, True, True)),
    reference=lambda b, A, upper, transpose, unit: _solved(b, A, upper, transpose, unit),
)


def _solved(b: Array, A: Array, upper: bool, transpose: bool, unit: bool) -> tuple[Array, Array]:
    part = np.triu(A) if upper else np.tril(A)
    if unit:
        part = np.where(np.eye(A.shape[-1], dtype=bool), 1, part)
    X = np.linalg.solve(np.swapaxes(part, -2, -1) if transpose else part, b)
    return X, np.broadcast_to(A, (*X.shape[:-2], *A.shape[-2:]))


define(
    "aten::cholesky(Tensor self, bool upper=False) -> Tensor",
    "linalg.cholesky, by its older name. Raises LinAlgError.",
    decompose=lambda self, upper: aten.linalg_cholesky(self, upper=upper),
    out=Out("castable"),
    samples=draw(case(D(3, 3)), case(D(2, 2, 2), True)),
    reference=lambda A, upper: np.swapaxes(np.linalg.cholesky(A), -2, -1) if upper else np.linalg.cholesky(A),
)
