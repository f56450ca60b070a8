"""A 0-dim source was refused by index_copy, which writes it into a vector in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor

WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f, "compiled": weft.compile, "functionalized": weft.func.functionalize,
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_written_and_has_its_gradient(way: str, rng: np.random.Generator) -> None:
    def step(x: Tensor, number: Tensor, at: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        out = weft.index_copy(x * 1, 0, at, number * 2)
        return out, (out * weights).sum()

    run = WAYS[way](step)
    for size in rng.integers(2, 8, 3).tolist():
        place = int(rng.integers(size))
        x, weights = (weft.from_numpy(rng.standard_normal(size)) for _ in range(2))
        number = weft.tensor(float(rng.standard_normal()), dtype=weft.float64, requires_grad=True)
        out, loss = run(x.requires_grad_(), number, weft.tensor([place]), weights)
        loss.backward()
        expected, gradient = x.detach().numpy().copy(), weights.numpy().copy()
        expected[place] = 2 * number.item()
        gradient[place] = 0.0
        np.testing.assert_allclose(out.detach().numpy(), expected)
        np.testing.assert_allclose(x.grad.numpy(), gradient)
        np.testing.assert_allclose(number.grad.item(), 2 * weights[place].item())
        assert number.grad.shape == ()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Number of indices"):
        weft.index_copy(weft.zeros(3), 0, weft.tensor([0, 1]), weft.tensor(1.0))
    with pytest.raises(RuntimeError, match="source tensor shape"):
        weft.index_copy(weft.zeros(3, 2), 0, weft.tensor([0]), weft.tensor(1.0))
