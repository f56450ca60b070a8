"""`backward(create_graph=True)` in a compiled step: the gradients that it leaves in `.grad` have histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn


def penalty(x: weft.Tensor) -> Any:
    (x**3).sum().backward(create_graph=True)
    (x.grad**2).sum().backward()
    return x.grad.detach()


def set_aside(x: weft.Tensor) -> Any:
    y = x * 2
    (y * y * x).sum().backward(create_graph=True)
    slope, x.grad = x.grad, None
    slope.sum().backward()
    return x.grad


def added_to(x: weft.Tensor) -> Any:
    (x**3).sum().backward(create_graph=True)
    (x**2).sum().backward(create_graph=True)
    (x.grad**2).sum().backward()
    return x.grad.detach()


@pytest.mark.parametrize("step", [penalty, set_aside, added_to])
def test_they_are_differentiated_within_the_step(step: Callable[[Any], Any], rng: np.random.Generator) -> None:
    compiled = weft.compile(step)
    for n in (3, 5):
        data = rng.standard_normal(n)
        found, expected = (f(weft.from_numpy(data).requires_grad_()) for f in (compiled, step))
        assert weft.allclose(found, expected)
    assert len(compiled.entries) == 1


def test_a_trained_penalty(rng: np.random.Generator) -> None:
    def trained(is_compiled: bool) -> weft.Tensor:
        weft.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = weft.optim.SGD(model.parameters(), lr=0.01)

        def step(x: weft.Tensor) -> None:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward(create_graph=True)
            sum((p.grad**2).sum() for p in model.parameters()).backward()
            optimizer.step()

        run = weft.compile(step) if is_compiled else step
        for _ in range(3):
            run(x)
        return model.weight.detach()

    x = weft.from_numpy(rng.standard_normal((4, 3)).astype(np.float32))
    assert weft.allclose(trained(True), trained(False), atol=1e-5)


def test_one_that_stays_keeps_its_history() -> None:
    w = weft.tensor([1.0, 2.0], requires_grad=True)

    @weft.compile
    def step() -> None:
        (w**3).sum().backward(create_graph=True)

    for _ in range(2):
        w.grad = None
        step()
        (second,) = weft.autograd.grad(w.grad.sum(), w)
        assert weft.allclose(second, 6 * w.detach())
    assert "gradient with a history" in step.misses[0]
