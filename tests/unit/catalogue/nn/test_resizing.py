"""interpolate with antialiasing against a sum written out, and of pixels (uint8)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F


def triangle(d: float) -> float:
    return max(0.0, 1 - abs(d))


def keys(d: float, a: float = -0.5) -> float:
    d = abs(d)
    return ((a + 2) * d - (a + 3)) * d * d + 1 if d < 1 else ((d - 5) * d + 8) * d * a - 4 * a if d < 2 else 0.0


def matrix(have: int, size: int, step: float, kernel: object, half: int) -> np.ndarray:
    """Row i holds the weights of the elements that the stretched kernel reaches from the i-th place."""
    out = np.zeros((size, have))
    stretch = max(step, 1.0)
    for i in range(size):
        centre = (i + 0.5) * step
        low, high = max(int(centre - half * stretch + 0.5), 0), min(int(centre + half * stretch + 0.5), have)
        for j in range(low, high):
            out[i, j] = kernel((j + 0.5 - centre) / stretch)  # type: ignore[operator]
    return out / out.sum(1, keepdims=True)


@pytest.mark.parametrize("mode, kernel, half", [("bilinear", triangle, 1), ("bicubic", keys, 2)])
def test_an_antialiased_image_is_the_sum_over_the_kernel(
    mode: str, kernel: object, half: int, rng: np.random.Generator
) -> None:
    for _ in range(4):
        (h, w), (a, b) = (tuple(int(s) for s in rng.integers(2, 14, 2)) for _ in range(2))
        image = rng.normal(size=(2, 3, h, w))
        rows, columns = (
            matrix(have, size, have / size, kernel, half) if have != size else np.eye(have)
            for have, size in ((h, a), (w, b))
        )
        found = F.interpolate(weft.from_numpy(image), (a, b), mode=mode, antialias=True)
        np.testing.assert_allclose(found.numpy(), rows @ image @ columns.T, rtol=1e-10, atol=1e-12)
        leaf = weft.from_numpy(image).requires_grad_()
        g = rng.normal(size=found.shape)
        (F.interpolate(leaf, (a, b), mode=mode, antialias=True) * weft.from_numpy(g)).sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), rows.T @ g @ columns, rtol=1e-10, atol=1e-12)
    factor = float(rng.uniform(0.3, 0.8))
    line = rng.normal(size=(1, 1, 1, 20))
    wanted = line @ matrix(20, int(20 * factor), 1 / factor, kernel, half).T
    got = F.interpolate(weft.from_numpy(line), scale_factor=(1.0, factor), mode=mode, antialias=True)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_pixels_are_rounded_and_stay_pixels(mode: str, antialias: bool, rng: np.random.Generator) -> None:
    image = rng.integers(0, 2, size=(1, 2, 9, 8)) * 255  # the cubic kernel overshoots at edges
    whole = F.interpolate(weft.from_numpy(image.astype(np.uint8)), (6, 11), mode=mode, antialias=antialias)
    real = F.interpolate(weft.from_numpy(image.astype(np.float64)), (6, 11), mode=mode, antialias=antialias)
    assert whole.dtype is weft.uint8
    slack = 1 if mode == "bilinear" else 40  # columns are cut off before rows are resized
    assert np.abs(whole.numpy().astype(float) - real.numpy().clip(0, 255)).max() <= slack


def test_a_compiled_function_resizes_every_size(rng: np.random.Generator) -> None:
    def halve(x: weft.Tensor) -> weft.Tensor:
        return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)

    compiled = weft.compile(halve)
    for _ in range(3):
        x = weft.from_numpy(rng.normal(size=(1, 2, 2 * int(rng.integers(2, 8)), 2 * int(rng.integers(2, 8)))))
        np.testing.assert_allclose(compiled(x).numpy(), halve(x).numpy(), rtol=1e-10)


def test_refusals() -> None:
    x = weft.ones(1, 1, 4, 4)
    with pytest.raises(ValueError, match="bilinear and bicubic"):
        F.interpolate(x, 2, antialias=True)
    with pytest.raises(RuntimeError, match="greater than 0"):
        F.interpolate(x, scale_factor=0.1)
    assert math.isclose(F.interpolate(x, 1, mode="bicubic", antialias=True, align_corners=True).item(), 1.0)
