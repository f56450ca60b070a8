"""What a pointwise operator gives lies as its tensors do, also beside a number that only the run knows: it was
row-major then, so that later views were refused that eager mode makes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft


def scaled(x: weft.Tensor) -> list[weft.Tensor]:
    t = x.t()
    y = t / max(1, t.nonzero().shape[0])
    return [y, y.t().view(-1)]


def added(x: weft.Tensor) -> list[weft.Tensor]:
    t, k = x.t(), weft.nonzero(x > 0).shape[0]
    return [t + k, t.add(t, alpha=k), t.clamp(max=k), weft.where(t > 0, t, k), t.lerp(t, k * 0.1)]


def by_a_value(x: weft.Tensor) -> list[weft.Tensor]:
    y = x.t() * x.sum().item()
    return [y, y.t().view(-1)]


@pytest.mark.parametrize(
    ("f", "mode"),
    [
        (scaled, "compile"), (added, "compile"), (scaled, "split"), (added, "split"), (by_a_value, "split"),
        (scaled, "lazy"), (added, "lazy"), (by_a_value, "lazy"),
    ],
)
def test_strides(f: Callable[[weft.Tensor], list[weft.Tensor]], mode: str, rng: np.random.Generator) -> None:
    run = f if mode == "lazy" else weft.compile(f, split=mode == "split")
    for rows, columns in rng.integers(2, 6, (4, 2)).tolist():
        x = weft.from_numpy(rng.standard_normal((rows, columns)))
        expected = f(x)
        for a, b in zip(run(x.to("lazy") if mode == "lazy" else x), expected, strict=True):
            assert a.stride() == b.stride()
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy())
