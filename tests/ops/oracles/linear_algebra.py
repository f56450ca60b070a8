"""Products of matrices, factorizations and solutions, from NumPy;
factors that are not unique by eliminating row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.oracles.table import given_floats as given
from weft.catalogue.samples import D, Drawn, F, case

Array = Any


def C(*dims: int) -> Drawn:
    """Complex numbers."""
    return Drawn("complex", dims)


def H(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -2, -1))


def each(function: Any, x: Array) -> tuple[Array, ...]:
    """The results of a function of one matrix, over a batch of them."""
    rows = [function(m) for m in x.reshape(-1, *x.shape[-2:])]
    return tuple(np.array(part).reshape(*x.shape[:-2], *np.shape(part[0])) for part in zip(*rows, strict=True))


given(
    "addbmm", lambda x, a, b, beta, alpha: beta * x + alpha * (a @ b).sum(0), case(F(2, 4), F(3, 2, 2), F(3, 2, 4)),
    case(F(4), F(3, 2, 2), F(3, 2, 4), beta=0.5, alpha=2),
)
given(
    "addmm", lambda x, a, b, beta, alpha: beta * x + alpha * (a @ b), case(F(2, 4), F(2, 3), F(3, 4)),
    case(F(4), F(2, 3), F(3, 4), beta=0.5, alpha=2),
)
given(
    "addmv", lambda x, a, b, beta, alpha: beta * x + alpha * (a @ b), case(F(2), F(2, 3), F(3)),
    case(F(1), F(2, 3), F(3), beta=0.5, alpha=2),
)
given(
    "addr", lambda x, a, b, beta, alpha: beta * x + alpha * np.outer(a, b), case(F(2, 3), F(2), F(3)),
    case(F(3), F(2), F(3), beta=0.5, alpha=2),
)
given(
    "baddbmm", lambda x, a, b, beta, alpha: beta * x + alpha * (a @ b), case(F(3, 2, 4), F(3, 2, 2), F(3, 2, 4)),
    case(F(2, 4), F(3, 2, 2), F(3, 2, 4), beta=0.5, alpha=2),
)
given("inner", np.inner, case(F(2, 3), F(4, 3)), case(F(3), F(3)), case(F(), F(2)))
given("outer ger", np.outer, case(F(3), F(2)))
given("vdot", np.vdot, case(F(3), F(3)), case(C(3), C(3)))
given(
    "matmul linalg_matmul", np.matmul, case(F(2, 3), F(3, 4)), case(F(3), F(3)), case(F(2, 1, 3, 4), F(5, 4, 2)),
    case(F(3), F(2, 3, 4)), case(F(2, 4, 3), F(3)),
)
given("tensordot.dims", np.tensordot, case(F(2, 3, 4), F(3, 4, 5)), case(F(2, 3), F(3, 4), 1), case(F(2), F(3), 0))
given(
    "cosine_similarity",
    lambda a, b, dim, eps: (a * b).sum(dim) / np.maximum(np.linalg.norm(a, axis=dim), eps) / np.maximum(
        np.linalg.norm(b, axis=dim), eps
    ),
)


# ---- square matrices
def general(*dims: int) -> Any:
    """A matrix that is far from singular and not symmetric."""
    return lambda rng: rng.uniform(-1, 1, dims) + 3 * np.eye(dims[-1])


def drawn(*calls: Any) -> Any:
    """Samples whose callables are drawn from: drawn(((general(3, 3),), {}))."""
    return lambda rng: [(tuple(a(rng) if callable(a) else a for a in args), kwargs) for args, kwargs in calls]


def normal(*dims: int) -> Any:
    return lambda rng: rng.uniform(-2, 2, dims)


def cholesky(x: Array, upper: bool, *_: Any) -> Array:
    factor = np.linalg.cholesky(x)
    return H(factor) if upper else factor


def triangular(a: Array, b: Array, upper: bool, left: bool, unit: bool) -> Array:
    a = np.triu(a) if upper else np.tril(a)
    if unit:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.solve(a, b) if left else H(np.linalg.solve(H(a), H(b)))


def solve(a: Array, b: Array, left: bool = True, *_: Any) -> Array:
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return np.linalg.solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b) if left else H(np.linalg.solve(H(a), H(b)))


def zeros_for(x: Array) -> Array:
    return np.zeros(x.shape[:-2], np.int32)


_ONE, _BATCH = ((general(3, 3),), {}), ((general(2, 3, 3),), {})
given("inverse", np.linalg.inv, drawn(_ONE, _BATCH))
given("linalg_inv_ex", lambda x, *_: (np.linalg.inv(x), zeros_for(x)))
given("linalg_cholesky", cholesky, case(D(3, 3)), case(D(2, 3, 3), upper=True))
given(
    "linalg_cholesky_ex", lambda x, *rest: (cholesky(x, *rest), zeros_for(x)), case(D(3, 3)),
    case(D(2, 3, 3), upper=True),
)
given("linalg_slogdet slogdet", lambda x: tuple(np.linalg.slogdet(x)), drawn(_ONE, _BATCH))
given("logdet", lambda x: np.log(np.linalg.det(x)), drawn(_ONE, _BATCH))
given("linalg_solve", solve, drawn(
    ((general(3, 3), normal(3, 2)), {}), ((general(2, 3, 3), normal(2, 3)), {}),
    ((general(3, 3), normal(2, 3)), {"left": False}),
))
given("linalg_solve_ex", lambda a, b, *rest: (solve(a, b, *rest), zeros_for(a)))
given("linalg_solve_triangular", triangular)
given("linalg_eig", lambda x: tuple(np.linalg.eig(x)), drawn(_ONE, _BATCH))
given("linalg_eigvals", np.linalg.eigvals, drawn(_ONE, _BATCH))


def matrix_exp(x: Array) -> Array:
    """The series of the exponential of x / 1024, squared ten times."""
    small = x / 1024
    total = term = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for k in range(1, 12):
        term = term @ small / k
        total = total + term
    return np.linalg.matrix_power(total, 1024)


given("matrix_exp", matrix_exp)


# ---- LU: elimination row by row
def lu_factor(a: Array, pivot: bool) -> tuple[Array, Array]:
    a, rows = np.array(a), []
    for j in range(min(a.shape)):
        best = j + int(np.argmax(np.abs(a[j:, j]))) if pivot else j
        rows.append(best + 1)
        a[[j, best]] = a[[best, j]]
        a[j + 1:, j] /= a[j, j]
        a[j + 1:, j + 1:] -= np.outer(a[j + 1:, j], a[j, j + 1:])
    return a, np.array(rows, np.int32)


def order_of(pivots: Array, rows: int) -> Array:
    order = list(range(rows))
    for i, p in enumerate(pivots):
        order[i], order[p - 1] = order[p - 1], order[i]
    return np.array(order)


def unpacked(lu: Array, pivots: Array) -> tuple[Array, Array, Array]:
    rows, columns = lu.shape
    k = min(rows, columns)
    lower = np.tril(lu, -1)[:, :k] + np.eye(rows, k)
    return np.eye(rows)[:, order_of(pivots, rows)].astype(lu.dtype), lower, np.triu(lu)[:k]


def lu_unpack(lu: Array, pivots: Array, *_: Any) -> tuple[Array, ...]:
    found = [
        unpacked(m, p)
        for m, p in zip(lu.reshape(-1, *lu.shape[-2:]), pivots.reshape(-1, pivots.shape[-1]), strict=True)
    ]
    return tuple(np.array(part).reshape(*lu.shape[:-2], *part[0].shape) for part in zip(*found, strict=True))


def lu_solve(lu: Array, pivots: Array, b: Array, left: bool = True, adjoint: bool = False) -> Array:
    p, lower, upper = lu_unpack(lu, pivots)
    a = p @ lower @ upper
    return solve(H(a) if adjoint else a, b, left)


def factors(*dims: int) -> Any:
    return lambda rng: np.tril(rng.uniform(-1, 1, dims), -1) + np.triu(rng.uniform(1, 2, dims))


def exchanges(*dims: int) -> Any:
    return lambda rng: (rng.integers(np.arange(dims[-1]), dims[-1], dims) + 1).astype(np.int32)


def lu_parts(a: Array, pivot: bool) -> tuple[Array, ...]:
    return each(lambda m: unpacked(*lu_factor(m, pivot)), a)


given("linalg_lu_factor lu", lambda a, pivot, *_: each(lambda m: lu_factor(m, pivot), a))
given("linalg_lu_factor_ex", lambda a, pivot, *_: (*each(lambda m: lu_factor(m, pivot), a), zeros_for(a)))
given("linalg_lu", lu_parts)
given("lu_unpack", lu_unpack, drawn(((factors(3, 3), exchanges(3)), {}), ((factors(2, 4, 3), exchanges(2, 3)), {})))
given("linalg_lu_solve", lu_solve, drawn(
    ((factors(3, 3), exchanges(3), normal(3, 2)), {}),
    ((factors(2, 3, 3), exchanges(2, 3), normal(2, 3, 2)), {"adjoint": True}),
))
given(
    "lu_solve", lambda b, lu, pivots: lu_solve(lu, pivots, b), drawn(((normal(3, 2), factors(3, 3), exchanges(3)), {}))
)
given(
    "_lu_rows",
    lambda pivots, rows: np.array([order_of(p, rows) for p in pivots.reshape(-1, pivots.shape[-1])]).reshape(
        *pivots.shape[:-1], rows
    ),
    drawn(((exchanges(3), 4), {}), ((exchanges(2, 3), 3), {})),
)


# ---- rectangular matrices
def lstsq(a: Array, b: Array, rcond: Any, driver: str | None) -> tuple[Array, ...]:
    found = np.linalg.lstsq(a, b, rcond)
    if found[2] < min(a.shape):
        raise ValueError("NumPy leaves out the residuals where the rank is not full")
    nothing = np.zeros(0, a.dtype)
    is_full = driver not in (None, "gelsy")
    return (
        found[0], found[1] if is_full and a.shape[-1] < a.shape[-2] else nothing, np.asarray(found[2]),
        found[3] if is_full else nothing
    )


def pinv(x: Array, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Array:
    cut = rtol if rtol is not None else (0.0 if atol is not None else max(x.shape[-2:]) * np.finfo(np.float64).eps)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    kept = s > np.maximum(np.asarray(cut) * s[..., :1] if s.size else 0, 0 if atol is None else atol)
    return H(v) @ (np.where(kept, 1 / np.where(kept, s, 1), 0)[..., None] * H(u))


given("linalg_lstsq", lstsq, case(F(4, 3), F(4, 2)), case(F(3, 4), F(3, 1)), case(F(4, 2), F(4, 2), driver="gelsd"))
given("linalg_pinv", lambda x, rcond, *_: pinv(x, None, rcond), case(F(4, 3), 1e-4), case(F(2, 3, 3), 1e-8))
given("pinverse", lambda x, rcond: pinv(x, None, rcond), case(F(4, 3)), case(F(2, 3, 4), 1e-6))
given(
    "linalg_pinv.atol_rtol_float", lambda x, atol, rtol, *_: pinv(x, atol, rtol), case(F(4, 3)),
    case(F(2, 3, 4), atol=1e-3), case(F(3, 3), rtol=1e-6, atol=1e-9),
)
given("linalg_pinv.rcond_tensor", lambda x, rcond, *_: pinv(x, None, rcond))
given(
    "linalg_matrix_rank", lambda x, tol, *_: np.asarray((np.linalg.svd(x, compute_uv=False) > tol).sum(-1)),
    case(F(4, 3), 1e-3), case(F(2, 3, 3), 1.0),
)
given(
    "qr", lambda x, some: tuple(np.linalg.qr(x, "reduced" if some else "complete")), case(F(4, 3)), case(F(2, 3, 3)),
    case(F(3, 4)),
)


def svd(x: Array, some: bool, compute: bool) -> tuple[Array, ...]:
    u, s, v = np.linalg.svd(x, full_matrices=not some)
    return (u, s, H(v)) if compute else (np.zeros((*x.shape[:-2], x.shape[-2], x.shape[-2])), s, np.zeros((
        *x.shape[:-2], x.shape[-1], x.shape[-1]
    )))


given("svd", svd)
