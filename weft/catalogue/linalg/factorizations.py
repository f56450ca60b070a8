"""Factorizations of matrices other than Cholesky's and the singular values: QR, and the eigenvalues
of Hermitian matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.lu import factor, pivot_rows
from weft.catalogue.linalg.singular import check_matrix, smaller
from weft.catalogue.linalg.square import _adjoint, _check_square, _iterated, solve_triangular
from weft.catalogue.samples import D, F, case, draw
from weft.ops.batching import same
from weft.ops.layout import column_major
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import ShapeError, Unsupported
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- QR

_MODES = ("reduced", "complete", "r")


def _qr_type(A: TensorType, mode: str) -> tuple[TensorType, TensorType]:
    if mode not in _MODES:
        raise ShapeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    check_matrix("qr", A)
    if not A.is_complete:
        return tensor_type(A.dtype, None), tensor_type(A.dtype, None)
    *batch, m, n = A.shape
    k = m if mode == "complete" else smaller(m, n)
    q: tuple[Dim, ...] = (0,) if mode == "r" else (*batch, m, k)
    return tensor_type(A.dtype, q, A.device), tensor_type(A.dtype, (*batch, k, n), A.device)


def _qr(A: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return np.zeros((0,), A.dtype), np.linalg.qr(A, "r")
    Q, R = np.linalg.qr(A, mode)  # type: ignore[call-overload]
    return np.ascontiguousarray(Q), np.ascontiguousarray(R)


def _half_diagonal(x: Any) -> Any:
    """The matrix with half its diagonal."""
    return x - aten.diag_embed(aten.diagonal(x, 0, -2, -1)) * 0.5


def _over_adjoint(x: Any, R: Any) -> Any:
    """x R^-H for an upper triangular R."""
    return aten.linalg_solve_triangular(_adjoint(R), x, upper=False, left=False)


def _qr_back(gs: Sequence[Any], A_dims: Any, result0: Any, result1: Any, mode: str) -> Any:
    """Tall: (gQ + Q M) R^-H, M Hermitian with the upper triangle of gR R^H - Q^H gQ.
    Wide: the same for the leading square, and Q gR."""
    gQ, gR = gs
    Q, R = result0, result1
    if mode == "r":
        raise Unsupported(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    m, n = A_dims[-2:]
    wide = shape_env.less(m, n)
    if mode == "complete" and not wide and not shape_env.equal(m, n):
        raise Unsupported(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    return _wide_back(gQ, gR, Q, R) if wide else _tall_back(gQ, gR, Q, R)


def _tall_back(gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    inner = None if gR is None else aten.matmul(gR, _adjoint(R))
    if gQ is not None:
        turned = aten.matmul(_adjoint(Q), gQ)
        inner = -turned if inner is None else inner - turned
    upper = aten.triu(inner)
    both = upper + _adjoint(upper)
    diagonal = aten.diagonal(both, 0, -2, -1)
    real = aten.to(aten.real(diagonal), both.dtype) if both.dtype.is_complex else diagonal
    out = aten.matmul(Q, both - aten.diag_embed(real) * 0.5)
    return _over_adjoint(out if gQ is None else out + gQ, R)


def _wide_back(gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    m, n = R.dims[-2], R.dims[-1]
    inner = None if gQ is None else aten.matmul(_adjoint(Q), gQ)
    if gR is not None:
        pulled = aten.matmul(gR, _adjoint(R))
        inner = -pulled if inner is None else inner - pulled
    skew = aten.tril(inner - _adjoint(inner))
    if skew.dtype.is_complex:
        skew = _half_diagonal(skew)
    square = aten.matmul(Q, _over_adjoint(skew, aten.narrow(R, -1, 0, m)))
    out = aten.constant_pad_nd(square, (0, n - m))
    return out if gR is None else out + aten.matmul(Q, gR)


define(
    'aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
    "A = Q R with Q orthonormal and R upper triangular: A [..., m, n]; mode reduced, complete, or r (R alone).",
    precision="float32",
    type=_qr_type,
    kernel=_qr,
    lies=lambda A, mode: (None if mode == "r" else column_major(A.ndim), column_major(A.ndim)),
    vjp={"A": _qr_back},
    batch=same,
    public=("linalg",),
    out=True,
    samples=draw(case(F(4, 3)), case(F(2, 2, 4), "complete")),
    reference=lambda A, mode: tuple(np.linalg.qr(A, mode)),
)
define(
    "aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
    "linalg.qr, complete where some is False.",
    precision="float32",
    decompose=lambda self, some: aten.linalg_qr(self, "reduced" if some else "complete"),
    out=True,
)

# ---- eigenvalues of Hermitian matrices


_TRIANGLES: dict[str, Any] = {"L": "L", "U": "U", "l": "L", "u": "U"}


def _check_triangle(UPLO: str) -> None:
    if UPLO not in _TRIANGLES:
        raise ShapeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")


def _eigh_type(self: TensorType, UPLO: str) -> tuple[TensorType, TensorType]:
    _check_square("eigh", self)
    _check_triangle(UPLO)
    real = None if self.dtype is None else self.dtype.to_real() if self.dtype.is_complex else self.dtype
    if not self.is_complete:
        return tensor_type(real, None), tensor_type(self.dtype, None)
    return tensor_type(real, self.shape[:-1], self.device), self


def _eigh(A: Array, UPLO: str) -> tuple[Array, Array]:
    values, vectors = _iterated("eigh", A, lambda: np.linalg.eigh(A, _TRIANGLES[UPLO]))
    return np.ascontiguousarray(values), np.ascontiguousarray(vectors)


def _eigh_back(gs: Sequence[Any], self_dtype: Any, result0: Any, result1: Any) -> Any:
    """V (skew(V^H gV) / E + diag(gL)) V^H with E_ij = l_j - l_i, which is Hermitian, as what moves the matrix is:
    V turns by skew-Hermitian matrices alone. Gradients through V need distinct eigenvalues."""
    gL, gV = gs
    values, V = result0, result1
    if gV is None:
        return aten.matmul(V * aten.unsqueeze(aten.to(gL, self_dtype), -2), _adjoint(V))
    gaps = aten.unsqueeze(values, -2) - aten.unsqueeze(values, -1) + aten.diag_embed(aten.ones_like(values))
    turned = aten.matmul(_adjoint(V), gV)
    inner = (turned - _adjoint(turned)) * 0.5 / gaps
    inner = inner - aten.diag_embed(aten.diagonal(inner, 0, -2, -1))
    if gL is not None:
        inner = inner + aten.diag_embed(aten.to(gL, self_dtype))
    return aten.matmul(V, aten.matmul(inner, _adjoint(V)))


define(
    'aten::linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
    "The eigenvalues, ascending, and eigenvectors of Hermitian matrices [..., n, n], of which one triangle is read. "
    "Raises LinAlgError.",
    precision="float32",
    type=_eigh_type,
    kernel=_eigh,
    lies=lambda self, UPLO: (None, column_major(self.ndim)),
    vjp={"self": _eigh_back},
    batch=same,
    effect="raises",
    public=("linalg",),
    out=True,
    samples=draw(case(D(3, 3)), case(D(2, 2, 2), "U")),
    reference=lambda A, UPLO: tuple(np.linalg.eigh(A, UPLO)),
)
define(
    'aten::linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor',
    "The eigenvalues of Hermitian matrices, ascending.",
    precision="float32",
    decompose=lambda self, UPLO: aten.linalg_eigh(self, UPLO)[0],
    public=("linalg",),
    out=True,
    samples=draw(case(D(3, 3))),
    reference=lambda A, UPLO: np.linalg.eigvalsh(A, UPLO),
)

# ---- determinant


def _det_type(A: TensorType) -> TensorType:
    _check_square("det", A)
    return A.with_dims(A.shape[:-2]) if A.is_complete else tensor_type(A.dtype, None)


def _adjugate_type(A: TensorType) -> TensorType:
    _check_square("det", A)
    return A


def _adjugate(A: Array) -> Array:
    """With P A = L U it is det(P) adj(U) L^-1 P. Nothing is divided by U's diagonal, so that singular matrices have
    one: the adjugate of [[u, r], [0, V]] is [[det(V), -r adj(V)], [0, u adj(V)]]."""
    LU, pivots, _ = factor(A, True, False)
    n = A.shape[-1]
    P = np.asarray(pivot_rows(pivots, n)[..., None] == np.arange(n), A.dtype)
    adjugate, det = np.zeros_like(LU), np.ones(A.shape[:-2], A.dtype)
    for i in range(n - 1, -1, -1):
        inner, u = adjugate[..., i + 1 :, i + 1 :], LU[..., i, i]
        adjugate[..., i, i + 1 :] = -np.matmul(LU[..., i : i + 1, i + 1 :], inner)[..., 0, :]
        adjugate[..., i, i] = det
        inner *= u[..., None, None]
        det = det * u
    sign = np.where((pivots != np.arange(1, n + 1)).sum(-1) % 2, -1, 1).astype(A.dtype)
    out = np.matmul(adjugate, solve_triangular(LU, P, False, True, True))
    return np.asarray(out * sign[..., None, None], A.dtype)


def _adjugate_back(g: Any, A: Any, result: Any) -> Any:
    """d adj = tr(A^-1 dA) adj - A^-1 dA adj; A must be regular."""
    inner = aten.matmul(g, _adjoint(result))
    trace = aten.sum(aten.diagonal(inner, 0, -2, -1), -1, True)
    rest = aten.diag_embed(aten.expand(trace, inner.dims[:-1])) - inner
    return aten.matmul(_adjoint(aten.linalg_inv(A)), rest)


define(
    "aten::_adjugate(Tensor A) -> Tensor",
    "The adjugate, det(A) A^-1, also of singular matrices: A [..., n, n].",
    type=_adjugate_type,
    kernel=_adjugate,
    vjp={"A": _adjugate_back},
    batch=same,
    public=(),
    samples=draw(case(D(3, 3)), case(D(2, 2, 2))),
    reference=lambda A: np.linalg.inv(A) * np.linalg.det(A)[..., None, None],
)

for _name, _public in (("linalg_det", ("linalg",)), ("det", ("weft", "Tensor"))):
    define(
        f"aten::{_name}(Tensor A) -> Tensor",
        "The determinant: A [..., n, n] -> [...].",
        type=_det_type,
        kernel=lambda A: np.asarray(np.linalg.det(A), A.dtype),
        vjp={"A": lambda g, A: aten.unsqueeze(aten.unsqueeze(g, -1), -1) * _adjoint(aten._adjugate(A))},
        batch=same,
        public=_public,
        out=_name == "linalg_det",
        samples=draw(case(D(3, 3)), case(F(2, 3, 3))),
        reference=np.linalg.det,
    )
