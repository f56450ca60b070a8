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


def _loop(x: Tensor, y: Tensor) -> Tensor:
    def step(i: Tensor, t: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return i + 1, weft.cond(i == 1, lambda: (t * 0.5).detach(), lambda: t + x * y), (s * t).detach() + t

    _, t, s = weft.while_loop(lambda i, t, s: i < 3, step, (0, x * 1, y.detach() * 2))
    return t * x + s


def _scan(x: Tensor, y: Tensor) -> Tensor:
    def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return _without_grad(lambda t: t * row, carry) * carry + x.sum() * y, carry.detach() * row

    carry, rows = weft.scan(step, y, weft.stack([x, y.detach(), x * y]))
    return carry.sum() + (rows * rows).sum() * x


_CHOSEN: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: weft.cond(x.sum() > y.sum(), lambda: (x * y).detach() * y, lambda: x * y),
    lambda x, y: weft.cond(x.sum() > y.sum(), lambda: x * y, lambda: x.sin().detach()) * x + y,
    lambda x, y: weft.cond(x[0] > y[0], lambda: _without_grad(weft.sin, x) * y, lambda: y * y) + x * y,
    lambda x, y: _without_grad(lambda t: weft.cond(t[0] > 1, lambda: t * y, lambda: t.cos()), x) * x + y,
    _loop, _scan,
]
_WAYS = [(_STEPS, 3), (_STEPS + _CHOSEN, 1)]


@pytest.mark.parametrize(("steps", "count"), _WAYS, ids=["one_way", "chosen_ways"])
@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_random_programs_to_third_order(
    backend: str, steps: list[Callable[[Tensor, Tensor], Tensor]], count: int, rng: np.random.Generator
) -> None:
    for _ in range(5 if backend == "interpret" else 2):
        drawn = [steps[-1 - i] for i in rng.integers(min(len(steps), 11), size=count + 1)]
        data = rng.uniform(0.3, 1.2, (2, int(rng.integers(2, 5))))

        def forward(x: Tensor, y: Tensor, steps: list[Callable[[Tensor, Tensor], Tensor]] = drawn) -> Tensor:
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
