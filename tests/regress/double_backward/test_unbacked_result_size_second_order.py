"""A compiled forward whose result has a size that only the run finds: its gradients are differentiated again."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def rows(x: weft.Tensor) -> weft.Tensor:
    return x[x > 0]


def scaled(x: weft.Tensor) -> weft.Tensor:
    return x[x > 0] * x.sum()


def several(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    return x[x > 0].sin(), x[x < 0.5] * 2


@pytest.mark.parametrize("function", [rows, scaled, several], ids=lambda f: f.__name__)
def test_second_gradients_are_those_of_eager_mode(function, rng) -> None:
    compiled = weft.compile(function)
    for size in rng.integers(1, 6, 3):
        x = weft.from_numpy(rng.standard_normal((2, int(size)))).requires_grad_()
        found = []
        for f in (function, compiled):
            parts = f(x)
            total = sum((p * p).sum() for p in (parts if isinstance(parts, tuple) else (parts,)))
            (first,) = weft.autograd.grad(total, x, create_graph=True)
            (second,) = weft.autograd.grad((first * first).sum(), x)
            found.append((first.detach().numpy(), second.numpy()))
        for expected, given in zip(*found, strict=True):
            np.testing.assert_allclose(given, expected, rtol=1e-12)
