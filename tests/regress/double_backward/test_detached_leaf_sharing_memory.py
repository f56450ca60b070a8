"""A leaf and a leaf that was detached of it show one memory and have histories of their own: in a captured backward
that is differentiated again they are two tensors."""

from __future__ import annotations

import numpy as np

import weft
from weft import compiled_autograd


def _second(is_captured: bool) -> list[np.ndarray]:
    x, w = weft.tensor([0.3, -2.0, 0.8], requires_grad=True), weft.tensor([1.1, 3.0, 1.2], requires_grad=True)
    y = x.detach().requires_grad_()
    with compiled_autograd.enable() if is_captured else weft.enable_grad():
        slopes = weft.autograd.grad((y * w * x).sum(), (x, w), create_graph=True)
        found = weft.autograd.grad(sum((g * g).sum() for g in slopes), (x, w, y))
    return [g.numpy() for g in found]


def test_second_gradients_of_a_captured_backward() -> None:
    for found, expected in zip(_second(True), _second(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
