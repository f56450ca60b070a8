"""A block that computes what was computed outside of it has the value from outside; a view of it that the backward
reads is one of that value."""

from __future__ import annotations

import numpy as np

import weft


def test_a_mask_that_is_computed_outside_and_in_a_branch(rng) -> None:
    def f(x, n, p):
        outer = n > 0

        def scaled():
            rows = (n > 0).unsqueeze(1)
            return weft.where(rows, x * x, x).sin()

        return weft.cond(p, lambda: (scaled(),), lambda: (x * 3,))[0] * outer.sum()

    compiled = weft.compile(f)
    for p in (True, False):
        found = []
        for function in (f, compiled):
            x = weft.tensor(values := np.arange(6.0).reshape(3, 2), requires_grad=True)
            (first,) = weft.autograd.grad(
                function(x, weft.tensor([1, 0, 2]), weft.tensor(p)).sum(), [x], create_graph=True
            )
            again = weft.autograd.grad((first * first).sum(), [x])[0] if first.requires_grad else first * 0
            found.append((first.detach().numpy(), again.numpy(), values))
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
