"""Bessel functions by the identities that bind them (Abramowitz and Stegun 9.1.16, 9.6.15), Airy's at its zeros, and
orthogonal polynomials at their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.support.errors import NotForDType

special = weft.special
INF, NAN = math.inf, math.nan
Rng = np.random.Generator


def values(name: str, x: np.ndarray) -> np.ndarray:
    return getattr(special, name)(weft.from_numpy(x)).numpy()


def test_cross_products(rng: Rng) -> None:
    """J1 Y0 - J0 Y1 = 2 / (pi x), I0 K1 + I1 K0 = 1 / x: from near 0 over where tables meet to far out."""
    beside_5 = 5 + 1e-9 * rng.normal(size=4)
    x = np.concatenate([10 ** rng.uniform(-8, 0, 20), rng.uniform(0.5, 12, 60), beside_5, 10 ** rng.uniform(1, 5, 20)])
    j0, j1, y0, y1 = (values(f"bessel_{n}", x) for n in ("j0", "j1", "y0", "y1"))
    np.testing.assert_allclose((j1 * y0 - j0 * y1) * math.pi * x / 2, 1, rtol=2e-14)
    x = np.concatenate([10 ** rng.uniform(-8, 0, 20), rng.uniform(0.5, 3, 30), rng.uniform(3, 300, 20)])
    i0, i1, k0, k1 = (values(f"modified_bessel_{n}", x) for n in ("i0", "i1", "k0", "k1"))
    np.testing.assert_allclose((i0 * k1 + i1 * k0) * x, 1, rtol=3e-15)
    for order in "01":
        scaled = values(f"scaled_modified_bessel_k{order}", x)
        np.testing.assert_allclose(scaled, (k0, k1)[int(order)] * np.exp(x), rtol=2e-13)


def test_zeros_of_bessel_functions() -> None:
    """Their first zeros, rounded: the value there is the slope times what rounding took away."""
    for name, zero, slope in (
        ("j0", 2.404825557695773, -0.5191474972894669), ("j1", 3.8317059702075125, -0.402759395702553),
    ):
        above = np.nextafter(zero, 9)
        low, high = values(f"bessel_{name}", np.array([zero, above]))
        assert high - low == pytest.approx(slope * (above - zero), rel=1e-9) and abs(low) < 1e-15


def test_values_at_the_edges() -> None:
    x = weft.tensor([0.0, -0.0, -1.0, NAN, INF], dtype=weft.float64)
    assert special.bessel_y0(x)[:4].tolist()[:2] == [-INF, -INF] and special.bessel_y1(x[2:4]).isnan().all()
    assert special.modified_bessel_k0(x)[[0, 1, 4]].tolist() == [INF, INF, 0]
    assert special.scaled_modified_bessel_k1(x)[[0, 4]].tolist() == [INF, 0]
    assert special.spherical_bessel_j0(x)[[0, 1, 4]].tolist() == [1, 1, 0]
    assert special.bessel_j0(x)[0] == 1 and special.bessel_j1(-x)[2] == -special.bessel_j1(x)[2]
    with pytest.raises(NotForDType):
        special.bessel_j0(x.half())
    assert special.bessel_j0(weft.tensor([True])).dtype is weft.float32


def test_airy(rng: Rng) -> None:
    """Its first zeros (Abramowitz and Stegun, table 10.13), the equation y'' = x y by differences; and far out."""
    zeros = np.array([-2.3381074104597670, -4.0879494441309706, -5.5205598280955511, -10.040174341558086])
    assert np.abs(values("airy_ai", zeros)).max() < 2e-15
    x, h = np.concatenate([rng.uniform(-8, 6, 50), [-5.0, -2.0, 0.75, 4.0]]), 1e-3
    steps = [values("airy_ai", x + k * h) for k in (-2, -1, 0, 1, 2)]
    second = (-steps[0] + 16 * steps[1] - 30 * steps[2] + 16 * steps[3] - steps[4]) / (12 * h * h)
    np.testing.assert_allclose(second, x * steps[2], atol=2e-9)
    assert values("airy_ai", np.array([0.0, 200.0])).tolist() == [pytest.approx(0.355028053887817239, rel=1e-15), 0]


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_polynomials_at_their_ends(dtype: weft.dtype) -> None:
    n = weft.arange(-1, 9)
    one = weft.ones(10, dtype=dtype)
    for name, at_one, at_minus_one in (
        ("chebyshev_polynomial_t", lambda k: 1, lambda k: 1),
        ("chebyshev_polynomial_u", lambda k: k + 1, lambda k: k + 1),
        ("chebyshev_polynomial_v", lambda k: 1, lambda k: 2 * k + 1),
        ("legendre_polynomial_p", lambda k: 1, lambda k: 1),
        ("chebyshev_polynomial_w", lambda k: 2 * k + 1, lambda k: 1),
    ):
        p = getattr(special, name)
        assert p(one, n).tolist() == [0, *(at_one(k) for k in range(9))]
        assert p(-one, n).tolist() == [0, *((-1) ** k * at_minus_one(k) for k in range(9))]
        if name.startswith("chebyshev"):
            shifted = getattr(special, f"shifted_{name}")
            assert shifted(one * 0, n).tolist() == p(-one, n).tolist()
            np.testing.assert_allclose(
                shifted(one * 0.3, n + 20).numpy(), p(one * -0.4, n + 20).numpy(), rtol=1e-4, atol=1e-4
            )
    assert special.laguerre_polynomial_l(0.0, n).tolist() == [0] + [1] * 9
    high = special.hermite_polynomial_he(weft.tensor([0.5, 0.5]), weft.tensor([2.9, 600.0]))
    assert high.isnan().tolist() == [False, True]
    with pytest.raises(TypeError):
        special.legendre_polynomial_p(0.5, 2)
