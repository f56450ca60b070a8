"""A loss of the stacked values of more than 200 iterations: the stack of their gradients was made a loop that copies
rows, before they were seen to be views. Such a loop is not native, so each iteration was recorded by itself: a minute
until the first step."""

from __future__ import annotations

import numpy as np

import weft


def trajectory(x: weft.Tensor, steps: int) -> weft.Tensor:
    v, values = x, []
    for _ in range(steps):
        v = v + 0.1 * v.sin() * x.cos() - v * 0.5 + x * 0.1
        v = v * 1.01 + v.tanh() * 0.2
        values.append(v)
    return weft.stack(values)


def test_it_is_a_loop_forward_and_backward(rng: np.random.Generator) -> None:
    steps = int(rng.integers(205, 290))
    x = weft.from_numpy(rng.uniform(-1, 1, 5)).requires_grad_()
    target = weft.from_numpy(rng.normal(size=(steps, 5)))

    def step(x: weft.Tensor) -> weft.Tensor:
        (gradient,) = weft.autograd.grad((trajectory(x, steps) - target).square().mean(), x)
        return gradient

    compiled = weft.compile(step)
    np.testing.assert_allclose(compiled(x).numpy(), step(x).numpy(), rtol=1e-9)
    (program,) = weft.explain(compiled, x).programs
    assert ["one loop" in loop for loop in program.loops] == [True, True]
