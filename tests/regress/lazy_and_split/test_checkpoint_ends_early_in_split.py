"""The second run of a checkpoint ends early by an exception. A split function took it for an error of its own and ran
again as Python, so that the region saved twice as much; a region's own `except Exception` took it too."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.utils.checkpoint import checkpoint


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_a_split_function_is_checkpointed(device: str, rng: np.random.Generator) -> None:
    w = weft.tensor(0.7, dtype=weft.float64, device=device)
    body = weft.compile(lambda x: (x * w).sin() + x * 0.25, split=True)
    for _ in range(3):
        values = rng.standard_normal(int(rng.integers(2, 9)))
        x = weft.tensor(values, device=device).requires_grad_()
        (checkpoint(body, x, use_reentrant=False) ** 2).sum().backward()
        y, slope = np.sin(0.7 * values) + 0.25 * values, 0.7 * np.cos(0.7 * values) + 0.25
        np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * y * slope, 1e-6, 1e-7)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_region_catches_exceptions(compiled: bool, rng: np.random.Generator) -> None:
    caught = []

    def region(x: weft.Tensor) -> weft.Tensor:
        try:
            return x.sin() * x
        except Exception:
            caught.append(1)
            return x.cos() * x.exp()

    def step(x: weft.Tensor) -> weft.Tensor:
        (gradient,) = weft.autograd.grad(checkpoint(region, x, use_reentrant=False).sum(), x)
        return gradient

    run = weft.compile(step) if compiled else step
    for _ in range(3):
        values = rng.standard_normal(4)
        gradient = run(weft.from_numpy(values).requires_grad_())
        np.testing.assert_allclose(gradient.numpy(), values * np.cos(values) + np.sin(values))
    assert not caught
