"""Factors and solutions lie column by column in every mode, as LAPACK leaves them in PyTorch: LU, singular vectors,
systems by factors with the adjoint or from the right, and batches of vectors, which lie as one matrix does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Program = Callable[..., weft.Tensor]
COLUMNS: dict[str, Program] = {
    "lu_factor": lambda A, B, v: weft.linalg.lu_factor(A)[0],
    "lu_factor_ex": lambda A, B, v: weft.linalg.lu_factor_ex(A)[0],
    "U of svd": lambda A, B, v: weft.linalg.svd(A)[0],
    "Vh of svd": lambda A, B, v: weft.linalg.svd(A)[2],
    "lu_solve": lambda A, B, v: weft.linalg.lu_solve(*weft.linalg.lu_factor(A), B),
    "lu_solve, adjoint": lambda A, B, v: weft.linalg.lu_solve(*weft.linalg.lu_factor(A), B, adjoint=True),
    "solve, vectors": lambda A, B, v: weft.linalg.solve(A, v),
    "solve, one vector": lambda A, B, v: weft.linalg.solve(A, v[0]),
    "solve_ex, vectors": lambda A, B, v: weft.linalg.solve_ex(A, v)[0],
}
ROWS: dict[str, Program] = {
    "lu_solve": lambda A, B, v: weft.linalg.lu_solve(*weft.linalg.lu_factor(A), B.mT, left=False),
    "lu_solve, adjoint": lambda A, B, v: (
        weft.linalg.lu_solve(*weft.linalg.lu_factor(A), B.mT, left=False, adjoint=True)
    ),
    "solve": lambda A, B, v: weft.linalg.solve(A, B.mT, left=False),
    "solve_ex": lambda A, B, v: weft.linalg.solve_ex(A, B.mT, left=False)[0],
}
WAYS: dict[str, Callable[[Program, tuple[weft.Tensor, ...]], weft.Tensor]] = {
    "eager": lambda f, args: f(*args),
    "meta": lambda f, args: f(*[x.to("meta") for x in args]),
    "functionalized": lambda f, args: weft.func.functionalize(f)(*args),
    "lazy": lambda f, args: f(*[x.to("lazy") for x in args]),
    "compiled": lambda f, args: weft.compile(f)(*args),
}


def _operands(rng: np.random.Generator) -> tuple[weft.Tensor, ...]:
    batch, n, k = (int(d) for d in rng.integers(2, 5, 3))
    A = rng.standard_normal((batch, n, n)) + 4 * np.eye(n)
    return tuple(weft.from_numpy(x) for x in (A, rng.standard_normal((batch, n, k)), rng.standard_normal((batch, n))))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COLUMNS)
def test_column_by_column(name: str, way: str, rng: np.random.Generator) -> None:
    out: Any = WAYS[way](COLUMNS[name], _operands(rng))
    assert out.mT.is_contiguous() and not out.is_contiguous()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROWS)
def test_row_by_row(name: str, way: str, rng: np.random.Generator) -> None:
    assert WAYS[way](ROWS[name], _operands(rng)).is_contiguous()


def test_the_same_solutions(rng: np.random.Generator) -> None:
    A, B, v = _operands(rng)
    for name, f in COLUMNS.items():
        got = f(A, B, v).numpy()
        if name.startswith("solve"):
            wanted = np.linalg.solve(A.numpy(), (v[:1] if "one" in name else v).numpy()[..., None])[..., 0]
            np.testing.assert_allclose(got, wanted, rtol=1e-9)
    factors = weft.linalg.lu_factor(A)
    np.testing.assert_allclose((A.mT @ weft.linalg.lu_solve(*factors, B, adjoint=True)).numpy(), B.numpy(), atol=1e-9)
