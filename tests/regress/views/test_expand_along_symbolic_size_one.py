"""expand() of a computed value along a dim whose size is a symbol, 1 in the example: native code read too far."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("axis", [0, 1])
def test_a_computed_value_is_repeated(rng: np.random.Generator, axis: int) -> None:
    compiled = weft.compile(lambda x, n, m: (x * 2).expand(n, m).sum(0))
    for _ in range(3):
        n, m = (int(k) for k in rng.integers(2, 9, 2))
        values = rng.standard_normal((n, 1) if axis else (1, m))
        found = compiled(weft.from_numpy(values), n, m)
        np.testing.assert_allclose(found.numpy(), np.broadcast_to(values * 2, (n, m)).sum(0))


def test_inside_of_a_backward(rng: np.random.Generator) -> None:
    n, m = (int(k) for k in rng.integers(2, 9, 2))
    row, x = rng.standard_normal(m), rng.standard_normal((n, 1))

    def slope(x: weft.Tensor, row: weft.Tensor, n: int, m: int) -> weft.Tensor:
        return weft.autograd.grad(((x * x).expand(n, m) * row).sum(), x)[0]

    given = weft.from_numpy(x).requires_grad_(), weft.from_numpy(row), n, m
    np.testing.assert_allclose(weft.compile(slope)(*given).numpy(), 2 * x * row.sum())
