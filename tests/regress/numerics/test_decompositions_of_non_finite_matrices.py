"""The singular values of a matrix with an infinity never came, the rank of one was NumPy's error, and a pivot that is
NaN passed for a positive one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import linalg
from weft.support.errors import LinAlgError


def _matrix(value: float) -> weft.Tensor:
    # OpenBLAS goes round for ever over this one, if the value is an infinity
    rows = [
        [value, 1.1704393823949708, 1.9533430657969126], [0.3046031908981739, 0.350806733912703, 0.6565174427704261],
        [-1.4162761974735658, 0.6061188310159769, -1.0245871884569397], [-2.5, 1.0289197853025325, -1.1608654668399736],
    ]  # fmt: skip
    return weft.tensor(rows, dtype=weft.float64)


ITERATED: list[Callable[[weft.Tensor], Any]] = [
    linalg.svd, linalg.svdvals, linalg.pinv, linalg.matrix_rank, linalg.cond, weft.pinverse,
    lambda a: linalg.norm(a, "nuc"), lambda a: linalg.eigh(a[:3]), lambda a: linalg.eigvals(a[:3]),
    lambda a: linalg.matrix_rank(a[:3], hermitian=True), lambda a: linalg.pinv(a[:3], hermitian=True),
]  # fmt: skip


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("function", ITERATED)
def test_they_are_refused(function: Callable[[weft.Tensor], Any], value: float) -> None:
    with pytest.raises(LinAlgError, match="non-finite values"):
        function(_matrix(value))
    with pytest.raises(LinAlgError, match="non-finite values"):
        weft.compile(lambda a: function(a))(_matrix(value))


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile, lambda f: weft.compile(f, backend="interpret")])
@pytest.mark.parametrize("at", [(1, 1), (2, 1)])
@pytest.mark.parametrize("n", [3, 8])
def test_a_pivot_that_is_nan_is_not_positive(wrap: Any, at: tuple[int, int], n: int) -> None:
    a = weft.eye(n, dtype=weft.float64) * 2
    a[at] = math.nan
    factor, attempt = wrap(lambda a: linalg.cholesky(a)), wrap(lambda a: linalg.cholesky_ex(a))
    with pytest.raises(LinAlgError, match=f"leading minor of order {at[0] + 1} "):
        factor(a)
    assert attempt(a)[1].item() == at[0] + 1
    batch = weft.stack([weft.eye(n, dtype=weft.float64), a])
    with pytest.raises(LinAlgError, match="Batch element 1"):
        factor(batch)
    assert attempt(batch)[1].tolist() == [0, at[0] + 1]
