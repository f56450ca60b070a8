"""A lazy call that several operators compute below one node of autograd (a norm of a special order, addmm without its
first operand) has its gradient however often the step is repeated, and one that writes its operand writes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft

STEPS: dict[str, tuple[Callable[[weft.Tensor], weft.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "norm 2": (lambda x: weft.linalg.vector_norm(x, 2), lambda x: x / np.sqrt((x * x).sum())),
    "norm 1": (lambda x: weft.linalg.vector_norm(x, 1), np.sign),
    "norm inf": (
        lambda x: weft.linalg.vector_norm(x, float("inf")),
        lambda x: np.where(np.abs(x) == np.abs(x).max(), np.sign(x), 0),
    ),
    "addmm": (lambda x: weft.addmm(x, x, x, beta=0).sum(), lambda x: x.sum(1)[None] + x.sum(0)[:, None]),
    "addmm, a view": (
        lambda x: weft.addmm(x[:, :1], x, x, beta=0).sum(), lambda x: x.sum(1)[None] + x.sum(0)[:, None]
    ),
    "softmax": (lambda x: x.softmax(1).sum(), np.zeros_like),
}


@pytest.mark.parametrize("name", STEPS)
def test_repeated_steps(name: str, rng: np.random.Generator) -> None:
    step, wanted = STEPS[name]
    n = int(rng.integers(2, 5))
    for _ in range(5):
        values = rng.standard_normal((n, n))
        x = weft.from_numpy(values).to("lazy").requires_grad_()
        y = step(x)
        weft.lazy.mark_step()
        assert y.requires_grad
        y.backward()
        np.testing.assert_allclose(x.grad.cpu().numpy(), wanted(values), atol=1e-9)


@pytest.mark.parametrize("activation", [weft.nn.functional.selu, weft.nn.functional.celu, weft.nn.functional.mish])
def test_repeated_activations_in_place(activation: Callable[..., weft.Tensor], rng: np.random.Generator) -> None:
    for _ in range(5):
        x = weft.from_numpy(rng.standard_normal(6))
        y = x.to("lazy") + 0
        assert activation(y, inplace=True) is y
        weft.lazy.mark_step()
        np.testing.assert_allclose(y.cpu().numpy(), activation(x).numpy(), atol=1e-9)
