"""In a trace, what a loop gave whose body calls a transform on what it carries had no gradient: the example ran on
traced tensors, which have no history where a level of a transform takes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft

Body = Callable[[weft.Tensor], weft.Tensor]


def _inner(z: weft.Tensor) -> weft.Tensor:
    return weft.func.grad(lambda u: (u**3).sum() * 0.1)(z)


LOOPS: dict[str, Body] = {
    "while_loop": lambda x: weft.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, _inner(z)), (0, x))[1],
    "scan": lambda x: weft.scan(lambda c, t: (_inner(c), c.sum()), x, weft.arange(2.0))[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_by_what_a_loop_is_given(name: str) -> None:
    def force(x: weft.Tensor) -> weft.Tensor:
        position = x.detach().requires_grad_()
        return weft.autograd.grad(LOOPS[name](position).sum(), position, create_graph=True)[0] + x

    traced = weft.jit.trace(force, (weft.rand(2, 3),), check_trace=False)
    x = weft.rand(4, 3) + 0.5
    assert weft.allclose(traced(x), force(x))
