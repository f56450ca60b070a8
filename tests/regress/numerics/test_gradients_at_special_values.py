"""Gradients where an operator has a corner, or meets NaN, as PyTorch 2.13 gives them: renorm's of a slice with NaN
(that is not cut: 1), entr's second below 0, elu's second at 0 and its first of NaN, of several NaN in a pooling window
the last, addcmul with a truth value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

NAN, INF = float("nan"), float("inf")
Wrap = Callable[[Any], Any]
WRAPS: list[Wrap] = [lambda f: f, lambda f: weft.compile(f, backend="interpret"), weft.compile]


def gradients(wrap: Wrap, f: Any, x: Any, order: int) -> np.ndarray:
    """The gradient of that order of f's sum, elementwise where the order is 2."""

    def step(x: weft.Tensor) -> Any:
        (g,) = weft.autograd.grad(f(x).sum(), x, create_graph=order > 1)
        return g if order == 1 else weft.autograd.grad(g.sum(), x)[0]

    return np.asarray(wrap(step)(weft.tensor(x, dtype=weft.float64, requires_grad=True)).detach().numpy())


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_slice_that_is_not_cut_has_gradient_one(wrap: Wrap, rng: np.random.Generator) -> None:
    short, long = rng.uniform(0.01, 0.2, 2), rng.uniform(1, 2, 2)
    for p, order in ((2, 2), (1, 1), (3, 3)):
        g = gradients(wrap, lambda x, p=p: weft.renorm(x, p, 0, 1.0), [[1.0, NAN], short.tolist(), long.tolist()], 1)
        assert g[:2].tolist() == [[1.0, 1.0], [1.0, 1.0]]
        norm = (long**order).sum() ** (1 / order)
        expected = 1 / norm - long.sum() * (long / norm) ** (order - 1) / norm**2
        np.testing.assert_allclose(g[2], expected, atol=1e-5)


@pytest.mark.parametrize("wrap", WRAPS)
def test_corners(wrap: Wrap, rng: np.random.Generator) -> None:
    below = -float(rng.uniform(0.5, 2))
    g = gradients(wrap, weft.special.entr, [below, 2.0], 2)
    np.testing.assert_allclose(g, [-1 / below, -0.5])
    assert np.isnan(gradients(wrap, weft.special.entr, [below], 1)).all()
    alpha = float(rng.uniform(0.5, 2))
    points = [0.0, -0.0, below, 1.0, NAN, INF]
    first = gradients(wrap, lambda x: F.elu(x, alpha), points, 1)
    np.testing.assert_allclose(first, [alpha, alpha, alpha * np.exp(below), 1, 1, 1])
    second = gradients(wrap, lambda x: F.elu(x, alpha), points, 2)
    np.testing.assert_allclose(second, [0, 0, alpha * np.exp(below), 0, 0, 0])
    np.testing.assert_allclose(gradients(wrap, F.selu, [0.0, 1.0], 2), 0)
    second = gradients(wrap, lambda x: F.celu(x, alpha), points, 2)
    np.testing.assert_allclose(second, [0, 0, np.exp(below / alpha) / alpha, 0, 0, 0])


@pytest.mark.parametrize("wrap", WRAPS)
def test_the_last_nan_of_a_window_is_picked(wrap: Wrap, rng: np.random.Generator) -> None:
    row = [1.0, NAN, NAN, 2.0, NAN, 3.0, NAN, NAN, 4.0, 4.0, 0.0, 1.0]
    expected = [[0.0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0]]
    for f in (lambda x: F.max_pool1d(x, 4), lambda x: F.adaptive_max_pool1d(x, 3)):
        assert gradients(wrap, f, [row], 1).tolist() == expected
    _, places = wrap(lambda x: F.max_pool1d(x, 4, return_indices=True))(weft.tensor([row]))
    assert places.tolist() == [[2, 7, 8]]
    image = [[[1.0, NAN, NAN, 2], [NAN, 3, NAN, NAN], [0, 1, 2, 3], [3, 2, NAN, 0]]]
    for f in (F.max_pool2d, F.adaptive_max_pool2d):
        g = gradients(wrap, lambda x, f=f: f(x, 2), image, 1)
        assert sorted(np.flatnonzero(g).tolist()) == [4, 7, 12, 14]
    g = gradients(wrap, lambda x: F.adaptive_max_pool2d(x, 1), image, 1)
    assert np.flatnonzero(g).tolist() == [14]


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_truth_value_is_a_factor_of_products(wrap: Wrap, rng: np.random.Generator) -> None:
    for dtype in (weft.float64, weft.int64):
        x = weft.from_numpy(rng.integers(1, 9, 5)).to(dtype)
        for value in (True, False):
            out = wrap(lambda x, value=value: weft.addcmul(x, x, x, value=value))(x)
            assert out.tolist() == (x + value * x * x).tolist()
    g = gradients(wrap, lambda x: weft.addcmul(x, x, x, value=True), [2.0, 3.0], 1)
    assert g.tolist() == [5.0, 7.0]
    with pytest.raises(weft.WeftError, match="Boolean alpha"):
        wrap(lambda x: weft.add(x, x, alpha=True))(weft.ones(2))
