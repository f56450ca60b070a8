"""What an operator on matrices says of one that has no factor, or no inverse: PyTorch's texts, with the matrix of the
batch and how far the work came. NumPy says only that some matrix failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.support.errors import LinAlgError, OutOfBounds, WeftError

Array = Any
Rule = Callable[..., WeftError]


def not_definite(name: str) -> Rule:
    """The error of a matrix that has no Cholesky factor: an entry's `failure`."""
    return lambda self, *rest: LinAlgError(
        f"linalg.{name}: {_element(self)}The factorization could not be completed because the input is not "
        "positive-definite (the leading minor of order {order} is not positive-definite)."
    )


def no_inverse(A: Any) -> LinAlgError:
    """The error of inv."""
    return LinAlgError(
        f"linalg.inv: {_element(A)}The diagonal element {{order}} is zero, the inversion could not be completed "
        "because the input matrix is singular."
    )


def no_solution(A: Any, B: Any) -> LinAlgError:
    """The error of solve."""
    return LinAlgError(f"linalg.solve: {_element(A)}The solver failed because the input matrix is singular.")


def zero_in_factor(A: Any, *rest: Any) -> LinAlgError:
    """The error of lu_factor."""
    return LinAlgError(
        f"linalg.lu_factor: {_element(A)}U[{{order}},{{order}}] is zero, and the factor cannot be used to solve a "
        "system"
    )


def no_row(pivots: Any, rows: Any) -> OutOfBounds:
    """The error of what unpacks row exchanges."""
    return OutOfBounds(
        f"{_element(pivots, 1)}LU_pivots must be numbers of the matrix's rows, from 1 on, but number {{order}} of them "
        "is not"
    )


def _element(A: Any, ndim: int = 2) -> str:
    return "(Batch element {element}): " if A.ndim > ndim else ""


def of_matrix(error: WeftError, element: int, order: int) -> WeftError:
    """An entry's `failure`, said of one matrix of the batch."""
    return type(error)(str(error).format(element=element, order=order))


def factored(A: Array, failure: WeftError) -> Array:
    """The lower Cholesky factors of all matrices. Raises `failure` for the first that has none."""
    factors = cholesky_factors(A)
    if factors is None:
        raise of_matrix(failure, *next(undefined_minors(A)))
    return factors


def cholesky_factors(A: Array) -> Array | None:
    """The lower Cholesky factors of all matrices, or None where one has none (a pivot that is NaN, for
    NumPy, is one)."""
    try:
        factors = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return None
    return None if np.isnan(np.diagonal(factors, axis1=-2, axis2=-1)).any() else factors


def undefined_minors(A: Array) -> Iterator[tuple[int, int]]:
    """(number of the matrix in the batch, order of its first leading minor that is not positive definite) of each that
    has no Cholesky factor."""
    for element, a in enumerate(_matrices(A)):
        if cholesky_factors(a) is None:
            yield element, next((k for k in range(1, len(a)) if cholesky_factors(a[:k, :k]) is None), len(a))


def inverted(call: Callable[[], Array], A: Array, failure: WeftError) -> Array:
    """What needs the inverses of all matrices. Raises `failure` for the first that has none."""
    try:
        return call()
    except np.linalg.LinAlgError:
        raise of_matrix(failure, *_first_singular(A)) from None


def _first_singular(A: Array) -> tuple[int, int]:
    """Number of the first singular matrix in the batch, and of the column in which elimination finds nothing to divide
    by."""
    for element, a in enumerate(_matrices(A)):
        try:
            np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return element, _empty_column(a)
    raise AssertionError("no matrix of the batch is singular")


def _empty_column(a: Array) -> int:
    a = a.copy()
    for j in range(len(a)):
        top = j + int(np.argmax(np.abs(a[j:, j])))
        a[[j, top]] = a[[top, j]]
        if a[j, j] == 0:
            return j + 1
        a[j + 1 :] -= np.multiply.outer(a[j + 1 :, j] / a[j, j], a[j])
    return len(a)


def _matrices(A: Array) -> Array:
    return A.reshape(-1, *A.shape[-2:])
