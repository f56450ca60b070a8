"""Sorting what a mask picks and going backward: in a checkpoint under split, the second run's sizes, which were
found by then, were said to be others than the first run's; under compiled autograd a lazy gradient met zeros on
the CPU.
"""

from __future__ import annotations

import pytest

import weft
from tests.deferred import deferred
from weft import Tensor
from weft.utils.checkpoint import checkpoint


def picked(x: Tensor) -> Tensor:
    part = weft.sort((x * 2)[x.detach() > 0])[0]
    part[:1] = 0.5
    return x * 3 + part.sum()


def gradient(x: Tensor) -> list[float]:
    x = x.detach().requires_grad_()
    return weft.autograd.grad((picked(x) ** 2).sum(), x)[0].tolist()


def test_in_a_checkpoint_under_split() -> None:
    def step(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (checkpoint(picked, x, use_reentrant=False) ** 2).sum().backward()
        return x.grad

    compiled = deferred(step)
    for n in (5, 5, 3, 8):
        x = weft.linspace(-0.9, 1.1, n)
        assert compiled(x).tolist() == pytest.approx(gradient(x))


def test_of_a_lazy_tensor_under_compiled_autograd() -> None:
    for n in (2, 5, 5, 3):
        x = weft.linspace(-0.9, 1.1, n)
        with weft.compiled_autograd.enable():
            found = gradient(x.to("lazy"))
        assert found == pytest.approx(gradient(x))
