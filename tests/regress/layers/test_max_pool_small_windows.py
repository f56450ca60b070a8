"""Windows of few elements are compared one after another: the first of equals, the last NaN, blocks side by side."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft


def _by_hand(x: np.ndarray, kernel: tuple[int, ...], stride: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    sizes = tuple((n - k) // s + 1 for n, k, s in zip(x.shape, kernel, stride, strict=True))
    best, places = np.empty(sizes, x.dtype), np.empty(sizes, np.int64)
    for at in itertools.product(*map(range, sizes)):
        window = tuple(slice(i * s, i * s + k) for i, s, k in zip(at, stride, kernel, strict=True))
        nans = np.flatnonzero(np.isnan(x[window]))  # PyTorch takes the last NaN, and the first of equals
        inner = np.unravel_index(nans[-1] if len(nans) else np.argmax(x[window]), kernel)
        whole = tuple(i * s + j for i, s, j in zip(at, stride, inner, strict=True))
        best[at], places[at] = x[whole], np.ravel_multi_index(whole, x.shape)
    return best, places


@pytest.mark.parametrize("is_compiled", [False, True])
def test_values_places_and_gradients(is_compiled: bool, rng: np.random.Generator) -> None:
    pool = weft.nn.functional.max_pool2d

    def step(x: weft.Tensor, g: weft.Tensor) -> tuple[weft.Tensor, ...]:
        best, places = pool(x, kernel, stride, return_indices=True)
        return best.detach(), places, *weft.autograd.grad(best, x, g)

    for _ in range(4):
        kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
        stride = kernel if rng.integers(2) else tuple(int(k) for k in rng.integers(1, 4, 2))
        sizes = tuple(np.array(kernel) + rng.integers(0, 6, 2))
        data = rng.integers(-3, 3, sizes).astype(np.float32)
        data[rng.random(data.shape) < 0.1] = np.nan
        best, places = _by_hand(data, kernel, stride)
        x, g = weft.tensor(data[None]).requires_grad_(), rng.standard_normal(best.shape).astype(np.float32)
        found = (weft.compile(step) if is_compiled else step)(x, weft.tensor(g[None]))
        np.testing.assert_array_equal(found[0].numpy()[0], best)
        np.testing.assert_array_equal(found[1].numpy()[0], places)
        expected = np.zeros(data.size)
        np.add.at(expected, places.reshape(-1), g.reshape(-1))
        np.testing.assert_allclose(found[2].numpy()[0].reshape(-1), expected, rtol=1e-5, atol=1e-6)
