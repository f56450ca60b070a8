"""A tensor of a number that is computed late in the program: what reads it was fused with an earlier operator and ran
before the number was there (zeros, or what an earlier call had left)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import weft

NUMBERS: dict[str, Callable[[float], float]] = {
    "plus": lambda k: k + 2.0,
    "sin": lambda k: math.sin(k * 2) * 3,
    "fmod": lambda k: math.fmod(k, 0.3),
}


@pytest.mark.parametrize("filled", ["tensor", "full", "0-dim"])
@pytest.mark.parametrize("name", NUMBERS)
def test_number_of_a_fill(name: str, filled: str, rng: np.random.Generator) -> None:
    number_of = NUMBERS[name]

    def step(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        k = math.exp(-0.1 * x[x > 0].shape[0])
        first = x * k
        weft.repeat_interleave(weft.arange(x.shape[0]), (x > 0).long() + 1)
        number = number_of(k)
        if filled == "tensor":
            return first, x * weft.tensor(number, dtype=x.dtype)
        if filled == "full":
            return first, x + weft.full((x.shape[0],), number, dtype=x.dtype).exp()
        return first, x.sum() * weft.tensor(number, dtype=x.dtype), weft.tensor(number, dtype=x.dtype) * 2

    compiled = weft.compile(step)
    with weft.no_grad():
        for _ in range(3):
            x = weft.tensor(rng.standard_normal(rng.integers(1, 9)))
            for result, expected in zip(compiled(x), step(x), strict=True):
                np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-12)
