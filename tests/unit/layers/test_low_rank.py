"""svd_lowrank and pca_lowrank against the whole decomposition."""

from __future__ import annotations

import numpy as np
import pytest

import weft

RNG = np.random.Generator


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (3, 6, 6), (2, 2, 4, 9)])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_a_matrix_of_low_rank_is_found_whole(rng: RNG, shape: tuple[int, ...], kind: str) -> None:
    *batch, m, n = shape
    left, right = rng.normal(size=(*batch, m, 2)), rng.normal(size=(*batch, 2, n))
    a = weft.from_numpy((left @ right + (1j * left @ right[..., ::-1] if kind == "complex128" else 0)).astype(kind))
    u, s, v = weft.svd_lowrank(a, q=5)
    rank = min(5, m, n)
    assert u.shape == (*batch, m, rank) and v.shape == (*batch, n, rank) and s.shape == (*batch, rank)
    assert weft.allclose((u * s.unsqueeze(-2).to(a.dtype)) @ v.mH, a)
    assert weft.allclose(s, weft.linalg.svdvals(a)[..., :5], atol=1e-9)
    assert weft.allclose(u.mH @ u, weft.eye(u.shape[-1], dtype=a.dtype).expand(*batch, -1, -1))


def test_something_is_subtracted_first(rng: RNG) -> None:
    a, mean = weft.from_numpy(rng.normal(size=(6, 4))), weft.from_numpy(rng.normal(size=(1, 4)))
    u, s, v = weft.svd_lowrank(a, 4, 1, mean)
    assert weft.allclose(u * s @ v.T, a - mean)
    u, s, v = weft.pca_lowrank(a)
    assert weft.allclose(u * s @ v.T, a - a.mean(0)) and s.shape == (4,)
    assert weft.allclose(weft.pca_lowrank(a, q=4, center=False)[1], weft.linalg.svdvals(a))


def test_compiled_calls_draw_anew_for_every_size(rng: RNG) -> None:
    step = weft.compile(lambda a: weft.svd_lowrank(a, 2, 0)[1])
    for rows in (6, 6, 8, 5):
        a = weft.from_numpy(rng.normal(size=(rows, 5)))
        one, other = step(a), step(a)
        assert not weft.equal(one, other)  # a rough sketch: each has directions of its own
        assert bool((one <= weft.linalg.svdvals(a)[:2] + 1e-9).all())


def test_gradients_of_the_singular_values(rng: RNG) -> None:
    a = weft.from_numpy(rng.normal(size=(5, 3))).requires_grad_()
    weft.svd_lowrank(a, 3)[1].sum().backward()
    u, _, vh = weft.linalg.svd(a.detach(), full_matrices=False)
    assert weft.allclose(a.grad, u @ vh, atol=1e-7)


def test_bad_arguments_are_said() -> None:
    for call in (
        lambda: weft.svd_lowrank(weft.ones(3)), lambda: weft.pca_lowrank(weft.ones(3)),
        lambda: weft.pca_lowrank(weft.ones(3, 2), q=3), lambda: weft.pca_lowrank(weft.ones(3, 2), niter=-1),
    ):
        with pytest.raises(weft.WeftError):
            call()
