"""Memory shown as another dtype is no function of the values: such a view wants no gradient, as in PyTorch.
It used to have one that backward could not compute."""

from __future__ import annotations

import numpy as np

import weft


def test_they_want_none(rng: np.random.Generator) -> None:
    z = weft.from_numpy(rng.standard_normal(3) + 1j * rng.standard_normal(3)).requires_grad_()
    for shown in (z.view(weft.float64), (z * 2).view(weft.int64), z.real.contiguous().view(weft.float32)):
        assert not shown.requires_grad and shown.grad_fn is None
    x = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    y = x * 2
    y.view(weft.int64).bitwise_and_(-1)  # writes, and leaves the history as it is
    assert y._version == 1
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
