"""The backward of a compiled function that is called within a block of autocast is that of its forward: it was recorded
within the block, as if backward() were called there, so that what the forward had computed in float32 was cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.utils.checkpoint import checkpoint


def in_full_precision(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    with weft.autocast("cpu", enabled=False):
        return (x @ w).tanh() @ w.t()


def checkpointed(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return checkpoint(lambda v: (v @ w).tanh(), x, use_reentrant=False)


class Asking(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        x, w = ctx.saved_tensors
        factor = 2 if weft.is_autocast_enabled("cpu") else 1
        return g.float() @ w.t(), x.t() @ g.float() * factor


def asking(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return Asking.apply(x, w)


def hooked(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    y = x @ w
    y.register_hook(lambda g: g * (2 if weft.is_autocast_enabled("cpu") else 1))
    return y


def gradients(f: Callable[..., weft.Tensor], sizes: list[int], orders: int) -> list[np.ndarray]:
    """Of both arguments, in calls within autocast whose backward calls stand behind it."""
    outcomes = []
    w = weft.linspace(-0.5, 0.6, 12).reshape(3, 4).requires_grad_()
    for n in sizes:
        x = weft.linspace(-1, 1.5, 3 * n).reshape(n, 3).requires_grad_()
        with weft.autocast("cpu", dtype=weft.bfloat16):
            y = f(x, w)
        grads = weft.autograd.grad(y.float().square().sum(), (x, w), create_graph=orders > 1)
        if orders > 1:
            grads += weft.autograd.grad(sum(g.square().sum() for g in grads), (x, w))
        outcomes += [g.detach().numpy() for g in grads]
    return outcomes


@pytest.mark.parametrize("f", [in_full_precision, checkpointed, asking, hooked])
@pytest.mark.parametrize("split", [False, True])
def test_gradients(f: Callable[..., weft.Tensor], split: bool, rng: np.random.Generator) -> None:
    sizes = rng.integers(1, 6, 3).tolist()
    for orders in (1, 2) if f in (in_full_precision, checkpointed) else (1,):
        expected = gradients(f, sizes, orders)
        exact = f is not checkpointed  # (its values are bfloat16, rounded in another order at the second order)
        for a, b in zip(gradients(weft.compile(f, split=split), sizes, orders), expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-5 if exact else 2e-2, 1e-5 if exact else 2e-2 * np.abs(b).max())


@pytest.mark.parametrize("split", [False, True])
def test_backward_within_the_block(split: bool, rng: np.random.Generator) -> None:
    """It runs as the program that it is, as behind the block: not as operators that are computed again, which is
    refused where a function reads one memory through two tensors that require grad."""
    memory = weft.from_numpy(rng.standard_normal(12).astype(np.float32))
    u, v = memory[:9].view(3, 3).requires_grad_(), memory.detach()[3:].view(3, 3).requires_grad_()

    def f(x: weft.Tensor) -> weft.Tensor:
        return (x @ u).tanh() @ v

    compiled, outcomes = weft.compile(f, split=split), []
    for n in rng.integers(1, 6, 3).tolist():
        values = rng.standard_normal((n, 3)).astype(np.float32)
        for function, within in ((f, False), (compiled, False), (compiled, True)):
            x = weft.from_numpy(values).requires_grad_()
            with weft.autocast("cpu", dtype=weft.bfloat16):
                loss = function(x).float().square().sum()
                if within:
                    loss.backward()
            if not within:
                loss.backward()
            outcomes.append([t.grad.numpy().copy() for t in (x, u, v)])
            u.grad = v.grad = None
    for eager, behind, inside in zip(outcomes[::3], outcomes[1::3], outcomes[2::3], strict=True):
        for a, b, c in zip(eager, behind, inside, strict=True):
            np.testing.assert_array_equal(c, b)
            np.testing.assert_allclose(b, a, 3e-2, 3e-2 * np.abs(a).max())
