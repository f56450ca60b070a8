"""A list of what a loop over a size gave is joined after somebody has read its last value: that one is a tensor as
others by then, and the list is still as long as the size."""

from __future__ import annotations

import numpy as np

import weft


def test_lists_of_several_loops_and_joins_are_one_program() -> None:
    def run(x: weft.Tensor, h: weft.Tensor) -> tuple[weft.Tensor, ...]:
        path = [h]
        for t in range(1, x.shape[0]):
            h = weft.tanh(h * 0.9 + x[t]) * x[t]
            path.append(h)
        for row in x:
            h = weft.sin(path[-1] * 0.5 + row) + h
            path.append(h)
        loss = weft.stack(path).square().mean() + h.sum()
        loss.backward()
        return loss, weft.cat(path)

    step = weft.compile(run)
    rng = np.random.default_rng(22)
    for length in (20, 27, 33, 12):
        arrays = rng.normal(size=(length, 3)), rng.normal(size=3)
        seen = []
        for function in (step, run):
            x, h = (weft.tensor(a, requires_grad=True) for a in arrays)
            results = function(x, h)
            seen.append([*results, x.grad, h.grad])
        for mine, eager in zip(*seen, strict=True):
            np.testing.assert_allclose(mine.detach().numpy(), eager.detach().numpy(), rtol=1e-12, atol=1e-12)
    assert len(step.entries) == 1
