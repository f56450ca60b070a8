"""Linear algebra on square matrices and batches of them: cholesky, inverse, solve, slogdet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.failures import factored, inverted, no_inverse, no_solution, not_definite
from weft.catalogue.linalg.matmul import conjugate
from weft.catalogue.samples import D, F, case, draw
from weft.ops.batching import same
from weft.ops.layout import column_major
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, dims_text
from weft.support.errors import DTypeError, LinAlgError, ShapeError
from weft.types import shape_env
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


def _adjoint(x: Any) -> Any:
    return conjugate(aten.transpose(x, -2, -1))


def _check_square(name: str, A: TensorType) -> None:
    if A.dtype is not None and A.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise DTypeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {A.dtype}")
    if A.dims is None:
        return
    if A.ndim < 2:
        raise ShapeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if A.is_complete and not shape_env.equal(A.shape[-1], A.shape[-2]):
        raise ShapeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


def _iterated(name: str, A: Array, call: Callable[[], Any]) -> Any:
    """What LAPACK computes of matrices step by step until it converges: over infinities it might never end.
    Raises LinAlgError where it does not converge."""
    if not np.isfinite(A).all():
        raise LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix contained non-finite values."
        )
    try:
        return call()
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix is ill-conditioned."
        ) from None


# ---- cholesky


def _cholesky_type(self: TensorType, upper: bool) -> TensorType:
    _check_square("cholesky", self)
    return self


def _cholesky(x: Array, upper: bool) -> Array:
    source = np.swapaxes(x, -2, -1).conj() if upper else x
    lower = factored(source, not_definite("cholesky")(x))
    return np.ascontiguousarray(np.swapaxes(lower, -2, -1).conj()) if upper else lower


def _cholesky_back(g: Any, result: Any, upper: bool) -> Any:
    """With L L^H = A: the symmetric part of L^-H Phi(L^H g) L^-1, Phi the lower triangle with half its diagonal."""
    L, gL = (_adjoint(result), _adjoint(g)) if upper else (result, g)
    P = aten.matmul(_adjoint(L), gL)
    phi = (aten.tril(P) + aten.tril(P, -1)) * 0.5
    left = aten.linalg_solve_triangular(_adjoint(L), phi, upper=True)
    both = aten.linalg_solve_triangular(L, left, upper=False, left=False)
    return (both + _adjoint(both)) * 0.5


define(
    "aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    "The lower triangular L with L L^H = A (or its adjoint): A [..., n, n], Hermitian and positive definite. "
    "Raises LinAlgError.",
    precision="float32",
    node="LinalgCholeskyExBackward0.checked",
    type=_cholesky_type,
    kernel=_cholesky,
    failure=not_definite("cholesky"),
    lies=lambda self, *rest: (column_major(self.ndim),),
    vjp={"self": _cholesky_back},
    batch=same,
    effect="raises",
    public=("linalg",),
    out=True,
)

# ---- inverse


def _inv_type(A: TensorType) -> TensorType:
    _check_square("inv", A)
    return A


define(
    "aten::linalg_inv(Tensor A) -> Tensor",
    "The inverse: A [..., n, n]. Raises LinAlgError.",
    precision="float32",
    node="LinalgInvExBackward0",
    type=_inv_type,
    kernel=lambda A: inverted(lambda: np.linalg.inv(A), A, no_inverse(A)),
    failure=no_inverse,
    lies=lambda A: (column_major(A.ndim),),
    vjp={"A": lambda g, result: -aten.matmul(aten.matmul(_adjoint(result), g), _adjoint(result))},
    batch=same,
    effect="raises",
    public=("linalg",),
    out=True,
    samples=draw(case(D(3, 3))),
    reference=np.linalg.inv,
)
define(
    "aten::inverse(Tensor self) -> Tensor", "The inverse of a square matrix.",
    precision="float32",
    decompose=lambda self: aten.linalg_inv(self), out=True,
)

# ---- solve


def _solve_type(A: TensorType, B: TensorType) -> TensorType:
    _check_square("solve", A)
    if A.dtype is not None and B.dtype is not None and A.dtype is not B.dtype:
        raise DTypeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {A.dtype} and B of type "
            f"{B.dtype} instead"
        )
    if not (A.is_complete and B.is_complete):
        return tensor_type(A.dtype, None)
    if not shape_env.equal(A.shape[-1], B.shape[-2]):
        raise ShapeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )
    batch = broadcast_dims("linalg.solve", [A.shape[:-2], B.shape[:-2]])
    return tensor_type(A.dtype, (*batch, *B.shape[-2:]), A.device)


def _solve(A: Array, B: Array) -> Array:
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    X = inverted(
        lambda: np.linalg.solve(A, B), np.broadcast_to(A, (*batch, *A.shape[-2:])), no_solution(A, B)
    )
    return X.astype(B.dtype, copy=False)


define(
    "aten::_linalg_solve(Tensor A, Tensor B) -> Tensor",
    "The X with A X = B, for matrices: A [..., n, n], B [..., n, k]. Raises LinAlgError.",
    node="LinalgSolveExBackward0",
    type=_solve_type,
    kernel=_solve,
    failure=no_solution,
    vjp={
        "A": lambda g, A, result: -aten.matmul(aten._linalg_solve(_adjoint(A), g), _adjoint(result)),
        "B": lambda g, A: aten._linalg_solve(_adjoint(A), g),
    },
    batch=same,
    effect="raises",
    public=(),
    lies=lambda A, B: (column_major(max(A.ndim, B.ndim)),),
    samples=draw(case(D(3, 3), F(3, 2)), case(D(2, 2, 2), F(2, 1))),
    reference=np.linalg.solve,
)


def _is_vector(A: Any, B: Any) -> bool:
    return (
        B.ndim == 1
        or (A.ndim - 1 == B.ndim and all(shape_env.equal(a, b) for a, b in zip(A.dims[:-1], B.dims, strict=True)))
    )


def _as_vectors(X: Any) -> Any:
    """Solutions of one column each as a batch of vectors, which lies as one matrix does, column by column."""
    vectors = aten.squeeze(X, -1)
    return vectors if vectors.ndim < 2 else aten.mT(aten._contiguous_copy(aten.mT(vectors)))


def _solve_any(A: Any, B: Any, left: bool) -> Any:
    _check_square("solve", tensor_type(A.dtype, tuple(A.dims)))
    if _is_vector(A, B):
        if not left:
            raise ShapeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False")
        return _as_vectors(aten._linalg_solve(A, aten.unsqueeze(B, -1)))
    if B.ndim < 2:
        raise ShapeError(f"linalg.solve: B must have at least 1 dimension, got {dims_text(B.dims)}")
    if left:
        return aten._linalg_solve(A, B)
    return aten.transpose(aten._linalg_solve(aten.transpose(A, -2, -1), aten.transpose(B, -2, -1)), -2, -1)


define(
    "aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    "The X with A X = B (or X A = B): A [..., n, n], B a vector or matrix, in batches. Raises LinAlgError.",
    precision="float32",
    decompose=_solve_any,
    public=("linalg",),
    out=True,
)

# ---- triangular solve


def _triangular_type(self: TensorType, B: TensorType, upper: bool, left: bool, unitriangular: bool) -> TensorType:
    _check_square("solve_triangular", self)
    if not (self.is_complete and B.is_complete):
        return tensor_type(self.dtype, None)
    if B.ndim < 2:
        raise ShapeError("linalg.solve_triangular: The input tensor B must have at least 2 dimensions.")
    if not shape_env.equal(self.shape[-1], B.shape[-2 if left else -1]):
        raise ShapeError(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({self.shape[-2]}x{self.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    batch = broadcast_dims("linalg.solve_triangular", [self.shape[:-2], B.shape[:-2]])
    return tensor_type(B.dtype, (*batch, *B.shape[-2:]), B.device)


def _triangle(A: Array, upper: bool, unit: bool) -> Array:
    out = np.triu(A) if upper else np.tril(A)
    if unit:
        n = np.arange(A.shape[-1])
        out[..., n, n] = 1
    return out


def solve_triangular(A: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    """By substitution, for all matrices of the batch at once."""
    A = _triangle(A, upper, unitriangular)
    if not left:
        A, B = np.swapaxes(A, -2, -1), np.swapaxes(B, -2, -1)
        upper = not upper
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    X = np.array(np.broadcast_to(B, (*batch, *B.shape[-2:])))
    n = A.shape[-1]
    for i in range(n - 1, -1, -1) if upper else range(n):  # substitution: one row of X at a time
        done = slice(i + 1, n) if upper else slice(0, i)
        X[..., i, :] -= np.matmul(A[..., i : i + 1, done], X[..., done, :])[..., 0, :]
        X[..., i, :] /= A[..., i, i, None]
    return X if left else np.ascontiguousarray(np.swapaxes(X, -2, -1))


def _triangular_grad_B(g: Any, self: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    return aten.linalg_solve_triangular(_adjoint(self), g, upper=not upper, left=left, unitriangular=unitriangular)


def _triangular_grad_A(g: Any, self: Any, upper: bool, left: bool, unitriangular: bool, result: Any) -> Any:
    gB = _triangular_grad_B(g, self, upper, left, unitriangular)
    grad = -(aten.matmul(gB, _adjoint(result)) if left else aten.matmul(_adjoint(result), gB))
    shift = 1 if unitriangular else 0
    return aten.triu(grad, shift) if upper else aten.tril(grad, -shift)


define(
    "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, "
    "bool unitriangular=False) -> Tensor",
    "The X with A X = B (or X A = B) for a triangular A; the other triangle is not read.",
    type=_triangular_type,
    kernel=solve_triangular,
    vjp={"self": _triangular_grad_A, "B": _triangular_grad_B},
    batch=same,
    lies=lambda self, B, *rest: (column_major(max(self.ndim, B.ndim)),),
    public=("linalg",),
    out=True,
    samples=draw(
        case(D(3, 3), F(3, 2), upper=True), case(D(3, 3), F(2, 3), upper=False, left=False, unitriangular=True)
    ),
)

# ---- determinants


def _slogdet_type(A: TensorType) -> tuple[TensorType, TensorType]:
    _check_square("slogdet", A)
    if not A.is_complete:
        return tensor_type(A.dtype, None), tensor_type(None, None)
    assert A.dtype is not None
    return A.with_dims(A.shape[:-2]), tensor_type(A.dtype.to_real(), A.shape[:-2], A.device)


def _slogdet(A: Array) -> tuple[Array, Array]:
    sign, size = np.linalg.slogdet(A)
    return np.asarray(sign, A.dtype), np.asarray(size, A.real.dtype)


def _slogdet_back(gs: Sequence[Any], A: Any, result0: Any) -> Any:
    """With t = tr(A^-1 dA): d log|det A| = Re t, d sign = i sign Im t (0 for a real matrix)."""
    g = gs[1]
    if A.dtype.is_complex and gs[0] is not None:
        phase = -aten.imag(aten.conj(gs[0]) * result0)
        g = aten.complex(aten.zeros_like(phase) if g is None else g, phase)
    if g is None:
        return A * 0
    return aten.unsqueeze(aten.unsqueeze(g, -1), -1) * _adjoint(aten.linalg_inv(A))


for _name, _public in (("linalg_slogdet", ("linalg",)), ("slogdet", ("weft", "Tensor"))):
    define(
        f"aten::{_name}(Tensor A) -> (Tensor sign, Tensor logabsdet)",
        "The determinant's sign and the logarithm of its magnitude: A [..., n, n].",
        type=_slogdet_type,
        kernel=_slogdet,
        vjp={"A": _slogdet_back},
        batch=same,
        public=_public,
        out=True,
    )

define("aten::logdet(Tensor self) -> Tensor", "The logarithm of the determinant; NaN where it is negative.",
       decompose=lambda self: _logdet(*aten.slogdet(self)))


def _logdet(sign: Any, size: Any) -> Any:
    return aten.log(sign) + size if sign.dtype.is_complex else aten.where(sign < 0, float("nan"), size)
