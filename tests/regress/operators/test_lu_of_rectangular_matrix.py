"""LU factors of matrices that are not square have gradients of every order; lu_factor and lu raise for a zero on U's
diagonal, as in PyTorch, and lu tells of it instead with get_infos; weft.resize_as_ is a function too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft

WAYS: dict[str, Callable[[Callable[..., object]], Callable[..., object]]] = {
    "eager": lambda f: f, "compiled": weft.compile, "functionalized": weft.func.functionalize
}


def _matrices(rng: np.random.Generator, tall: bool, complex: bool) -> weft.Tensor:
    few, more = int(rng.integers(1, 4)), int(rng.integers(4, 6))
    dims = (2, more, few) if tall else (2, few, more)
    real, other = rng.standard_normal(dims), rng.standard_normal(dims)
    return weft.from_numpy(real + 1j * other if complex else real).requires_grad_()


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("tall", [True, False])
def test_gradients(tall: bool, complex: bool, rng: np.random.Generator) -> None:
    A = _matrices(rng, tall, complex)
    assert weft.autograd.gradcheck(lambda a: weft.linalg.lu(a)[1:], A)
    assert weft.autograd.gradcheck(lambda a: weft.linalg.lu_factor(a)[0], A)
    assert weft.autograd.gradgradcheck(lambda a: weft.linalg.lu_factor_ex(a)[0], A, fast_mode=True)


@pytest.mark.parametrize("way", WAYS)
def test_lu_with_infos(way: str, rng: np.random.Generator) -> None:
    A = weft.from_numpy(rng.standard_normal((2, 3, 3)))
    A[1] = 0
    LU, pivots, infos = WAYS[way](lambda a: weft.lu(a, get_infos=True))(A)
    wanted = weft.linalg.lu_factor_ex(A)
    assert infos.tolist() == [0, 1] and weft.equal(pivots, wanted.pivots) and weft.allclose(LU, wanted.LU)
    pair = WAYS[way](weft.lu)(A[:1])
    assert len(pair) == 2


def test_lu_into_given_tensors(rng: np.random.Generator) -> None:
    A = weft.from_numpy(rng.standard_normal((3, 3)))
    out = (weft.zeros(3, 3, dtype=weft.float64), weft.zeros(3, dtype=weft.int32), weft.ones((), dtype=weft.int32))
    for count in (2, 3):
        made = weft.lu(A, get_infos=count == 3, out=out[:count])
        assert len(made) == count and all(a is b for a, b in zip(made, out, strict=False))
    for got, wanted in zip(out, weft.linalg.lu_factor_ex(A), strict=True):
        assert weft.equal(got, wanted)


@pytest.mark.parametrize("factors", [weft.lu, weft.linalg.lu_factor])
def test_a_zero_on_the_diagonal(factors: Callable[..., object], rng: np.random.Generator) -> None:
    row = rng.standard_normal(3)
    with pytest.raises(weft.linalg.LinAlgError, match="is zero"):
        factors(weft.from_numpy(np.outer(row, np.zeros(3))))
    assert len(weft.linalg.lu(weft.zeros(3, 3))) == 3  # which reports nothing


def test_resize_as_as_a_function() -> None:
    x = weft.arange(6.0)
    assert weft.resize_as_(x, weft.zeros(2, 2)) is x and x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
