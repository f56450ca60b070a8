"""What a write through a view saved of its own result has a history of its own, by the write's node: second gradients
go through that node and through CopySlices, in one walk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca

MODES: dict[str, Callable[[], Any]] = {
    "engine": nullcontext, "native": ca.enable, "interpreted": lambda: ca.enable(ca.interpret)
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeps_view", [False, True])
def test_second_gradients_of_results_written_through_views(
    mode: str, keeps_view: bool, rng: np.random.Generator
) -> None:
    n = int(rng.integers(2, 6))
    v = rng.standard_normal((n, 3)) * 0.3
    x = weft.from_numpy(v).requires_grad_()
    base = x * 1.5
    kept = base[1:].exp_()
    if not keeps_view:
        del kept
    with MODES[mode]():
        (slope,) = weft.autograd.grad(base.square().sum(), x, create_graph=True)
        (bend,) = weft.autograd.grad(slope.sum(), x)
        with pytest.raises(RuntimeError, match="second time"):
            base.sum().backward()
    first, second = np.full_like(v, 4.5) * v, np.full_like(v, 4.5)
    first[1:], second[1:] = 3 * np.exp(3 * v[1:]), 9 * np.exp(3 * v[1:])
    np.testing.assert_allclose(slope.detach().numpy(), first)
    np.testing.assert_allclose(bend.numpy(), second)


@pytest.mark.parametrize("mode", MODES)
def test_a_first_differentiable_gradient_lies_as_its_leaf(mode: str, rng: np.random.Generator) -> None:
    n, k = (int(m) for m in rng.integers(2, 7, 2))
    p = weft.from_numpy(rng.standard_normal((n, k))).t().detach().requires_grad_()
    w = weft.from_numpy(rng.standard_normal((k, n)))
    with MODES[mode](), pytest.warns(UserWarning, match="reference cycle"):
        (p * p * w).sum().backward(create_graph=True)
    assert p.grad.stride() == p.stride() == (1, k) and p.grad.requires_grad
    np.testing.assert_allclose(p.grad.detach().numpy(), 2 * p.detach().numpy() * w.numpy())
    p.grad = None


@pytest.mark.parametrize("mode", MODES)
def test_a_bias_accumulates_before_its_weight(mode: str) -> None:
    """In PyTorch the weight's gradient flows through the node of a transposition first."""
    seen: list[str] = []
    layers = [weft.nn.Linear(3, 3) for _ in range(2)]
    for i, layer in enumerate(layers):
        for name, parameter in layer.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, name=f"{i}.{name}": seen.append(name))
    with MODES[mode]():
        layers[1](layers[0](weft.ones(2, 3)).tanh()).sum().backward()
    assert seen == ["1.bias", "1.weight", "0.bias", "0.weight"]
