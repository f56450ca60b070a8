"""Distributions whose constraints have tensors as bounds could not be made in a compiled function: the text of an error
that nobody raised asked for their values. Nor could a divergence be computed whose transforms are alike by their class,
nor the entropy of a Binomial with a plain number of trials."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import Tensor
from weft import distributions as D


def test_uniform(rng: np.random.Generator) -> None:
    @weft.compile
    def density(low: Tensor, high: Tensor, x: Tensor) -> Tensor:
        return D.Uniform(low, high).log_prob(x)

    for size in rng.integers(1, 6, 3):
        low = weft.from_numpy(rng.uniform(-2, -1, size))
        high = weft.from_numpy(rng.uniform(1, 2, size)).requires_grad_()
        x = weft.from_numpy(rng.uniform(-1, 1, size))
        out = density(low, high, x)
        width = (high - low).detach().numpy()
        np.testing.assert_allclose(out.detach().numpy(), -np.log(width))
        np.testing.assert_allclose(weft.autograd.grad(out.sum(), high)[0].numpy(), -1 / width)
    with pytest.raises(ValueError, match=r"parameter low .* satisfy the constraint LessThan\(upper_bound=a tensor"):
        density(weft.ones(2), weft.ones(2), weft.ones(2))


def test_divergence_of_inverse_gammas() -> None:
    def divergence(a: Tensor, b: Tensor) -> Tensor:
        return D.kl_divergence(D.InverseGamma(a, b), D.InverseGamma(b, a))

    a, b = weft.tensor([0.5, 2.0]), weft.tensor([1.5, 3.0])
    weft.testing.assert_close(weft.compile(divergence)(a, b), divergence(a, b))
    weft.testing.assert_close(divergence(a, b), D.kl_divergence(D.Gamma(a, b), D.Gamma(b, a)))


def test_entropy_of_a_binomial() -> None:
    def entropy(p: Tensor) -> Tensor:
        return D.Binomial(2, p).expand((3,)).entropy()

    p = weft.tensor(0.25, requires_grad=True)
    out = weft.compile(entropy)(p)
    masses = np.array([0.5625, 0.375, 0.0625])
    np.testing.assert_allclose(out.detach().numpy(), [-(masses * np.log(masses)).sum()] * 3, rtol=1e-5)
