"""Least squares: the pseudoinverse, lstsq, and solving with a Cholesky factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.linalg.singular import check_matrix
from weft.catalogue.linalg.square import _adjoint, _check_square, _iterated
from weft.catalogue.samples import D, F, case, draw
from weft.ops.batching import same
from weft.ops.op import NOT_DIFFERENTIABLE, Out, define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, same_dims
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- the pseudoinverse


def _pinv_type(self: TensorType, atol: Any, rtol: Any, hermitian: bool) -> TensorType:
    _check_square("pinv", self) if hermitian else check_matrix("pinv", self)
    for name, tolerance in (("atol", atol), ("rtol", rtol)):
        if isinstance(tolerance, TensorType) and tolerance.dtype is not None and tolerance.dtype.is_complex:
            raise DTypeError(f"linalg.pinv: {name} tensor of complex type is not supported. Got {tolerance.dtype}")
    return (
        self.with_dims((*self.shape[:-2], self.shape[-1], self.shape[-2])) if self.is_complete
        else tensor_type(self.dtype, None)
    )


def _tolerance(s: Array, shape: tuple[int, ...], atol: Array | None, rtol: Array | None) -> Array:
    """What counts as 0: the greater of atol and rtol times the greatest singular value;
    rtol is eps times the size if neither is given."""
    if rtol is None:
        positive = atol is not None and bool(np.all(atol > 0))
        rtol = np.asarray(0.0 if positive else np.finfo(s.dtype).eps * max(shape[-2:]))
    greatest = s.max(-1, initial=0)
    return np.maximum(0 if atol is None else atol, rtol * greatest)[..., None]


def _pinv(A: Array, atol: Array | None, rtol: Array | None, hermitian: bool) -> Array:
    if A.size == 0:
        return np.zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype)
    if hermitian:
        values, u = _iterated("pinv", A, lambda: np.linalg.eigh(A))
        s, vh = np.abs(values), np.swapaxes(u, -2, -1).conj()
    else:
        u, values, vh = _iterated("pinv", A, lambda: np.linalg.svd(A, full_matrices=False))
        s = values
    kept = s > _tolerance(s, A.shape, atol, rtol)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0)
    out = np.matmul(np.swapaxes(vh, -2, -1).conj() * inverse[..., None, :], np.swapaxes(u, -2, -1).conj())
    return np.asarray(out, A.dtype)


def _pinv_back(g: Any, self: Any, result: Any) -> Any:
    """Golub and Pereyra (1973): -P^H g P^H and what lies outside the row and column spaces."""
    P, Ph, gh = result, _adjoint(result), _adjoint(g)
    inner = aten.matmul(P, aten.matmul(gh, P))
    rows = aten.matmul(aten.matmul(gh, P), Ph)
    columns = aten.matmul(Ph, aten.matmul(P, gh))
    return (
        -_adjoint(inner) + rows - aten.matmul(aten.matmul(self, P), rows) + columns
        - aten.matmul(columns, aten.matmul(P, self))
    )


define(
    "aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor",
    "The pseudoinverse of matrices [..., m, n]; singular values of at most max(atol, rtol * greatest) count as 0.",
    type=_pinv_type,
    kernel=_pinv,
    vjp={"self": _pinv_back},
    effect="raises",
    public=("linalg",),
    out=Out("castable"),
    samples=draw(case(F(4, 3)), case(F(2, 2, 3))),
    reference=lambda A, atol, rtol, hermitian: np.linalg.pinv(A),
)


def _limit(self: Any, value: Any) -> Any:
    return None if value is None else aten.full((), value, dtype=dt.float64)


define(
    "aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor",
    "The pseudoinverse, with tolerances that are numbers.",
    decompose=lambda self, atol, rtol, hermitian: aten.linalg_pinv.atol_rtol_tensor(
        self, atol=_limit(self, atol), rtol=_limit(self, rtol), hermitian=hermitian),
    public=("linalg",),
    out=Out("castable"),
)
define(
    "aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
    "The pseudoinverse; singular values of at most rcond times the greatest count as 0.",
    decompose=lambda self, rcond, hermitian: aten.linalg_pinv.atol_rtol_float(
        self, atol=0.0, rtol=rcond, hermitian=hermitian
    ),
    public=("linalg",),
    out=Out("castable"),
)
define(
    "aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
    "The pseudoinverse; singular values of at most rcond times the greatest count as 0.",
    decompose=lambda self, rcond, hermitian: aten.linalg_pinv.atol_rtol_tensor(
        self, atol=_limit(self, 0.0), rtol=rcond, hermitian=hermitian),
    public=("linalg",),
    out=Out("castable"),
    samples=draw(case(F(3, 4), np.array(1e-9))),
)
define(
    "aten::pinverse(Tensor self, float rcond=1e-15) -> Tensor",
    "linalg.pinv by an older name.",
    precision="float32",
    decompose=lambda self, rcond: aten.linalg_pinv(self, rcond),
)

# ---- least squares

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _check_lstsq(A: Any, B: Any, driver: str) -> bool:
    """Whether B holds vectors. Raises ShapeError, DTypeError."""
    check_matrix("lstsq", tensor_type(A.dtype, tuple(A.dims)))
    if B.ndim < 1:
        raise ShapeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if A.dtype is not B.dtype:
        raise DTypeError(
            f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {A.dtype} and "
            f"other's dtype {B.dtype}"
        )
    if driver not in _DRIVERS:
        raise ShapeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but got {driver}"
        )
    is_vector = A.ndim - 1 == B.ndim and same_dims(A.dims[:-1], B.dims)
    rows = B.dims[-1] if is_vector else B.dims[-2] if B.ndim > 1 else None
    if rows is None or not shape_env.equal(A.dims[-2], rows):
        raise ShapeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)" if not is_vector else
                         "torch.linalg.lstsq: input.size(-2) should match other.size(-1)")
    return is_vector


def _lstsq(self: Any, b: Any, rcond: Any, driver: str | None) -> tuple[Any, Any, Any, Any]:
    driver = driver or "gelsy"
    is_vector = _check_lstsq(self, b, driver)
    right = aten.unsqueeze(b, -1) if is_vector else b
    broadcast_dims("torch.linalg.lstsq", [tuple(self.dims[:-2]), tuple(right.dims[:-2])])
    limits = {} if rcond is None else {"rtol": rcond, "atol": 0.0}
    solution = aten.matmul(aten.linalg_pinv.atol_rtol_float(self, **limits), right)
    real = self.dtype.to_real() if self.dtype.is_complex else self.dtype
    nothing = aten.zeros((0,), dtype=real)
    residuals = aten.slice(aten.reshape(aten.abs(solution), (-1,)), 0, 0, 0)  # none, but differentiable
    if driver != "gelsy" and shape_env.less(self.dims[-1], self.dims[-2]):
        residuals = aten.sum(aten.square(aten.abs(aten.matmul(self, solution) - right)), -2)
    values = nothing if driver in ("gels", "gelsy") else aten.linalg_svdvals(self)
    rank = aten.zeros((0,), dtype=dt.int64) if driver == "gels" else aten.linalg_matrix_rank(self, **limits)
    return (aten.squeeze(solution, -1) if is_vector else solution), residuals, rank, values


define(
    "aten::linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> "
    "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    "The X with the least |A X - B|, and of those the least: A [..., m, n], B [..., m, k]. "
    "All drivers compute by singular values.",
    precision="float32",
    decompose=_lstsq,
    public=("linalg",),
    out=Out("castable"),
)


def _rank_type(self: TensorType, atol: Any, rtol: Any, hermitian: bool) -> TensorType:
    _pinv_type(self, atol, rtol, hermitian)
    return tensor_type(dt.int64, self.shape[:-2] if self.is_complete else None, self.device)


def _rank(A: Array, atol: float | Array | None, rtol: float | Array | None, hermitian: bool) -> Array:
    if A.size == 0:
        return np.zeros(A.shape[:-2], np.int64)
    s = _iterated(
        "matrix_rank", A, lambda: np.abs(np.linalg.eigvalsh(A)) if hermitian else np.linalg.svd(A, compute_uv=False)
    )
    limit = _tolerance(s, A.shape, *(None if v is None else np.asarray(v) for v in (atol, rtol)))
    return np.asarray(np.sum(s > limit, -1), np.int64)


define(
    "aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor",
    "How many singular values of matrices exceed max(atol, rtol * greatest).",
    precision="float32",
    type=_rank_type,
    kernel=_rank,
    vjp=NOT_DIFFERENTIABLE,
    batch=same,
    public=("linalg",),
    out=Out("castable"),
    samples=draw(case(F(4, 3)), case(D(2, 3, 3), hermitian=True)),
    reference=lambda A, atol, rtol, hermitian: np.asarray(np.linalg.matrix_rank(A)),
)
define(
    "aten::linalg_matrix_rank.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor",
    "How many singular values of matrices exceed max(atol, rtol * greatest), with tolerances of each matrix.",
    precision="float32",
    type=_rank_type,
    kernel=_rank,
    vjp=NOT_DIFFERENTIABLE,
    public=("linalg",),
    out=Out("castable"),
    samples=draw(case(F(2, 4, 3), atol=F(2)), case(F(3, 2), rtol=F())),
    reference=lambda A, atol, rtol, hermitian: _rank(A, atol, rtol, hermitian),
)
define(
    "aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
    "How many singular values of matrices exceed tol.",
    precision="float32",
    decompose=lambda self, tol, hermitian: aten.linalg_matrix_rank.atol_rtol_float(
        self, atol=tol, rtol=0.0, hermitian=hermitian
    ),
    public=("linalg",),
    out=Out("castable"),
)

# ---- with a Cholesky factor


def _cholesky_solve(self: Any, input2: Any, upper: bool) -> Any:
    for name, x in (("b", self), ("u", input2)):
        if x.ndim < 2:
            raise ShapeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    lower = _adjoint(input2) if upper else input2
    half = aten.linalg_solve_triangular(lower, self, upper=False)
    return aten.linalg_solve_triangular(_adjoint(lower), half, upper=True)


define(
    "aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    "The X with A X = B for A = L L^H (U^H U with upper), given L: B [..., n, k], L [..., n, n].",
    precision="float32",
    decompose=_cholesky_solve,
    out=Out("castable"),
    samples=draw(case(F(3, 2), D(3, 3)), case(F(2, 3), D(2, 2), True)),
    reference=lambda B, L, upper: np.linalg.solve(
        np.triu(L).T.conj() @ np.triu(L) if upper else np.tril(L) @ np.tril(L).T.conj(), B),
)
