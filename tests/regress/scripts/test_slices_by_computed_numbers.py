"""Slices of numbers that a program computes: an operator that read them stood in front of them in the plan."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft.jit.interpreter.hot import compiled_after

INDEXES = (
    "x[:n + 1, :n + 1, :n + 1]", "x[n:, :, n // 2:n + 2] * 2",
    "(x * 2)[:, n:][:n + 1] + x[:1, :1]", "x[n:][..., n - 1]",
    "x[:, :n + 1].tanh().sigmoid().exp().sum(0) * x[0, :n + 1].cos().sin()",
    "weft.cat([x[:n + 1], (x * n)[n:]], 0)[:, n:n + 1].tanh()",
)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("after", (0, 1 << 60))
def test_slices_of_computed_numbers(index, after, rng) -> None:
    text = f"def f(x, n: int):\n    y = x + 1\n    print(end='')\n    return {index}, y[:n + 1] * y[n, n:n + 1]\n"
    space = {"weft": weft}
    exec(text, space)
    f = weft.jit.CompilationUnit(text).f
    with compiled_after(0, after):
        for n in (0, 1, 1, 0):
            x = weft.tensor(rng.standard_normal((3, 3, 3)))
            for a, b in zip(f(x, n), space["f"](x, n), strict=True):
                assert a.shape == b.shape and weft.allclose(a, b)
