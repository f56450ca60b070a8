"""Factorizations as LAPACK packs them: what they are made of gives the matrix back, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def matrices(rng: Rng, *dims: int, is_complex: bool) -> np.ndarray:
    real = rng.normal(size=dims)
    return real + 1j * rng.normal(size=dims) if is_complex else real


@pytest.mark.parametrize("is_complex", [False, True])
def test_indefinite(is_complex: bool, rng: Rng) -> None:
    """Solutions of systems whose diagonal is small, so that blocks of two rows occur."""
    saw_blocks = False
    for hermitian in (False, True):
        for n in rng.integers(1, 9, 6):
            a = matrices(rng, 2, n, n, is_complex=is_complex)
            a[:, np.arange(n), np.arange(n)] *= 0.01
            turned = a.swapaxes(-2, -1)
            a = a + (turned.conj() if hermitian else turned)
            b = matrices(rng, 2, n, 3, is_complex=is_complex)
            LD, pivots = weft.linalg.ldl_factor(weft.from_numpy(a), hermitian=hermitian)
            saw_blocks = saw_blocks or bool((pivots < 0).any())
            x = weft.linalg.ldl_solve(LD, pivots, weft.from_numpy(b), hermitian=hermitian).numpy()
            np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-6, atol=1e-6)
    assert saw_blocks
    with pytest.raises(RuntimeError, match="is zero"):
        weft.linalg.ldl_factor(weft.zeros(3, 3))
    assert weft.linalg.ldl_factor_ex(weft.zeros(3, 3)).info.item() == 1


@pytest.mark.parametrize("is_complex", [False, True])
def test_reflections(is_complex: bool, rng: Rng) -> None:
    a = weft.from_numpy(matrices(rng, 2, 5, 3, is_complex=is_complex))

    def parts(a: weft.Tensor) -> tuple[weft.Tensor, ...]:
        packed, tau = weft.geqrf(a)
        Q = weft.linalg.householder_product(packed, tau)
        return packed, tau, Q, weft.ormqr(packed, tau, a, True, True)

    for function in (parts, weft.compile(parts)):
        packed, _, Q, turned = function(a)
        R = np.triu(packed.numpy())[:, :3]
        np.testing.assert_allclose(Q.numpy() @ R, a.numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(Q.mH.numpy() @ Q.numpy(), np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)
        np.testing.assert_allclose(turned.numpy()[:, :3], R, rtol=1e-9, atol=1e-12)
        assert np.abs(turned.numpy()[:, 3:]).max() < 1e-12


def test_segments_and_offsets(rng: Rng) -> None:
    data = weft.from_numpy(rng.normal(size=(6, 2)))
    for name in ("sum", "mean", "max", "min", "prod"):
        by_lengths = weft.segment_reduce(data, name, lengths=weft.tensor([2, 0, 4]), initial=0.5)
        by_offsets = weft.segment_reduce(data, name, offsets=weft.tensor([0, 2, 2, 6]), initial=0.5)
        assert by_lengths.tolist() == by_offsets.tolist() and by_lengths[1].tolist() == [0.5, 0.5]
    assert weft.segment_reduce(data, "mean", lengths=weft.tensor([0, 6])).isnan().any(1).tolist() == [True, False]
    for lengths, words in (([2, 3], "sum to"), ([7, -1], "negative")):
        with pytest.raises(RuntimeError, match=words):
            weft.segment_reduce(data, "sum", lengths=weft.tensor(lengths))
