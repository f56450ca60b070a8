"""Symmetric and Hermitian matrices that are not definite: A = L D L^T with blocks of one or two rows in D, by Bunch and
Kaufman's exchanges, packed as LAPACK packs them: linalg.ldl_factor, ldl_factor_ex, ldl_solve.

Source: Bunch and Kaufman, Some stable methods for calculating inertia and solving symmetric linear systems, Mathematics
of Computation 31 (1977), algorithm A; Golub and Van Loan, Matrix Computations, 4.4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.families import no_formula
from weft.catalogue.linalg.failures import of_matrix
from weft.catalogue.linalg.lu import _count, _magnitude
from weft.catalogue.linalg.square import _check_square
from weft.catalogue.samples import Case
from weft.ops.batching import Flags, everywhere, front, same
from weft.ops.layout import column_major
from weft.ops.op import Op, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import broadcast_dims, dims_text, same_dims
from weft.support.errors import DTypeError, LinAlgError, NotForDType, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
_GROWTH = (1 + math.sqrt(17)) / 8  # how much smaller than its column a pivot may be


def _exchanged_with(x: Array, k: int, hermitian: bool) -> tuple[int, int]:
    """How many rows the next block has, and the row that comes to its last one. k: its first row."""
    n = len(x)
    size = abs(x[k, k].real) if hermitian else float(_magnitude(x[k, k]))
    if k == n - 1:
        return 1, k
    below = _magnitude(x[k + 1 :, k])
    top = k + 1 + int(np.argmax(below))
    greatest = float(below[top - k - 1])
    if max(size, greatest) == 0 or math.isnan(size) or size >= _GROWTH * greatest:
        return 1, k
    row = float(_magnitude(x[top, k:top]).max())
    if top < n - 1:
        row = max(row, float(_magnitude(x[top + 1 :, top]).max()))
    if size >= _GROWTH * greatest * (greatest / row):
        return 1, k
    other = abs(x[top, top].real) if hermitian else float(_magnitude(x[top, top]))
    return (1, top) if other >= _GROWTH * row else (2, top)


def _exchange(x: Array, k: int, last: int, row: int, hermitian: bool) -> None:
    """Rows and columns `last` and `row` of what is left, of which the lower triangle is kept. k: its first row."""
    if row == last:
        return
    x[row + 1 :, last], x[row + 1 :, row] = x[row + 1 :, row].copy(), x[row + 1 :, last].copy()
    column, along = x[last + 1 : row, last].copy(), x[row, last + 1 : row].copy()
    x[last + 1 : row, last], x[row, last + 1 : row] = (along.conj(), column.conj()) if hermitian else (along, column)
    if hermitian:
        x[row, last] = x[row, last].conj()
    x[last, last], x[row, row] = x[row, row], x[last, last]
    if last > k:
        x[last, k], x[row, k] = x[row, k], x[last, k]


def _factored(x: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """One matrix, of which the lower triangle is read: packed factors, exchanges from 1 on (negative for blocks of
    two), and the first row of D that is 0, from 1 on (0: none is)."""
    x = np.tril(x)
    n = len(x)
    pivots, info, k = np.zeros(n, np.int32), 0, 0
    while k < n:
        if hermitian:
            x[k, k] = x[k, k].real
        rows, other = _exchanged_with(x, k, hermitian)
        _exchange(x, k, k + rows - 1, other, hermitian)
        rest = slice(k + rows, n)
        if rows == 1:
            pivots[k] = other + 1
            if x[k, k] == 0 or np.isnan(x[k, k]):
                info = info or k + 1
            else:
                column = x[rest, k] / x[k, k]
                x[rest, rest] -= np.tril(np.outer(column, x[rest, k].conj() if hermitian else x[rest, k]))
                x[rest, k] = column
        else:
            pivots[k : k + 2] = -(other + 1)
            pair = x[rest, k : k + 2]
            columns = pair @ np.linalg.inv(_block(x, k, hermitian)).astype(x.dtype)
            turned = pair.conj().T if hermitian else pair.T
            x[rest, rest] -= np.tril(columns @ turned)
            x[rest, k : k + 2] = columns
        k += rows
    if hermitian:
        x[np.arange(n), np.arange(n)] = np.diagonal(x).real
    return x, pivots, info


def _block(x: Array, k: int, hermitian: bool) -> Array:
    """The block of D of rows k and k + 1."""
    corner = x[k + 1, k]
    return np.array([[x[k, k], corner.conj() if hermitian else corner], [corner, x[k + 1, k + 1]]])


def _zero_in_factor(self: Any, *rest: Any) -> LinAlgError:
    element = "(Batch element {element}): " if self.ndim > 2 else ""
    return LinAlgError(
        f"torch.linalg.ldl_factor_ex: {element}D[{{order}},{{order}}] is zero, and the factor cannot be used to solve "
        "a system"
    )


def _factor(A: Array, hermitian: bool, check_errors: bool) -> tuple[Array, Array, Array]:
    n = A.shape[-1]
    flat = A.reshape(_count(A), n, n)
    out, pivots, info = np.zeros_like(flat), np.zeros((len(flat), n), np.int32), np.zeros(len(flat), np.int32)
    is_hermitian = hermitian and np.iscomplexobj(A)
    with np.errstate(all="ignore"):
        for i, x in enumerate(flat):
            out[i], pivots[i], info[i] = _factored(x, is_hermitian)
    if check_errors and info.any():
        first = int(np.argmax(info != 0))
        raise of_matrix(_zero_in_factor(A), first, int(info[first]))
    return out.reshape(A.shape), pivots.reshape(A.shape[:-1]), info.reshape(A.shape[:-2])


def _factor_type(self: TensorType, hermitian: bool, check_errors: bool) -> tuple[TensorType, TensorType, TensorType]:
    _check_square("ldl_factor_ex", self)
    if not self.is_complete:
        return tensor_type(self.dtype, None), tensor_type(dt.int32, None), tensor_type(dt.int32, None)
    pivots, info = (tensor_type(dt.int32, self.shape[:-count], self.device) for count in (1, 2))
    return self, pivots, info


define(
    "aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) "
    "-> (Tensor LD, Tensor pivots, Tensor info)",
    "linalg.ldl_factor that raises nothing: `info` says which element of D's diagonal is 0 (0: none is).",
    precision="float32",
    node="NotImplemented.linalg_ldl_factor_ex",
    type=_factor_type,
    kernel=_factor,
    failure=_zero_in_factor,
    lies=lambda self, *rest: (column_major(self.ndim), None, None),
    vjp=no_formula("linalg_ldl_factor_ex", "self"),
    batch=same,
    effect="raises",
    public=("linalg",),
    out=True,
    samples=lambda rng: _dominant(rng),
    reference=lambda A, hermitian, check: (*_eliminated(A, hermitian), np.zeros(A.shape[:-2], np.int32)),
)
define(
    "aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    "A = L D L^T (or L D L^H) of symmetric (Hermitian) matrices [..., n, n], of which the lower triangle is read: L "
    "and D in one matrix, and the row that each row was exchanged with (from 1; negative where D has a block of two). "
    "Raises LinAlgError where D is singular.",
    precision="float32",
    decompose=lambda self, hermitian: aten.linalg_ldl_factor_ex(self, hermitian=hermitian, check_errors=True)[:2],
    public=("linalg",),
    out=True,
    samples=lambda rng: _dominant(rng),
    reference=lambda A, hermitian: _eliminated(A, hermitian),
)


def _dominant(rng: np.random.Generator) -> list[Case]:
    """Matrices without exchanges, which the oracle knows."""
    one, several = rng.uniform(-1, 1, (5, 5)), rng.uniform(-1, 1, (2, 3, 3))
    return [((one + one.T + 12 * np.eye(5),), {}), ((several + 9 * np.eye(3),), {"hermitian": True})]


def _eliminated(A: Array, hermitian: bool) -> tuple[Array, Array]:
    """An oracle: column by column, without exchanges."""
    n = A.shape[-1]
    x = np.tril(A)
    for k in range(n):
        if hermitian:
            x[..., k, k] = x[..., k, k].real
        below = x[..., k + 1 :, k].copy()
        x[..., k + 1 :, k] /= x[..., k, k, None]
        turned = below.conj() if hermitian else below
        x[..., k + 1 :, k + 1 :] -= np.tril(x[..., k + 1 :, k, None] * turned[..., None, :])
    return x, np.broadcast_to(np.arange(1, n + 1, dtype=np.int32), A.shape[:-1])


# ---- solutions


def _solve_type(LD: TensorType, pivots: TensorType, B: TensorType, hermitian: bool) -> TensorType:
    name = "torch.linalg.ldl_solve"
    if LD.dtype is not None and LD.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise NotForDType(f'"ldl_solve" not implemented for {LD.dtype}')
    if LD.dims is not None and LD.ndim < 2:
        raise ShapeError("linalg.ldl_solve: The input tensor LD must have at least 2 dimensions.")
    if B.dims is not None and B.ndim < 2:
        raise ShapeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead")
    if LD.dtype is not None and B.dtype is not None and LD.dtype is not B.dtype:
        raise DTypeError(
            f"Expected b and A to have the same dtype, but found b of type {B.dtype} and A of type {LD.dtype} instead."
        )
    if pivots.dtype is not None and (pivots.dtype.category != dt.INT):
        raise DTypeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype}")
    if not (LD.is_complete and pivots.is_complete and B.is_complete):
        return tensor_type(LD.dtype, None)
    n, m = LD.shape[-2:]
    if not shape_env.equal(n, m):
        raise ShapeError(f"{name}: A must be batches of square matrices, but they are {n} by {m} matrices")
    if not shape_env.equal(n, B.shape[-2]):
        raise ShapeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix is {B.shape[-2]} by "
            f"{B.shape[-1]}"
        )
    if not same_dims(LD.shape[:-1], pivots.shape):
        raise ShapeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{dims_text(pivots.shape)} instead"
        )
    return tensor_type(LD.dtype, (*broadcast_dims(name, [LD.shape[:-2], B.shape[:-2]]), *B.shape[-2:]), LD.device)


def _steps(pivots: Array) -> list[tuple[int, int, int]]:
    """Of each block of D its first row, how many it has, and the row that its last one was exchanged with."""
    out, k, n = [], 0, len(pivots)
    while k < n:
        rows = 2 if pivots[k] < 0 else 1
        row = abs(int(pivots[k])) - 1
        if not 0 <= row < n or k + rows > n:
            raise LinAlgError("torch.linalg.ldl_solve: pivots are not those of a factorization of this matrix")
        out.append((k, rows, row))
        k += rows
    return out


def _solved(LD: Array, pivots: Array, X: Array, hermitian: bool) -> Array:
    """L D L^T X = B for one matrix."""
    steps = _steps(pivots)
    for k, rows, row in steps:
        last = k + rows - 1
        X[[last, row]] = X[[row, last]]
        X[k + rows :] -= LD[k + rows :, k : k + rows] @ X[k : k + rows]
        block = LD[k : k + 1, k : k + 1] if rows == 1 else _block(LD, k, hermitian)
        X[k : k + rows] = X[k : k + 1] / block if rows == 1 else np.linalg.inv(block).astype(X.dtype) @ X[k : k + 2]
    for k, rows, row in reversed(steps):
        below = LD[k + rows :, k : k + rows]
        X[k : k + rows] -= (below.conj() if hermitian else below).T @ X[k + rows :]
        last = k + rows - 1
        X[[last, row]] = X[[row, last]]
    return X


def _solve(LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    factors = np.broadcast_to(LD, (*batch, *LD.shape[-2:]))
    rows = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    X = np.array(np.broadcast_to(B, (*batch, *B.shape[-2:])))
    is_hermitian = hermitian and np.iscomplexobj(LD)
    with np.errstate(all="ignore"):
        for at in np.ndindex(*batch):
            X[at] = _solved(factors[at], rows[at], X[at].copy(), is_hermitian)
    return X


def _solve_batch(op: Op, size: Dim, flags: Flags, *args: Any) -> Any:
    """The exchanges keep the dims of the factors, less one."""
    LD, pivots, B = everywhere(size, flags[:3], args[:3])
    rank = max(LD.ndim, B.ndim) - 1
    return call(op, (front(LD, rank), front(pivots, rank - 1), front(B, rank), *args[3:]))


define(
    "aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    "The X with A X = B, given ldl_factor(A): B [..., n, k].",
    precision="float32",
    node="NotImplemented.linalg_ldl_solve",
    type=_solve_type,
    kernel=_solve,
    lies=lambda LD, pivots, B, *rest: (column_major(max(LD.ndim, B.ndim)),),
    vjp=no_formula("linalg_ldl_solve", "LD", "B"),
    batch=_solve_batch,
    effect="raises",
    public=("linalg",),
    out=True,
    samples=lambda rng: [
        ((np.tril(rng.uniform(1, 2, (3, 3))), np.array([3, 3, 3], np.int32), rng.normal(size=(3, 2))), {})
    ],
    reference=lambda LD, pivots, B, hermitian: _direct(LD, pivots, B),
)


def _direct(LD: Array, pivots: Array, B: Array) -> Array:
    """An oracle for blocks of one row: the matrix, put together again."""
    n = len(LD)
    A = np.diag(np.diagonal(LD))
    for k in range(n - 1, -1, -1):
        step = np.eye(n, dtype=LD.dtype)
        step[k + 1 :, k] = LD[k + 1 :, k]
        exchange = np.eye(n)[[{k: int(pivots[k]) - 1, int(pivots[k]) - 1: k}.get(i, i) for i in range(n)]]
        A = exchange.T @ step @ A @ step.T @ exchange
    return np.linalg.solve(A, B)
