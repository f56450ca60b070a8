"""The second derivative of as_strided read the memory of a transposed gradient as if it lay row-major."""

from __future__ import annotations

import numpy as np

import weft


def test_a_transposed_cotangent(rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 6))
    x = weft.from_numpy(rng.standard_normal((n, n + 1))).requires_grad_()
    seed = weft.from_numpy(rng.standard_normal((n, 2))).requires_grad_()
    slope = weft.autograd.grad(x.as_strided((n, 2), (n + 1, 1)), x, seed, create_graph=True)[0]
    values = rng.standard_normal((n, n + 1))
    for cotangent in (weft.from_numpy(values), weft.from_numpy(values.T.copy()).t()):
        (found,) = weft.autograd.grad(slope, seed, cotangent, retain_graph=True)
        np.testing.assert_array_equal(found.numpy(), values[:, :2])
