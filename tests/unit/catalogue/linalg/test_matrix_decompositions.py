"""Factorizations and functions of matrices: what they must satisfy, and their derivatives where the generated tests
cannot look (complex, singular)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import Unsupported


def matrices(rng: np.random.Generator, *shape: int, is_complex: bool = False) -> Any:
    x = rng.normal(size=shape)
    return weft.from_numpy(x + 1j * rng.normal(size=shape) if is_complex else x).requires_grad_()


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    "mode,shape", [("reduced", (4, 2)), ("reduced", (2, 3, 3)), ("reduced", (2, 4)), ("complete", (3, 4))]
)
def test_qr_is_orthonormal_times_triangular(rng, is_complex, mode, shape):
    A = matrices(rng, *shape, is_complex=is_complex)
    Q, R = weft.linalg.qr(A, mode)
    np.testing.assert_allclose((Q @ R).detach().numpy(), A.detach().numpy(), atol=1e-10)
    np.testing.assert_allclose(R.detach().tril(-1).abs().max().item(), 0, atol=1e-12)
    assert weft.autograd.gradcheck(lambda a: [v.abs().square() for v in weft.linalg.qr(a, mode)], (A,))


def test_qr_says_what_it_has_no_gradient_for(rng):
    A = matrices(rng, 3, 2)
    for mode, words in (("r", "depends on Q"), ("complete", "not differentiable")):
        with pytest.raises(Unsupported, match=words):
            weft.linalg.qr(A, mode)[1].sum().backward()


@pytest.mark.parametrize("is_complex", [False, True])
def test_eigh_is_diagonal_in_its_basis(rng, is_complex):
    root = matrices(rng, 2, 3, 3, is_complex=is_complex)

    def hermitian(x):
        return x + x.transpose(-2, -1).conj()

    values, V = weft.linalg.eigh(hermitian(root))
    again = (V * values.unsqueeze(-2).to(V.dtype)) @ V.transpose(-2, -1).conj()
    np.testing.assert_allclose(again.detach().numpy(), hermitian(root).detach().numpy(), atol=1e-10)
    assert weft.autograd.gradcheck(lambda x: weft.linalg.eigh(hermitian(x))[0], (root,))
    assert weft.autograd.gradcheck(lambda x: weft.linalg.eigh(hermitian(x))[1].abs(), (root,))


def test_eigh_reads_the_triangle_it_is_told_to(rng):
    A = rng.normal(size=(3, 3))
    for triangle, kept in (("L", np.tril(A)), ("U", np.triu(A))):
        symmetric = kept + kept.T - np.diag(np.diag(A))
        np.testing.assert_allclose(
            weft.linalg.eigvalsh(weft.from_numpy(A), triangle).numpy(), np.linalg.eigvalsh(symmetric), atol=1e-10
        )


def test_a_determinant_has_a_gradient_at_singular_matrices(rng):
    rows = rng.normal(size=(3, 3))
    rows[2] = rows[0] + rows[1]
    A = weft.from_numpy(rows).requires_grad_()
    (slope,) = weft.autograd.grad(weft.linalg.det(A), A)
    cofactors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(rows, i, 0), j, 1)) for j in range(3)] for i in range(3)
    ]
    np.testing.assert_allclose(slope.numpy(), cofactors, atol=1e-9)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (2, 3, 3)])
def test_pseudoinverses_meet_the_conditions_of_moore_and_penrose(rng, is_complex, shape):
    A = matrices(rng, *shape, is_complex=is_complex)
    P = weft.linalg.pinv(A)
    for x, y in ((A @ P @ A, A), (P @ A @ P, P), ((A @ P).transpose(-2, -1).conj(), A @ P), (
        (P @ A).transpose(-2, -1).conj(), P @ A
    )):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), atol=1e-9)
    assert weft.autograd.gradcheck(lambda a: weft.linalg.pinv(a), (A,))


def test_small_singular_values_count_as_zero():
    A = weft.diag(weft.tensor([3.0, 1.0, 1e-3], dtype=weft.float64))
    np.testing.assert_allclose(weft.linalg.pinv(A, rtol=1e-2).diagonal().numpy(), [1 / 3, 1, 0], atol=1e-12)
    np.testing.assert_allclose(weft.linalg.pinv(A, atol=2.0).diagonal().numpy(), [1 / 3, 0, 0], atol=1e-12)
    np.testing.assert_allclose(weft.linalg.pinv(A, hermitian=True).diagonal().numpy(), [1 / 3, 1, 1e3], rtol=1e-9)
    assert weft.linalg.matrix_rank(A, rtol=1e-2).item() == 2


def test_least_squares(rng):
    A, B = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    found = weft.linalg.lstsq(weft.from_numpy(A), weft.from_numpy(B), driver="gelsd")
    expected = np.linalg.lstsq(A, B, rcond=None)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want, atol=1e-9)


@pytest.mark.parametrize("is_complex", [False, True])
def test_the_exponential_undoes_itself(rng, is_complex):
    A = matrices(rng, 2, 3, 3, is_complex=is_complex)
    product = weft.matrix_exp(A) @ weft.matrix_exp(-A)
    np.testing.assert_allclose(product.detach().numpy(), np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-8)
    assert weft.autograd.gradcheck(lambda a: weft.matrix_exp(a * 0.3), (A,))


def test_a_chain_is_multiplied_in_any_order(rng):
    sizes = rng.integers(1, 6, 6)
    chain = [rng.normal(size=(int(a), int(b))) for a, b in itertools.pairwise(sizes)]
    got = weft.linalg.multi_dot([weft.from_numpy(x) for x in chain])
    np.testing.assert_allclose(got.numpy(), np.linalg.multi_dot(chain), atol=1e-10)


def test_the_transforms_undo_each_other(rng):
    x = weft.from_numpy(rng.normal(size=(3, 4, 5)) + 1j * rng.normal(size=(3, 4, 5)))
    for norm in (None, "ortho", "forward"):
        np.testing.assert_allclose(
            weft.fft.ifft2(weft.fft.fft2(x, norm=norm), norm=norm).numpy(), x.numpy(), atol=1e-12
        )
        np.testing.assert_allclose(
            weft.fft.ifftn(weft.fft.fftn(x, norm=norm), norm=norm).numpy(), x.numpy(), atol=1e-12
        )
