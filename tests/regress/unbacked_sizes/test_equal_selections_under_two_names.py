"""Two equal masks that are computed anew, say by the second run of a checkpoint: one selection took the place of the
other, and what went by the size of the other read a size that nothing found any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.utils.checkpoint import checkpoint


class Slope(weft.autograd.Function):
    """The gradient of (x[x > 0].sum() * x).sum(), which goes back into the selection."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        ctx.save_for_backward(x)
        return weft.func.grad(lambda v: (v[v.detach() > 0].sum() * v).sum())(x)

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        (x,) = ctx.saved_tensors
        return g * x.cos()


@pytest.mark.parametrize("backend", ["interpret", None])
def test_a_checkpoint_selects_again(backend: str | None, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        y = checkpoint(Slope.apply, x, use_reentrant=False)
        y.sum().backward()
        return y.detach(), x.grad

    compiled = weft.compile(step, backend=backend)
    for n in (2, int(rng.integers(3, 9)), 5):
        x = rng.standard_normal(n)
        y, gradient = compiled(weft.from_numpy(x).requires_grad_())
        np.testing.assert_allclose(y.numpy(), x[x > 0].sum() + (x > 0) * x.sum())
        np.testing.assert_allclose(gradient.numpy(), np.cos(x))


@pytest.mark.parametrize("backend", ["interpret", None])
def test_a_fill_goes_by_the_second_size(backend: str | None, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        first, second = x[x > 0], x[x > 0]
        return first * 2, weft.full((second.shape[0],), 3.0), second.shape[0] + 1

    compiled = weft.compile(step, backend=backend)
    for n in (4, int(rng.integers(5, 9)), 6):
        x = rng.standard_normal(n)
        doubled, threes, number = compiled(weft.from_numpy(x))
        np.testing.assert_allclose(doubled.numpy(), 2 * x[x > 0])
        assert threes.tolist() == [3.0] * int((x > 0).sum()) and number == (x > 0).sum() + 1
