"""LU, eigenvalues of any square matrix, attempts that report, and what follows from them: products give the matrix
back, gradients agree with differences."""

from __future__ import annotations

import numpy as np
import pytest

import weft

Rng = np.random.Generator
gradcheck = weft.autograd.gradcheck


def _tensor(rng: Rng, *dims: int, complex: bool = False) -> weft.Tensor:
    x = weft.from_numpy(rng.standard_normal(dims))
    return weft.complex(x, weft.from_numpy(rng.standard_normal(dims))) if complex else x


def _close(a: weft.Tensor, b: weft.Tensor) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-9)


@pytest.mark.parametrize("dims", [(4, 4), (2, 3, 3), (5, 3), (3, 5), (2, 0, 0)])
@pytest.mark.parametrize("complex", [False, True])
def test_factors_of_a_matrix(dims: tuple[int, ...], complex: bool, rng: Rng) -> None:
    A = _tensor(rng, *dims, complex=complex)
    P, L, U = weft.linalg.lu(A)
    _close(P @ L @ U, A)
    assert weft.equal(L.triu(1), weft.zeros_like(L)) and weft.equal(U.tril(-1), weft.zeros_like(U))
    # of complex numbers the sum of both parts decides which row comes up
    assert bool((L.abs() <= (2**0.5 if complex else 1) + 1e-12).all())
    LU, pivots = weft.linalg.lu_factor(A)
    assert pivots.dtype is weft.int32
    for got, expected in zip(weft.lu_unpack(LU, pivots), (P, L, U), strict=True):
        _close(got, expected)


def test_gradients_of_factors(rng: Rng) -> None:
    A = _tensor(rng, 2, 3, 3).requires_grad_()
    assert gradcheck(lambda a: weft.linalg.lu(a)[1:], A)
    assert gradcheck(lambda a: weft.linalg.lu_factor(a)[0], _tensor(rng, 3, 3, complex=True).requires_grad_())
    for dims in ((4, 3), (2, 2, 5), (0, 3), (3, 0)):
        assert gradcheck(lambda a: weft.linalg.lu_factor(a)[0], _tensor(rng, *dims).requires_grad_())


@pytest.mark.parametrize("complex", [False, True])
def test_systems_by_factors(complex: bool, rng: Rng) -> None:
    A, B = _tensor(rng, 2, 3, 3, complex=complex), _tensor(rng, 3, 4, complex=complex)
    factors = weft.linalg.lu_factor(A)
    _close(A @ weft.linalg.lu_solve(*factors, B), B.expand(2, 3, 4))
    _close(A.mH @ weft.linalg.lu_solve(*factors, B, adjoint=True), B.expand(2, 3, 4))
    _close(weft.linalg.lu_solve(*factors, B.t(), left=False) @ A, B.t().expand(2, 4, 3))
    _close(weft.linalg.lu_solve(*factors, B.t(), left=False, adjoint=True) @ A.mH, B.t().expand(2, 4, 3))
    _close(weft.linalg.solve_ex(A, B).result, weft.linalg.solve(A, B))
    _close(weft.linalg.inv_ex(A).inverse, weft.linalg.inv(A))
    assert gradcheck(
        lambda a, b: weft.linalg.solve_ex(a, b)[0], (A.clone().requires_grad_(), B.clone().requires_grad_())
    )


def test_what_fails_is_reported(rng: Rng) -> None:
    singular = weft.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert weft.linalg.inv_ex(singular).info.item() == 2
    good, bad = weft.eye(3), weft.diag(weft.tensor([1.0, -1.0, 1.0]))
    L, info = weft.linalg.cholesky_ex(weft.stack([good, bad]))
    assert info.tolist() == [0, 2] and weft.equal(L[0], good)
    for refused in (lambda: weft.linalg.cholesky_ex(bad, check_errors=True), lambda: weft.linalg.lu_factor_ex(
        singular, check_errors=True
    )):
        with pytest.raises(weft.linalg.LinAlgError):
            refused()
    M = _tensor(rng, 3, 3)
    M = M @ M.t() + weft.eye(3)
    for upper in (False, True):
        _close(weft.linalg.cholesky_ex(M, upper=upper)[0], weft.linalg.cholesky(M, upper=upper))
    assert gradcheck(lambda a: weft.linalg.cholesky_ex(a @ a.mT + weft.eye(3))[0], _tensor(rng, 3, 3).requires_grad_())


@pytest.mark.parametrize("complex", [False, True])
def test_eigenvalues(complex: bool, rng: Rng) -> None:
    A = _tensor(rng, 2, 3, 3, complex=complex)
    values, vectors = weft.linalg.eig(A)
    _close(A.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2))
    _close(weft.linalg.eigvals(A).sum(-1).real, A.diagonal(0, -2, -1).sum(-1).real)
    assert gradcheck(lambda a: weft.linalg.eigvals(a), A[0].clone().requires_grad_())

    def phase_free(a: weft.Tensor) -> weft.Tensor:
        values, vectors = weft.linalg.eig(a)
        return vectors.abs() * values.abs().unsqueeze(-2)

    assert gradcheck(phase_free, A[0].clone().requires_grad_())


def test_what_follows(rng: Rng) -> None:
    A = _tensor(rng, 3, 3)
    for p in (None, 2, -2, 1, -1, float("inf"), "fro", "nuc"):
        np.testing.assert_allclose(weft.linalg.cond(A, p).numpy(), np.linalg.cond(A.numpy(), p))
    assert weft.linalg.cond(weft.zeros(2, 2), 1).item() == float("inf")
    z, w = _tensor(rng, 2, 3, complex=True), _tensor(rng, 3, complex=True)
    np.testing.assert_allclose(weft.linalg.vecdot(z, w).numpy(), [np.vdot(row, w.numpy()) for row in z.numpy()])
    B, C = _tensor(rng, 2, 3, 6), _tensor(rng, 2, 3)
    np.testing.assert_allclose(weft.linalg.tensorsolve(B, C).numpy(), np.linalg.tensorsolve(B.numpy(), C.numpy()))
    np.testing.assert_allclose(weft.linalg.tensorinv(B).numpy(), np.linalg.tensorinv(B.numpy()))
    L = weft.linalg.cholesky(A @ A.t() + weft.eye(3))
    _close(weft.cholesky_inverse(L), weft.linalg.inv(L @ L.t()))
    U, S, V = weft.svd(_tensor(rng, 4, 3))
    assert U.shape == (4, 3) and V.shape == (3, 3)
    M = _tensor(rng, 4, 3)
    U, S, V = M.svd()
    _close(U @ S.diag() @ V.t(), M)


def test_compiled(rng: Rng) -> None:
    def both(a: weft.Tensor, b: weft.Tensor) -> tuple[weft.Tensor, ...]:
        P, L, U = weft.linalg.lu(a)
        return P @ L @ U, weft.linalg.solve_ex(a, b)[0], weft.linalg.eigvals(a).abs().sum(), weft.linalg.cond(a, 1)

    A, B = _tensor(rng, 3, 3), _tensor(rng, 3, 2)
    for got, expected in zip(weft.compile(both)(A, B), both(A, B), strict=True):
        _close(got, expected)
