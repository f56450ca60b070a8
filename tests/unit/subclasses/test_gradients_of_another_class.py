"""Gradients whose class is not their leaf's, in a compiled step and through a compiled forward: as in eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wrappers import Two, drawn

import weft


class Bare(weft.autograd.Function):
    """A Two as a plain tensor, whose gradient stays plain."""

    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        return t.a + t.b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_a_plain_parameter_is_trained_beside_wrappers(rng: np.random.Generator) -> None:
    start, rate = rng.standard_normal((2, 3)), float(rng.uniform(0.1, 0.2))
    w = weft.nn.Parameter(weft.tensor(start))
    opt = weft.optim.SGD([w], lr=rate)

    def step(x: Two) -> None:
        opt.zero_grad()
        ((w * x).square() / 2).sum().backward()
        opt.step()

    compiled = weft.compile(step)
    for _ in range(3):
        a, b = (t.detach() for t in drawn(rng, 2, 3))
        compiled(Two(a, b))
        assert type(w.grad) is Two
        np.testing.assert_allclose(w.grad.a.numpy(), start * a.numpy() ** 2)
        np.testing.assert_allclose(w.grad.b.numpy(), start * b.numpy() ** 2)
        start = start - rate * (w.grad.a.numpy() + w.grad.b.numpy())  # what the class makes of a write into w
        np.testing.assert_allclose(w.detach().numpy(), start)


@pytest.mark.parametrize("whole_step", [True, False])
def test_a_wrapper_with_a_plain_gradient(whole_step: bool, rng: np.random.Generator) -> None:
    x = Two(*drawn(rng, 2, 3)).requires_grad_()

    def loss(t: Two) -> weft.Tensor:
        return Bare.apply(t).sum()

    def step(t: Two) -> None:
        loss(t).backward()

    for _ in range(2):
        x.grad = None
        if whole_step:
            weft.compile(step)(x)
        else:
            weft.compile(loss)(x).backward()
        assert type(x.grad) is weft.Tensor
        np.testing.assert_allclose(x.grad.numpy(), np.full((2, 3), 2.0))
