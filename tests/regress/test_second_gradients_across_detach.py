"""A backward of a compiled forward that is differentiated again lets no gradient through what the forward detached, or
computed under no_grad."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor


def _without_grad(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with weft.no_grad():
        return f(x)


def _written(x: Tensor, y: Tensor) -> Tensor:
    out = weft.zeros_like(x)
    out[:1] = x[:1] * y[:1].detach()
    with weft.no_grad():
        out2 = out * 2
    return out * out2 + y


_STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x * y, lambda x, y: x.sin() + y, lambda x, y: x * y.sum().detach(),
    lambda x, y: x * y.detach() + x * y, lambda x, y: x * x.detach() * y,
    lambda x, y: (x * _without_grad(lambda t: t.cos() * 2, y)).tanh(),
    lambda x, y: weft.cat([x[:1].detach(), y[1:]]) * x, lambda x, y: weft.where(x.detach() > 0, x * y, y),
    lambda x, y: _written(x, y), lambda x, y: weft.addcmul(x, y.detach(), x), lambda x, y: x.exp().clamp(max=3) * y,
]


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_random_programs_to_third_order(backend: str, rng: np.random.Generator) -> None:
    for _ in range(6 if backend == "interpret" else 3):
        steps = [_STEPS[i] for i in rng.integers(len(_STEPS), size=4)]
        data = rng.uniform(0.3, 1.2, (2, int(rng.integers(2, 5))))

        def forward(x: Tensor, y: Tensor, steps: list[Callable[[Tensor, Tensor], Tensor]] = steps) -> Tensor:
            for step in steps:
                x, y = step(x, y), x
            return x * y

        def gradients(function: Callable[..., Tensor], data: np.ndarray = data) -> list[np.ndarray]:
            leaves = [weft.tensor(row).requires_grad_() for row in data]
            value, found = function(*leaves).sum(), []
            for order in range(3):
                if not value.requires_grad:
                    break
                grads = weft.autograd.grad(value, leaves, create_graph=order < 2, allow_unused=True)
                found += [np.zeros(data.shape[1]) if g is None else g.detach().numpy() for g in grads]
                there = [(g * g).sum() for g in grads if g is not None]
                if not there:
                    break
                value = sum(there[1:], there[0])
            return found

        expected, found = gradients(forward), gradients(weft.compile(forward, backend=backend))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
