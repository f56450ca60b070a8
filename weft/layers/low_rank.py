"""Singular values of matrices of low rank, from a random sketch of their range: svd_lowrank and pca_lowrank."""

from __future__ import annotations

from typing import Any

from weft.layers.factories import FACTORIES
from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]
_randn = FACTORIES["randn"]


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with A - M about U diag(S) V^H. A: [.., m, n]; U: [.., m, q], S: [.., q], V: [.., n, q]. M: subtracted
    from A first, broadcast. niter: rounds of subspace iteration. Draws random numbers.

    Raises ShapeError. Source: Halko, Martinsson and Tropp 2009, algorithms 4.4 and 5.1.
    """
    if A.ndim < 2:
        raise ShapeError(f"svd_lowrank: expected a matrix or a batch of them, got {A.ndim} dims")
    if M is not None:
        A = A - aten.expand(M, tuple(A.shape))
    rows, columns = A.shape[-2], A.shape[-1]
    tall = A.mH if rows < columns else A
    basis = _basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = aten.linalg_svd(basis.mH @ tall, False)
    left, right = basis @ u, vh.mH
    return (right, s, left) if rows < columns else (left, s, right)


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """[.., m, q] with orthonormal columns: about the range of A."""
    sketch: Any = _randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = aten.linalg_qr(A @ sketch)[0]
    for _ in range(niter):
        basis = aten.linalg_qr(A.mH @ basis)[0]
        basis = aten.linalg_qr(A @ basis)[0]
    return basis


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of the rows of A: svd_lowrank of A without the mean of each column. A: [.., m, n]; q: how
    many, at most min(m, n) (6 or fewer when None). Raises ValueProblem, ShapeError."""
    if A.ndim < 2:
        raise ShapeError(f"pca_lowrank: expected a matrix or a batch of them, got {A.ndim} dims")
    most = min(A.shape[-2], A.shape[-1])
    if q is None:
        q = min(6, most)
    elif not 0 <= q <= most:
        raise ValueProblem(f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}")
    if niter < 0:
        raise ValueProblem(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - aten.mean(A, -2, True) if center else A, q, niter)
