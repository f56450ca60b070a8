"""A backward call from one of several results of a compiled forward, where nothing comes in for the others."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import Tensor


def _stacked(x: Tensor, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """A sum of gradients has sizes under another name where one of its summands is absent."""
    a = weft.stack([x * w, h])
    b = a[0] * a[1]
    c = h.cumsum(0) * 0.3 * b
    d = c.reshape(1, -1).squeeze(0)
    assert c.grad_fn is not None
    c.grad_fn.register_hook(lambda ins, outs: tuple(g if g is None else g * 3 for g in ins))
    return d, b


def _sorted(x: Tensor, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    a = h * 1
    a[1:].add_(h[1:])
    return a * weft.sort(x)[0], a


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("which", [0, 1])
def test_sums_without_a_summand(which: int, backend: str, rng: np.random.Generator) -> None:
    gradients = []
    data = rng.uniform(0.2, 1, (3, int(rng.integers(2, 6))))
    for function in (_stacked, weft.compile(_stacked, backend=backend)):
        leaves = [weft.tensor(row).requires_grad_() for row in data]
        function(*leaves)[which].sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9)  # type: ignore[union-attr]


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_what_only_other_results_need_may_be_written(backend: str, rng: np.random.Generator) -> None:
    x, h, w = (weft.tensor(row).requires_grad_() for row in rng.uniform(0.2, 1, (3, int(rng.integers(2, 6)))))
    _, result = weft.compile(_sorted, backend=backend)(x, h, w)
    with weft.no_grad():
        result.mul_(2)  # (saved for the gradient of x; the scatter of that one may raise)
    result.sum().backward()
    assert h.grad is not None and h.grad.tolist() == [1.0] + [2.0] * (h.numel() - 1)
