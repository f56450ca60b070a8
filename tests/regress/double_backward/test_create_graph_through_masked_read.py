"""create_graph through a read by a mask: the gradient of what a mask picks has the picked size, which a program is told
and does not find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_mask_of_all_dims_or_of_rows(rng: np.random.Generator, is_compiled: bool) -> None:
    n, k = (int(v) for v in rng.integers(2, 6, 2))
    x = weft.from_numpy(rng.standard_normal((n, k))).requires_grad_()
    rows = weft.from_numpy(rng.standard_normal(n) > 0)
    for f in (lambda x: (x[x > 0] ** 4).sin(), lambda x: (x[rows] ** 3).sin() * x.sum()):
        def orders(f: Any) -> list[weft.Tensor]:
            (first,) = weft.autograd.grad(f(x).sum(), x, create_graph=True)
            (second,) = weft.autograd.grad(first.sin().sum(), x, create_graph=True)
            return [first, second, *weft.autograd.grad(second.sum(), x)]

        expected = orders(f)
        with ca.enable():
            found = orders(weft.compile(f) if is_compiled else f)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("values", [(), (1,), (3,), (1, 3), "picked"])
def test_the_gradient_of_values_put_by_a_mask(rng: np.random.Generator, values: Any) -> None:
    """One number or row in many places gets the sum of their gradients."""
    mask = np.array([True, False, True, True])
    shape = (3, 3) if values == "picked" else values
    x, v = weft.from_numpy(rng.standard_normal((4, 3))), weft.from_numpy(rng.standard_normal(shape)).requires_grad_()
    g = rng.standard_normal((4, 3))
    for put in (weft.from_numpy(mask), weft.from_numpy(np.broadcast_to(mask[:, None], (4, 3)).copy())):
        if put.ndim == 2 and shape not in ((), (1,)):
            continue
        out = x.index_put((put,), v)
        (found,) = weft.autograd.grad((out * weft.from_numpy(g)).sum(), v)
        expected = g[mask]
        for axis, (n, size) in enumerate(zip(expected.shape, (1,) * (2 - len(shape)) + shape, strict=True)):
            expected = expected.sum(axis, keepdims=True) if size == 1 and n != 1 else expected
        np.testing.assert_allclose(found.numpy(), expected.reshape(shape), rtol=1e-12)
