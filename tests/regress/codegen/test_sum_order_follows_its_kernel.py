"""The order of a total depended on what else its kernel computed, so that one loss had two values by a last bit."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def alone(x: weft.Tensor) -> weft.Tensor:
    return (x * x).sum()


def beside_much(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
    y = x * x
    others = [x + 1.5, x - y, weft.exp(x), weft.sin(x), weft.tanh(x * y), x.abs().sqrt(), y / (x.abs() + 1)]
    return (y.sum(), *others)


@pytest.mark.parametrize("size", [20, 63, 100, 128, 1000, 5000])
def test_a_total_has_the_same_bits(size: int) -> None:
    x = weft.tensor(np.random.default_rng(size).normal(size=size).astype(np.float32))
    assert weft.compile(alone)(x).item() == weft.compile(beside_much)(x)[0].item()
