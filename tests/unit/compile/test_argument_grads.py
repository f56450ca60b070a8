"""`.grad` of arguments: it goes to the tensor of this call, whatever was passed when the function was captured."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def leaf(rng: np.random.Generator, rows: int, kind: str):
    x = weft.from_numpy(rng.normal(size=(rows, 3)))
    return weft.nn.Parameter(x) if kind == "parameter" else x.requires_grad_()


@pytest.mark.parametrize("kind", ["tensor", "parameter"])
@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_each_call_s_own_tensor_gets_the_gradient(kind: str, backend: str, rng: np.random.Generator) -> None:
    def step(x):
        loss = (x * x).sum()
        loss.backward()
        return loss

    compiled = weft.compile(step, backend=backend)
    weft.counters.reset()
    for rows in (2, 2, int(rng.integers(3, 9))):
        x = leaf(rng, rows, kind)
        for count in (1, 2, 3):
            compiled(x)
            np.testing.assert_allclose(x.grad.numpy(), 2 * count * x.detach().numpy(), rtol=1e-12)
    assert weft.counters.captures <= (1 if kind == "tensor" else 2)


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_a_gradient_that_is_forgotten_or_read_first(backend: str, rng: np.random.Generator) -> None:
    def forgets(x):
        x.grad = None
        (x * x).sum().backward()

    def reads(x):
        before = None if x.grad is None else x.grad * 2
        (x * x).sum().backward()
        return before

    forgetting, reading = weft.compile(forgets, backend=backend), weft.compile(reads, backend=backend)
    for _ in range(3):
        x = leaf(rng, int(rng.integers(2, 9)), "tensor")
        for _ in range(2):
            forgetting(x)
            np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy(), rtol=1e-12)
        kept = x.grad
        y = leaf(rng, int(rng.integers(2, 9)), "tensor")
        assert reading(y) is None
        np.testing.assert_allclose(reading(y).numpy(), 4 * y.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(y.grad.numpy(), 4 * y.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(kept.numpy(), 2 * x.detach().numpy(), rtol=1e-12)
