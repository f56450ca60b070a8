"""Gradients, transforms and checkpoints in the body of a loop: what Python ran of the loop for the example saw the
trace's tensors, which have no history, so that a gradient through them was refused, and a checkpoint broke.
"""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft import Tensor, func
from weft.utils.checkpoint import checkpoint

FUNCTIONS = {
    "functionalize": lambda z: func.functionalize(lambda u: u.clone().mul_(2).sin_())(z),
    "grad": lambda z: func.grad(lambda u: (u**3).sum())(z),
    "grad of grad": lambda z: func.grad(lambda u: func.grad(lambda v: (v**3).sum())(u).pow(2).sum())(z),
    "vjp": lambda z: func.vjp(lambda u: u.sin(), z)[1](z)[0],
    "jvp": lambda z: func.jvp(lambda u: u.tanh(), (z,), (z,))[1],
    "linearize": lambda z: func.linearize(lambda u: u.sin(), z)[1](z),
    "vmap": lambda z: func.vmap(lambda u: u.tanh())(z),
    "jacrev": lambda z: func.vmap(func.jacrev(lambda u: u.sin()))(z).sum(2),
    "checkpoint": lambda z: checkpoint(lambda u: u.sin(), z, use_reentrant=False),
    "hvp in checkpoint": lambda z: checkpoint(
        lambda u: weft.autograd.functional.hvp(lambda v: (v**3).sum(), u, u * 0.5, create_graph=True)[1], z,
        use_reentrant=False,
    ),
}


def of_carried(function, x: Tensor) -> Tensor:
    return weft.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, function(z)), (weft.tensor(0), x))[1]


def of_outer(function, x: Tensor) -> Tensor:
    y = x * 1
    return weft.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, z * 0 + function(y)), (weft.tensor(0), x))[1]


def of_rows(function, x: Tensor) -> Tensor:
    return weft.scan(lambda c, row: (c + 1, function((row * c)[None])[0]), weft.ones(()), x)[1]


@pytest.mark.parametrize("loop", [of_carried, of_outer, of_rows])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_through_it(name: str, loop) -> None:
    def force(x: Tensor) -> Tensor:
        position = x.detach().requires_grad_()
        value = (loop(FUNCTIONS[name], position) ** 2).sum()
        return weft.autograd.grad(value, position, create_graph=True)[0] * x

    traced = weft.jit.trace(force, (weft.rand(2, 3),), check_trace=False)
    for rows in (2, 4):
        x = weft.rand(rows, 3)
        assert weft.allclose(traced(x), force(x), rtol=1e-4)
