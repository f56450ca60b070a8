"""Results of a compiled forward that nobody goes backward from counted with gradients of 0: infinite ones made NaN of
the gradients of others, and gradients with history were functions of what only those depend on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft.compiled_autograd import enable, interpret


def infinite(x: Any, h: Any) -> Any:
    return (x * 1e3).exp().sum(), x * 2, (h - 1).log() * x, (x - 1).sqrt()


def through_one(x: Any, h: Any) -> Any:
    v = h.relu() + x
    return v * v.sin(), v, (v * 1e3).exp()


def heard(x: Any, h: Any) -> Any:
    y = (x * h).exp()
    y.register_hook(lambda g: g * 2 + 1)
    return y * y, x.sin() * h, y


@pytest.mark.parametrize("function", [infinite, through_one, heard])
@pytest.mark.parametrize("backend", ["interpret", None])
@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize("creates", [False, True])
def test_gradients(function: Callable[[Any, Any], Any], backend: str | None, captures: bool, creates: bool) -> None:
    step = weft.compile(function, backend=backend) if backend else weft.compile(function)
    for n in (3, 3, 2):
        for at in range(3):
            seen = []
            for f in (function, step):
                x, h = weft.ones(n, requires_grad=True), weft.ones(n, requires_grad=True)
                y = f(x, h)[at]
                with enable(interpret) if captures and f is step else nullcontext():
                    grads = weft.autograd.grad(y.sum(), [x, h], create_graph=creates, allow_unused=True)
                seen.append([None if g is None else (g.detach().numpy(), g.requires_grad) for g in grads])
            for ours, theirs in zip(seen[1], seen[0], strict=True):
                assert (ours is None) == (theirs is None)
                if ours is not None and theirs is not None:
                    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
                    assert ours[1] == theirs[1]
