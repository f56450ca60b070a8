"""Matrix products in half precisions and of integers run natively and give what eager gives."""

from __future__ import annotations

import numpy as np
import pytest

import weft

DTYPES = [weft.bfloat16, weft.float16, weft.int64, weft.int32, weft.int8, weft.uint8, weft.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_of_every_dtype(dtype: weft.dtype, rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda a, b: (a @ b, a @ b[0], a[0] @ b[0]))
    weft.counters.reset()
    for _ in range(2):
        n, k, m = (int(i) for i in rng.integers(2, 40, 3))
        a, b = (
            weft.tensor(rng.integers(-9, 9, d) * (0.125 if dtype.is_floating_point else 1), dtype=dtype)
            for d in ((2, n, k), (2, k, m))
        )
        for got, expected in zip(compiled(a, b), (a @ b, a @ b[0], a[0] @ b[0]), strict=True):
            assert got.dtype is dtype and got.shape == expected.shape
            np.testing.assert_allclose(
                got.double().numpy(), expected.double().numpy(), rtol=0 if not dtype.is_floating_point else 1e-2
            )
    assert weft.counters.captures == 1 and weft.counters.foreign_segments == 0


def test_a_training_step_in_bfloat16_is_native(rng: np.random.Generator) -> None:
    weights = weft.tensor(rng.standard_normal((6, 3)) * 0.1, dtype=weft.bfloat16, requires_grad=True)
    plain = weights.detach().clone().requires_grad_()
    x = weft.tensor(rng.standard_normal((5, 6)), dtype=weft.bfloat16)

    def step(w: weft.Tensor) -> weft.Tensor:
        loss = (x @ w).tanh().square().mean()
        loss.backward()
        return loss.detach()

    weft.counters.reset()
    got, expected = weft.compile(step)(weights), step(plain)
    assert weft.counters.foreign_segments == 0 and weights.grad is not None and plain.grad is not None
    np.testing.assert_allclose(float(got), float(expected), rtol=2e-2)
    np.testing.assert_allclose(weights.grad.float().numpy(), plain.grad.float().numpy(), rtol=5e-2, atol=1e-3)
