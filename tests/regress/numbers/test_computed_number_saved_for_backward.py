"""A number that a program computes from its numbers, and keeps for the backward, is no array."""

from __future__ import annotations

import numpy as np

import weft
import weft.jit


@weft.jit.script
def f(x: weft.Tensor, y: float, n: int):
    y = min(max(((-1.22 + n) * y), -99.0), 99.0)
    x = weft.tanh((x + x) * -1.5)
    for i in [3, 7]:
        if x.sum() > y:
            x = weft.tanh(weft.relu(x + x))
            if x.sum() > y:
                continue
        if x.sum() > -0.73:
            n = i
    return weft.sin(x), y, n


def test_a_computed_number_is_kept_for_the_backward():
    rng = np.random.default_rng(745)
    for size in (2, 3):
        x = weft.from_numpy(rng.uniform(-2, 2, (1, size))).requires_grad_()
        found = f(x, -1.75, 5)
        with weft.jit.optimized_execution(False):
            wanted = f(x, -1.75, 5)
        assert found[1:] == wanted[1:]
        np.testing.assert_allclose(found[0].detach().numpy(), wanted[0].detach().numpy(), rtol=1e-12)
        for one, other in zip(
            weft.autograd.grad(found[0].sum(), [x]), weft.autograd.grad(wanted[0].sum(), [x]), strict=True
        ):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
