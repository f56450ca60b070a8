"""The gradient of eigh by a symmetric or Hermitian matrix is symmetric or Hermitian, whichever triangle is read, and
so is a second one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

WEIGHTS = np.cos(np.arange(9.0)).reshape(3, 3)


def matrices(is_complex: bool) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    a = rng.normal(size=(2, 3, 3)) + (1j * rng.normal(size=(2, 3, 3)) if is_complex else 0)
    return a + np.conj(np.swapaxes(a, -1, -2))


def loss(x: weft.Tensor, triangle: str) -> weft.Tensor:
    values, vectors = weft.linalg.eigh(x, triangle)
    weights = weft.from_numpy(WEIGHTS)
    return (vectors.abs().square() * weights).sum() + (values * weights[0]).sum()


def adjoint(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_eigh(is_complex: bool, triangle: str, is_compiled: bool) -> None:
    a = matrices(is_complex)

    def step(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        slope = weft.autograd.grad(loss(x, triangle), x, create_graph=True)[0]
        return slope, weft.autograd.grad(weft.view_as_real(slope).square().sum() if is_complex else
                                         slope.square().sum(), x)[0]

    slope, second = (weft.compile(step) if is_compiled else step)(weft.from_numpy(a.copy()).requires_grad_())
    for g in (slope.detach().numpy(), second.numpy()):
        np.testing.assert_allclose(g, adjoint(g), atol=1e-9)
    # along a Hermitian direction it is the slope of the loss
    direction = matrices(is_complex)[::-1] * 1e-5
    up, down = (loss(weft.from_numpy(a + sign * direction), triangle).item() for sign in (1, -1))
    along = np.sum(np.conj(slope.detach().numpy()) * direction).real
    assert along == pytest.approx((up - down) / 2, rel=1e-5)
