"""A function that draws with a Generator of its own and asks a tensor that it computed for `requires_grad`: the capture
failed with AttributeError, since the Generator was asked, too."""

from __future__ import annotations

import numpy as np

import weft


def test_generator_is_not_asked(rng: np.random.Generator) -> None:
    generator = weft.Generator()

    def step(x: weft.Tensor) -> weft.Tensor:
        y = x * weft.rand(x.shape, generator=generator)
        if y.requires_grad:
            y.register_hook(lambda g: g * 2)
        z: weft.Tensor = weft.cond(
            x.sum() > 0, lambda v: v * weft.rand(v.shape, generator=generator), lambda v: v.sin(), (y,)
        )
        return z

    compiled = weft.compile(step)
    for size in rng.integers(1, 6, 4).tolist():
        values = rng.standard_normal(size)
        results = []
        for run in (step, compiled):
            generator.manual_seed(size)
            x = weft.tensor(values, requires_grad=True)
            y = run(x)
            y.sum().backward()
            assert x.grad is not None
            results.append((y.detach().numpy(), x.grad.numpy(), generator.place()[::2]))
        np.testing.assert_allclose(results[0][0], results[1][0])
        np.testing.assert_allclose(results[0][1], results[1][1])
        assert results[0][2] == results[1][2]
