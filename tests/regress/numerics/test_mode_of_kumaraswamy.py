"""The mode of a Kumaraswamy distribution was NaN for all parameters (as PyTorch's is: a sign under a logarithm)."""

from __future__ import annotations

import numpy as np

import weft


def test_the_density_is_highest_there(rng: np.random.Generator) -> None:
    a, b = (weft.from_numpy(rng.uniform(1.1, 4, 5)) for _ in range(2))
    d = weft.distributions.Kumaraswamy(a, b)
    step = 1e-4
    at = d.log_prob(d.mode)
    assert bool((at > d.log_prob(d.mode - step)).all()) and bool((at > d.log_prob(d.mode + step)).all())


def test_without_one_it_is_nan_and_has_no_gradient() -> None:
    a = weft.tensor([0.5, 2.0, 1.0], dtype=weft.float64, requires_grad=True)
    d = weft.distributions.Kumaraswamy(a, weft.tensor([2.0, 3.0, 1.0], dtype=weft.float64))
    mode = d.mode
    assert mode.isnan().tolist() == [True, False, True]
    (grad,) = weft.autograd.grad(mode[1], a)
    assert grad[0] == 0 and grad[1] != 0 and grad[2] == 0
