"""Distances of all pairs: native, exact for rows that are near each other, with gradients of order one and two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

SIZES = [(1, 1, 1), (3, 2, 4), (300, 37, 5), (2, 33, 130), (0, 3, 2), (3, 0, 2), (3, 2, 0)]


def step(x: weft.Tensor, y: weft.Tensor) -> Any:
    distances = weft.cdist(x, y)
    first = weft.autograd.grad((distances**3).sum(), (x, y), create_graph=True)
    second = weft.autograd.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), (x, y))
    return distances.detach(), *(g.detach() for g in first), *second


def by_definition(x: weft.Tensor, y: weft.Tensor) -> Any:
    """The same, pair by pair."""
    squares = ((x.unsqueeze(1) - y.unsqueeze(0)) ** 2).sum(2)
    first = weft.autograd.grad((squares * (squares + 1e-300).sqrt()).sum(), (x, y), create_graph=True)
    second = weft.autograd.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), (x, y))
    return squares.sqrt().detach(), *(g.detach() for g in first), *second


def test_values_and_gradients(rng: np.random.Generator) -> None:
    compiled = weft.compile(step)
    weft.counters.reset()
    for n, m, k in SIZES:
        x, y = (weft.from_numpy(rng.standard_normal((rows, k))).requires_grad_() for rows in (n, m))
        for got, eager, wanted in zip(compiled(x, y), step(x, y), by_definition(x, y), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(eager.numpy(), wanted.numpy(), rtol=1e-8, atol=1e-8)
    assert weft.counters.foreign_segments == 0


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64], ids=str)
def test_rows_far_from_zero_and_near_each_other(dtype: weft.dtype, rng: np.random.Generator) -> None:
    x = weft.from_numpy(1000 + rng.integers(0, 8, (6, 3)) / 64).to(dtype).requires_grad_()
    distances = weft.compile(lambda x: weft.cdist(x, x))(x)
    wide = x.detach().double()
    exact = ((wide.unsqueeze(1) - wide.unsqueeze(0)) ** 2).sum(2).sqrt()
    np.testing.assert_allclose(distances.detach().numpy(), exact.numpy(), rtol=1e-6)
    assert np.diag(distances.detach().numpy()).tolist() == [0.0] * 6

    def gradient(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(weft.cdist(x, y).sum(), x)[0]

    got = weft.compile(gradient)(x, x.detach()).numpy()
    pairs = exact.numpy()[..., None]
    towards = wide.numpy()[:, None] - wide.numpy()[None]
    wanted = np.divide(towards, pairs, out=np.zeros_like(towards), where=pairs != 0).sum(1)
    np.testing.assert_allclose(got, wanted, atol=2e-4 if dtype is weft.float32 else 1e-10)


def test_batches(rng: np.random.Generator) -> None:
    def batched(x: weft.Tensor, y: weft.Tensor) -> Any:
        d = weft.cdist(x, y)
        return d.detach(), *weft.autograd.grad((d**2).sum(), (x, y))

    for a, b in (((2, 1, 5, 3), (4, 6, 3)), ((3, 5, 2), (1, 4, 2)), ((5, 2), (3, 4, 2))):
        x, y = (weft.from_numpy(rng.standard_normal(d)).requires_grad_() for d in (a, b))
        for got, wanted in zip(weft.compile(batched)(x, y), batched(x, y), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
    x, y = weft.from_numpy(rng.standard_normal((3, 4, 2))), weft.from_numpy(rng.standard_normal((5, 2)))
    mapped = weft.func.vmap(weft.cdist, (0, None))(x, y)
    np.testing.assert_allclose(mapped.numpy(), weft.cdist(x, y).numpy())
