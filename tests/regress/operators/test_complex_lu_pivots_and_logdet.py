"""Complex LU picks rows as LAPACK does; complex logdet, addr of bools, istft of a spectrum
that is not a real signal's."""

from __future__ import annotations

import numpy as np

import weft


def test_complex_rows_come_up_by_the_sum_of_their_parts() -> None:
    matrix = weft.tensor([[4 + 0j, 1], [3 + 3j, 2]])  # |3 + 3j| = 4.24 as |4|; 3 + 3 is more than 4, and so is 4.24
    other = weft.tensor([[5 + 0j, 1], [3 + 3j, 2]])  # 4.24 is less than 5, 3 + 3 is more
    assert [weft.linalg.lu_factor(m)[1][0].item() for m in (matrix, other)] == [2, 2]


def test_the_logarithm_of_a_complex_determinant(rng: np.random.Generator) -> None:
    matrix = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    np.testing.assert_allclose(np.exp(weft.logdet(weft.from_numpy(matrix)).item()), np.linalg.det(matrix))


def test_addr_of_bools_is_bool(rng: np.random.Generator) -> None:
    base, a, b = rng.random((3, 4)) < 0.5, rng.random(3) < 0.5, rng.random(4) < 0.5
    for beta in (0, 3):
        found = weft.addr(*map(weft.from_numpy, (base, a, b)), beta=beta, alpha=2)
        assert found.dtype is weft.bool and (found.numpy() == (base & bool(beta)) | np.outer(a, b)).all()


def test_istft_reads_the_first_half_of_frequencies(rng: np.random.Generator) -> None:
    spectrum = rng.standard_normal((8, 3)) + 1j * rng.standard_normal((8, 3))
    whole, half = (weft.from_numpy(np.ascontiguousarray(s)) for s in (spectrum, spectrum[:5]))
    options = {"n_fft": 8, "window": weft.ones(8, dtype=weft.float64)}
    np.testing.assert_allclose(
        weft.istft(whole, onesided=False, **options).numpy(), weft.istft(half, **options).numpy()
    )
