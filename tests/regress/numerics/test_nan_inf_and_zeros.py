"""NaN, infinities and the zeros of functions: values and gradients as PyTorch has them, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

NAN, INF = float("nan"), float("inf")
X = (NAN, INF, -INF, -1.0, 2.0)
GRADIENTS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "relu": (F.relu, [1, 1, 0, 0, 1]),
    "leaky_relu": (F.leaky_relu, [0.01, 1, 0.01, 0.01, 1]),
    "hardtanh": (F.hardtanh, [1, 0, 0, 0, 0]),
    "clamp": (lambda v: v.clamp(-1, 1), [0, 0, 0, 1, 0]),
    "threshold": (lambda v: F.threshold(v, 0.5, 0.0), [1, 1, 0, 0, 1]),
    "abs": (weft.abs, [0, 1, -1, -1, 1]),
    "l1_loss": (lambda v: F.l1_loss(v, weft.zeros_like(v), reduction="none"), [0, 1, -1, -1, 1]),
    "smooth_l1": (lambda v: F.smooth_l1_loss(v, weft.zeros_like(v), reduction="none"), [NAN, 1, -1, -1, 1]),
    "huber": (lambda v: F.huber_loss(v, weft.zeros_like(v), reduction="none"), [NAN, 1, -1, -1, 1]),
    "amax": (lambda v: weft.amax(weft.stack([v, weft.zeros_like(v)]), 0), [NAN, 1, 0, 0, 1]),
    "greatest": (lambda v: weft.max(weft.stack([v, weft.zeros_like(v)])), [1, 0, 0, 0, 0]),
    "inf norm": (lambda v: weft.stack([v, 0.5 * weft.ones_like(v)]).norm(INF, dim=0), [0, 1, -1, -1, 1]),
    "maximum": (lambda v: weft.maximum(v, weft.ones_like(v)), [1, 1, 0, 0, 1]),
    "minimum": (lambda v: weft.minimum(weft.ones_like(v), v), [1, 0, 1, 1, 0]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, compiled: bool) -> None:
    function, expected = GRADIENTS[name]
    x = weft.tensor(X, requires_grad=True)

    def gradient(x: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(function(x).sum(), x)[0]

    found = (weft.compile(gradient) if compiled else gradient)(x)
    np.testing.assert_allclose(found.numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize("compiled", [False, True])
def test_values(compiled: bool) -> None:
    def values(x: weft.Tensor, rows: weft.Tensor, target: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return weft.sign(x), F.multi_margin_loss(rows, target, reduction="none")

    sign, loss = (weft.compile(values) if compiled else values)(
        weft.tensor(X), weft.tensor([[NAN, 1, 2], [NAN, 1, 2]]), weft.tensor([1, 0])
    )
    assert sign.tolist() == [0, 1, -1, -1, 1]
    np.testing.assert_allclose(loss.numpy(), [2 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_lgamma_where_it_is_0_and_at_the_least_numbers(compiled: bool, rng: np.random.Generator) -> None:
    run = weft.compile(lambda v: weft.lgamma(v)) if compiled else weft.lgamma
    assert run(weft.tensor([1.0, 2.0])).tolist() == [0, 0]
    for root, slope, curve in (
        ((1.0, -0.5772156649015329, np.pi**2 / 12), (2.0, 0.4227843350984671, np.pi**2 / 12 - 0.5))
    ):
        x = root + rng.standard_normal(200) * 10.0 ** rng.uniform(-14, -9, 200)
        off = x - root
        np.testing.assert_allclose(run(weft.from_numpy(x)).numpy(), off * (slope + curve * off), rtol=2e-14, atol=0)
    small = np.array([5e-324, -2.67e-322, 1e-310, -1e-300])
    np.testing.assert_allclose(run(weft.from_numpy(small)).numpy(), -np.log(np.abs(small)), rtol=1e-14)
