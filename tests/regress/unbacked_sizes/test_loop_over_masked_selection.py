"""A loop with a branch over what a mask has chosen: within the loop its size is known, whatever node has it first."""

from __future__ import annotations

import numpy as np

import weft


def test_a_branch_in_a_loop_over_chosen_elements(rng) -> None:
    def f(x, w):
        y = x[x > 0]

        def body(a, n):
            return weft.cond(a.sum() > 2, lambda: a * w, lambda: a.flip(0) + w), n + 1

        return weft.while_loop(lambda a, n: n < 3, body, (y, 0))[0].sum()

    compiled = weft.compile(f)
    for size in (5, 9):
        values, found = rng.normal(size=size), []
        for function in (f, compiled):
            x, w = weft.tensor(values, requires_grad=True), weft.tensor(1.1, dtype=weft.float64)
            out = function(x, w)
            out.backward()
            found.append((out.item(), x.grad.numpy()))
        np.testing.assert_allclose(found[0][0], found[1][0])
        np.testing.assert_allclose(found[0][1], found[1][1])
