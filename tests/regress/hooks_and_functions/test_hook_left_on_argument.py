"""A hook that a compiled function leaves on an argument counts for the tensor of each call."""

from __future__ import annotations

import numpy as np

import weft


def test_a_hook_for_each_call(rng: np.random.Generator) -> None:
    scale = float(rng.uniform(2, 3))

    def product(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
        x.register_hook(lambda g: g * scale)
        return (x * w).sum()

    compiled = weft.compile(product)
    for n in (2, 5, 3):
        w = weft.from_numpy(rng.standard_normal(n))
        x = weft.from_numpy(rng.standard_normal(n)).requires_grad_()
        compiled(x, w).backward()
        np.testing.assert_allclose(x.grad.numpy(), w.numpy() * scale)
    assert "test_hook_left_on_argument.py" in compiled.misses[0]
