"""as_strided speaks of bytes: copies below it count, and in-place view operators lead older views through it, eagerly and captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
def test_a_copy_below_as_strided_is_kept(wrap: Any) -> None:
    x = weft.arange(6.0).view(3, 2)
    assert wrap(lambda t: t.t().contiguous().as_strided((4,), (1,), 1) * 1.0)(x).tolist() == [2.0, 4.0, 1.0, 3.0]


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
def test_an_older_view_is_written_after_transpose_(wrap: Any, rng: np.random.Generator) -> None:
    w = weft.from_numpy(rng.standard_normal((2, 3))).requires_grad_()
    weight = rng.standard_normal((3, 2))

    def step(x: weft.Tensor, scale: weft.Tensor) -> Any:
        b = w * x
        z = b.view(6)
        b.transpose_(0, 1)
        z[1:3].mul_(3.0)
        (b * scale).sum().backward()
        out = w.grad
        w.grad = None
        return out, b.detach()

    x = weft.from_numpy(rng.standard_normal((2, 3)))
    gradient, b = wrap(step)(x, weft.from_numpy(weight))
    factors = np.array([[1.0, 3, 3], [1, 1, 1]])
    np.testing.assert_allclose(b.numpy(), (w.detach().numpy() * x.numpy() * factors).T)
    np.testing.assert_allclose(gradient.numpy(), weight.T * factors * x.numpy())
