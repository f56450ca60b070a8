"""`backward` by a leaf that a compiled function makes: with create_graph its `.grad` has a history, and memory of its
own, whatever else holds the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def penalty(x: weft.Tensor, y: weft.Tensor) -> Any:
    (x**3 * y).sum().backward(create_graph=True)
    (again,) = weft.autograd.grad((x.grad**2).sum(), x)
    return again, x.grad.detach()


def added_to(x: weft.Tensor, y: weft.Tensor) -> Any:
    (x**3 * y).sum().backward(create_graph=True)
    first = x.grad
    (x**2 * y).sum().backward(create_graph=True)
    (x.grad * first).sum().backward()
    return x.grad.detach(), first.detach(), x.grad is first


def kept_in_place(x: weft.Tensor, y: weft.Tensor) -> Any:
    (x * y).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    return first is x.grad, first


def shared(x: weft.Tensor, y: weft.Tensor) -> Any:
    other = (y * 2).detach().requires_grad_()
    (x + other).sum().backward()
    x.grad.mul_(2)
    return x.grad, other.grad


def shared_with_a_history(x: weft.Tensor, y: weft.Tensor) -> Any:
    other = (y * 2).detach().requires_grad_()
    (x + other).sum().backward(create_graph=True)
    with weft.no_grad():
        x.grad.mul_(2)
    return x.grad.detach(), other.grad.detach()


def the_callers(x: weft.Tensor, y: weft.Tensor) -> Any:
    gradient = y * 1
    x.backward(gradient)
    x.grad.mul_(3)
    return x.grad, gradient


STEPS = (penalty, added_to, kept_in_place, shared, shared_with_a_history, the_callers)
LEAVES: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "computed": lambda y: (y * 0.5).detach().requires_grad_(), "made": lambda y: weft.ones_like(y, requires_grad=True),
    "parameter": lambda y: weft.nn.Parameter(y.sin()),
}


def outcome(result: Any) -> list[Any]:
    return [r.tolist() if isinstance(r, weft.Tensor) else r for r in result]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("step", STEPS)
def test_as_in_eager_mode(step: Callable[..., Any], leaf: str, backend: str, rng: np.random.Generator) -> None:
    def function(y: weft.Tensor) -> Any:
        return step(LEAVES[leaf](y), y)

    compiled = weft.compile(function, backend=backend)
    for n in (3, 5, 2):
        y = weft.from_numpy(rng.standard_normal(n))
        ours, theirs = outcome(compiled(y)), outcome(function(y))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
    assert len(compiled.entries) == 1


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("step", STEPS)
def test_of_arguments(step: Callable[..., Any], rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda x, y: step(x, y))
    for n in (3, 5):
        x, y = (weft.from_numpy(rng.standard_normal(n)) for _ in range(2))
        ours, theirs = (outcome(f(x.clone().requires_grad_(), y)) for f in (compiled, step))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
