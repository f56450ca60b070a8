"""A hook that comes while a backward runs moves the numbers of the calls behind it: which gradients a custom Function
had given was taken for what the new hook gives, and the run failed with UnboundLocalError.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


class First(weft.autograd.Function):
    """Its second argument gets no gradient."""

    @staticmethod
    def forward(ctx: Any, a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
        return a * 2 + b

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return g * 2, None


@pytest.mark.parametrize("compiler", [None, ca.interpret])
def test_patterns_of_other_hooks(compiler: Any, rng: np.random.Generator) -> None:
    ca.reset()
    size = int(rng.integers(2, 6))
    x, y = (weft.from_numpy(rng.standard_normal(size)).requires_grad_() for _ in range(2))
    for adds in (False, False, True, True, False, True):
        x.grad = y.grad = None
        told: list[Any] = []
        inner = x.sin()
        early = First.apply(inner, y)
        late = early * 1.5

        def add(g: weft.Tensor, early: Any = early, adds: bool = adds, told: list[Any] = told) -> None:
            told.append("late")
            if adds:
                early.register_hook(lambda g: told.append("added"))

        late.register_hook(add)
        with ca.enable(compiler):
            late.sum().backward()
        assert told == (["late", "added"] if adds else ["late"])
        np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos(x.detach().numpy()))
        assert y.grad is None
