"""What one mask picks has one size, however often it is picked: x[m] - y[m] was refused as two sizes that may differ,
and so was the backward of v[m] *= -1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def masked_error(x: Any, y: Any) -> Any:
    m = y > 0
    return ((x[m] - y[m]) ** 2).sum() + (x.masked_select(m) * x[m.nonzero().squeeze(1)]).sum()


def bounced(x: Any, y: Any) -> Any:
    v = x * y
    out_of_box = v.abs() > 0.5
    v[out_of_box] *= -2.0
    v[out_of_box] += y[out_of_box]
    return (v**3).sum()


def rows(x: Any, y: Any) -> Any:
    m = y[:, 0] > 0
    return ((x[m] @ y[m].T) ** 2).sum() + x[m, 1].sum() * (x[m, 0] * y[m, 0]).sum()


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
@pytest.mark.parametrize(("function", "dims"), [(masked_error, 1), (bounced, 1), (bounced, 2), (rows, 2)])
def test_values_gradients_and_one_capture(rng: np.random.Generator, function: Any, dims: int, backend: str) -> None:

    def with_gradients(x: Any, y: Any) -> Any:
        x = x.detach().requires_grad_()
        value = function(x, y)
        (first,) = weft.autograd.grad(value, x, create_graph=True)
        (second,) = weft.autograd.grad((first**2).sum(), x)
        return value.detach(), first.detach(), second

    compiled = weft.compile(with_gradients, backend=backend)
    captures = weft.counters.captures
    for _ in range(4):
        shape = tuple(int(n) for n in rng.integers(2, 9, dims))
        x, y = (weft.from_numpy(rng.standard_normal(shape)) for _ in range(2))
        for got, expected in zip(compiled(x, y), with_gradients(x, y), strict=True):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
    assert weft.counters.captures == captures + 1


def test_two_masks_find_two_sizes() -> None:
    apart = weft.compile(lambda x, m, n: weft.cat([x[m], x[n]]))
    x = weft.arange(6.0)
    m, n = x > 1, x > 3
    assert apart(x, m, n).tolist() == [2, 3, 4, 5, 4, 5]
    with pytest.raises(weft.WeftError):
        weft.compile(lambda x, m, n: x[m] + x[n])(x, m, n)
