"""A compiled step whose custom Function gave no gradient at one call, and one at a later call, failed there: the
program that had learned of the missing gradient computed nothing that is only read with one."""

from __future__ import annotations

import pytest

import weft


def outcomes(pattern, compiles):
    missing = iter(pattern)

    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            print(g.sum().item())
            return None if next(missing) else g * 2

    def step(x, w):
        hidden = Doubled.apply((x * w).tanh().sin())
        hidden.exp().sum().backward()
        loss = hidden.sum().detach()
        return loss if w.grad is None else loss + w.grad.sum()

    step = weft.compile(step) if compiles else step
    sums = []
    for _ in pattern:
        w = weft.tensor([0.1, 0.2, 0.3], requires_grad=True)
        sums.append(step(weft.ones(3), w).item())
    return sums, step


@pytest.mark.parametrize("pattern", [(1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 0, 0, 1)])
def test_the_call_goes_on(pattern):
    sums, step = outcomes(pattern, True)
    assert sums == pytest.approx(outcomes(pattern, False)[0], rel=1e-5)
    assert not step.stepwise and len(step.entries) == 2
