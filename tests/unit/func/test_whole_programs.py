"""Programs that people write with transforms, eager and compiled: clipped per-example gradients, learning to learn,
a differential equation."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.func import functional_call, grad, grad_and_value, hessian, vmap


def test_a_step_with_clipped_gradients_of_every_example():
    """The whole step in one program: gradients are assigned, the optimizer steps."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def loss(p: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(functional_call(model, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    def step(x: Any, y: Any) -> Any:
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        gradients, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(parameters, x, y)
        norms = sum(g.flatten(1).pow(2).sum(1) for g in gradients.values()).sqrt()
        scale = (1 / norms).clamp(max=1)
        for name, p in model.named_parameters():
            g = gradients[name]
            p.grad = (g * scale.reshape(-1, *[1] * (g.ndim - 1))).mean(0)
        optimizer.step()
        return losses.mean()

    start = copy.deepcopy(model.state_dict())
    x, y = weft.randn(16, 4), weft.randint(0, 3, (16,))
    eager = [float(step(x, y)) for _ in range(3)]
    model.load_state_dict(start)
    compiled = weft.compile(step)
    np.testing.assert_allclose([float(compiled(x, y)) for _ in range(3)], eager, rtol=1e-5)
    assert eager[2] < eager[0]


def test_gradients_through_steps_of_gradient_descent(rng):
    w, x, y = (weft.from_numpy(rng.normal(size=s)) for s in ((3,), (5, 8, 3), (5, 8)))

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w - y) ** 2).mean()

    def task(w: Any, x: Any, y: Any) -> Any:
        return loss(w - 0.1 * grad(loss)(w, x, y), x, y)

    def meta(w: Any) -> Any:
        return vmap(task, in_dims=(None, 0, 0))(w, x, y).mean()

    # each task's loss is |A (w - eta g(w)) - y|^2 / n with g(w) = 2 A' (A w - y) / n: its gradient in closed form
    expected = np.zeros(3)
    for a, b in zip(x.numpy(), y.numpy(), strict=True):
        gram, n = a.T @ a * 2 / 8, 8
        moved = w.numpy() - 0.1 * (2 / n * a.T @ (a @ w.numpy() - b))
        expected += (np.eye(3) - 0.1 * gram) @ (2 / n * a.T @ (a @ moved - b)) / 5
    np.testing.assert_allclose(grad(meta)(w).numpy(), expected)
    np.testing.assert_allclose(weft.compile(lambda w: grad(meta)(w))(w).numpy(), expected)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile])
def test_a_network_fitted_to_a_differential_equation(wrap, rng):
    """The Laplacian of a network at many points, and the gradient of its square by ordinary backward."""
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    points = weft.from_numpy(rng.normal(size=(5, 2)))

    def laplacian(points: Any) -> Any:
        return vmap(lambda q: hessian(lambda z: net(z).squeeze(-1))(q).diagonal().sum())(points)

    residual = wrap(lambda points: laplacian(points).pow(2).mean())
    residual(points).backward()
    a, b = net[0].weight.detach().numpy(), net[0].bias.detach().numpy()
    v = net[2].weight.detach().numpy()[0]
    t = np.tanh(points.numpy() @ a.T + b)
    found = (-2 * t * (1 - t**2) * (a**2).sum(1)) @ v
    np.testing.assert_allclose(laplacian(points).detach().numpy(), found)
    slope = (2 * found[:, None] * (-2 * t * (1 - t**2) * (a**2).sum(1))).mean(0)
    np.testing.assert_allclose(net[2].weight.grad.numpy()[0], slope)
