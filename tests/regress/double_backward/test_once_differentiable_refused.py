"""A compiled forward with a Function whose backward is once_differentiable gives first gradients, and refuses second
ones, which went through the operators of that backward."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


class Cube(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @weft.autograd.function.once_differentiable
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g * 3 * ctx.saved_tensors[0] ** 2


def test_second_gradients_of_a_compiled_forward_are_refused(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x: Cube.apply(x * 2).square())
    for mode in (nullcontext, ca.enable):
        v = rng.standard_normal(int(rng.integers(1, 6)))
        x = weft.from_numpy(v).requires_grad_()
        with mode():
            (slope,) = weft.autograd.grad(f(x).sum(), x)
            (again,) = weft.autograd.grad(f(x).sum(), x, create_graph=True)
            for found in (slope, again.detach()):
                np.testing.assert_allclose(found.numpy(), 384 * v**5)
            with pytest.raises(RuntimeError, match="once_differentiable"):
                again.sum().backward()
