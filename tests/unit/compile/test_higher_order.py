"""create_graph through the backward of a compiled forward: derivatives of any order, against eager and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def test_three_orders_of_a_power(rng: Rng) -> None:
    values = rng.standard_normal(int(rng.integers(1, 9)))
    x = weft.from_numpy(values).requires_grad_()
    compiled = weft.compile(lambda x: x**5)
    (first,) = weft.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = weft.autograd.grad(second.sum(), x)
    for found, expected in ((first, 5 * values**4), (second, 20 * values**3), (third, 60 * values**2)):
        np.testing.assert_allclose(found.detach().numpy(), expected)


FUNCTIONS: dict[str, Any] = {
    "products": lambda a, b: ((a @ b).tanh() * a.sum()).sum(0),
    "two results": lambda a, b: ((a @ b).exp(), (a * a).mean(1)),
    "views": lambda a, b: a.t()[1:].reshape(-1).softmax(0) * b.abs().sum(),
    "a write": lambda a, b: (a * 1.0).mul_(b.sum()).sin(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_differences(rng: Rng, name: str) -> None:
    n, m, k = (int(v) for v in rng.integers(2, 5, 3))
    compiled = weft.compile(FUNCTIONS[name])
    inputs = leaf(rng, n, m), leaf(rng, m, k)
    assert gradcheck(compiled, inputs) and gradgradcheck(compiled, inputs)
    turned = weft.from_numpy(rng.standard_normal((m, n))).t().requires_grad_(), inputs[1]  # dims in another order
    assert gradgradcheck(compiled, turned)


def test_a_gradient_penalty_of_a_model_alone(rng: Rng) -> None:
    """The model is compiled, the step is not: the penalty's gradients reach the parameters."""
    weft.manual_seed(int(rng.integers(1000)))
    model = weft.nn.Sequential(weft.nn.Linear(3, 8), weft.nn.Tanh(), weft.nn.Linear(8, 1)).double()
    x = leaf(rng, 5, 3)
    found: list[Any] = []
    for net in (model, weft.compile(model)):
        model.zero_grad()
        (slope,) = weft.autograd.grad(net(x).sum(), x, create_graph=True)
        ((slope.square().sum(1).sqrt() - 1) ** 2).mean().backward()
        found.append([None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()])
    for eager, compiled in zip(*found, strict=True):
        assert (eager is None) == (compiled is None)
        if eager is not None:
            np.testing.assert_allclose(compiled, eager, rtol=1e-9, atol=1e-12)


def test_what_was_written_since_is_refused(rng: Rng) -> None:
    x, b = leaf(rng, 3), leaf(rng, 3)
    compiled = weft.compile(lambda x: (x * x + b).sin())
    out = compiled(x)
    with weft.no_grad():
        b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        weft.autograd.grad(out.sum(), x, create_graph=True)


def test_a_branch_says_what_to_do(rng: Rng) -> None:
    x = leaf(rng, 3)
    compiled = weft.compile(lambda x: weft.cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos()))
    with pytest.raises(RuntimeError, match="compile the whole step"):
        weft.autograd.grad(compiled(x).sum(), x, create_graph=True)
