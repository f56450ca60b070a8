"""A checkpoint in the body of a loop, with a gradient within it, could not be traced: what Python ran of the loop for
the example saw the trace's tensors, and the second run of the checkpoint made such a tensor of a plain one.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor
from weft.utils.checkpoint import checkpoint


def product(z: Tensor) -> Tensor:
    return weft.autograd.functional.hvp(lambda u: (u**3).sum() * 0.1, z, z * 0.5, create_graph=True)[1]


def force(z: Tensor, around: Tensor) -> Tensor:
    value = (checkpoint(lambda u, v: (u.sin() * v).sum(), z, v=around, use_reentrant=False) ** 2).sum()
    return weft.autograd.grad(value, z, create_graph=True)[0]


def within(x: Tensor) -> Tensor:
    body = lambda i, z: (i + 1, checkpoint(product, z, use_reentrant=False))  # noqa: E731
    return weft.while_loop(lambda i, z: i < 2, body, (weft.tensor(0), x))[1]


def around(x: Tensor) -> Tensor:
    body = lambda i, z: (i + 1, force(z, x).sin())  # noqa: E731
    return weft.while_loop(lambda i, z: i < 2, body, (weft.tensor(0), x))[1]


def test_a_gradient_within_a_checkpoint() -> None:
    check(within)


def test_a_checkpoint_within_a_gradient() -> None:
    check(around)


def check(function) -> None:
    traced = weft.jit.trace(function, (weft.rand(2, 3, requires_grad=True),), check_trace=False)
    for rows in (2, 4):
        x = weft.rand(rows, 3, requires_grad=True)
        assert weft.allclose(traced(x), function(x))
        grads = [weft.autograd.grad(f(x).sum(), x)[0] for f in (traced, function)]
        assert weft.allclose(*grads)
