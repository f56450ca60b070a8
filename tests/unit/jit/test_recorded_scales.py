"""Numbers that only the run knows where an operator takes a number and no tensor: alpha, value, fill_value, bounds."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit

STEPS = (
    "y.add_(x, alpha=i)", "y = y.add(x, alpha=k)", "y.sub_(x, alpha=i * k)", "y = weft.rsub(y, x, alpha=k)",
    "y = weft.addcmul(y, x, x, value=i)", "y.addcdiv_(x, x + 3, value=k)", "y.clamp_(min=k)", "y[0] = k", "y.mul_(k)",
    "y.lerp_(x, k)", "y = y + weft.full([3], i)", "y = y * weft.full_like(x, k)", "y[1:].add_(x[1:], alpha=k)",
    "y.fill_(i)", "y.scatter_(0, weft.tensor([1]), i)",
)


def program(step: str):
    return weft.jit.CompilationUnit(f"""
def f(x: Tensor, n: int):
    y, i, k = x * 1, 0, 0.1
    while float(y.abs().sum()) < 1000 and i < n:
        {step}
        i += 1
        k = k * 1.5
    return y
""").f


def gradients(function, x, n: int):
    x = weft.tensor(x, requires_grad=True)
    y = function(x, n)
    (first,) = weft.autograd.grad((y * y).sum(), [x], create_graph=True, allow_unused=True)
    second = None
    if first is not None and first.requires_grad:
        (second,) = weft.autograd.grad((first * first).sum(), [x], allow_unused=True)
    return [np.zeros(3) if v is None else v.detach().numpy() for v in (y, first, second)]


@pytest.mark.parametrize("step", STEPS)
def test_such_steps_are_recorded_with_both_orders(step, rng) -> None:
    f = program(step)
    compiled = weft.compile(f)
    for n in (2, 4):
        x = rng.uniform(-1, 1, 3)
        with weft.jit.optimized_execution(False):
            expected = gradients(f, x, n)
        for a, b in zip(gradients(compiled, x, n), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_formula_that_chooses_is_not_taken_apart_where_gradients_flow(rng) -> None:
    """What is not chosen may have a gradient that is nan."""
    f = program("y = weft.nn.functional.softplus(y * 300, i + 1)")
    x = rng.uniform(0.5, 1, 3)
    with weft.no_grad():
        np.testing.assert_allclose(weft.compile(f)(weft.tensor(x), 1).numpy(), x * 300)
    a, b = (weft.tensor(x, requires_grad=True) for _ in range(2))
    compiled = weft.compile(f)
    (found,) = weft.autograd.grad(compiled(a, 1).sum(), a)
    (expected,) = weft.autograd.grad(f(b, 1).sum(), b)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    assert "gradient of an operator with a number" in compiled.misses[0]
