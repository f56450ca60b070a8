"""What is left of one row behind a start that the run computes: with examples of symbols that are at least 2, its size
was negative, and no order of dims was found for the result.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor
from weft.jit.interpreter.hot import compiled_after


@weft.jit.script
def rest(x: Tensor, js: list[int]) -> Tensor:
    y = x.sin()
    for _ in js:
        z = weft.stack([y[i] * i for i in range(x.size(0))])
        k = x.shape[1]
        y = y + z[:k].sum() - weft.tanh(z[k:]).sum()
    return y


def test_second_gradients_of_what_is_left_of_one_row() -> None:
    with compiled_after(0, 0):
        for sizes in ((3, 3), (1, 4), (1, 1)):
            x = weft.full(sizes, 0.5, dtype=weft.float64, requires_grad=True)
            (first,) = weft.autograd.grad(rest(x, [0, 1]).sum(), x, create_graph=True)
            (second,) = weft.autograd.grad(first.sum(), x)
            with weft.jit.optimized_execution(False):
                (g,) = weft.autograd.grad(rest(x, [0, 1]).sum(), x, create_graph=True)
                (gg,) = weft.autograd.grad(g.sum(), x)
            assert weft.allclose(first, g) and weft.allclose(second, gg)
