"""Linear algebra, with the Array API's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from weft.array_api.promotion import promoted
from weft.layers.array_api import matrix_transpose, outer, trace, vecdot
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]


class EighResult(NamedTuple):
    """Eigenvalues [..., n], ascending, and eigenvectors as columns [..., n, n]."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Q with orthonormal columns, R above its diagonal."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """x = U * S @ Vh, the singular values S descending."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L with x = L @ L^H; U with x = U^H @ U for upper=True. Raises LinAlgError."""
    return aten.linalg_cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product along a dim of size 3. Raises ValueProblem where a tensor lacks that dim."""
    first, second = promoted(x1, x2)
    return aten.linalg_cross(first, second, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinant of each matrix."""
    return aten.linalg_det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A diagonal of each matrix, as a view."""
    return aten.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues and eigenvectors of hermitian matrices."""
    return EighResult(*aten.linalg_eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of hermitian matrices, ascending."""
    return aten.linalg_eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverse of each matrix. Raises LinAlgError."""
    return aten.linalg_inv(x)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product."""
    return aten.matmul(*promoted(x1, x2))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of each matrix: "fro", "nuc", or of order 1, 2, infinity or their negatives."""
    return aten.linalg_matrix_norm(x, ord, [-2, -1], keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The product of n times each matrix."""
    return aten.linalg_matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values are above rtol times the largest."""
    return aten.linalg_matrix_rank(x, rtol=rtol)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse; singular values below rtol times the largest count as 0."""
    return aten.linalg_pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The QR decomposition of each matrix."""
    return QRResult(*aten.linalg_qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Sign and logarithm of the determinant."""
    return SlogdetResult(*aten.linalg_slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x with x1 @ x = x2; x2 is a vector if it has one dim, else matrices. Raises LinAlgError."""
    matrix, right = promoted(x1, x2)
    if right.ndim == 1:
        return aten.linalg_solve(matrix, right.unsqueeze(-1)).squeeze(-1)
    if right.ndim == matrix.ndim - 1 and right.shape == matrix.shape[:-1]:  # which PyTorch takes for vectors
        right = right.expand(*matrix.shape[:-2], *right.shape[-2:])
    return aten.linalg_solve(matrix, right)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition of each matrix."""
    return SVDResult(*aten.linalg_svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of each matrix, descending."""
    return aten.linalg_svdvals(x)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over dims: the last `axes` of x1 with the first of x2, or the dims of two lists."""
    first, second = promoted(x1, x2)
    if isinstance(axes, int) and axes < 0:
        raise ValueProblem(f"tensordot(): axes must not be negative, got {axes}")
    return aten.tensordot(first, second, dims=axes)


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """A norm of the elements along dims, of any order."""
    dims = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if dims == []:
        return aten.linalg_vector_norm(x.unsqueeze(0), ord, [0], False)
    return aten.linalg_vector_norm(x, ord, dims, keepdims)
