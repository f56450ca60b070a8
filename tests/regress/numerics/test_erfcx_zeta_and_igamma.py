"""erfcx, zeta, igamma and igammac beside exact values: sums of fractions to 60 digits, and closed forms."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import pytest

import weft


def _f64(*values: float) -> weft.Tensor:
    return weft.tensor(values, dtype=weft.float64)


# Q(n, x) = e^-x sum of x^k / k! over k < n
@pytest.mark.parametrize(
    ("n", "x"), [(1, 0.3), (2, 700), (3, 2), (30, 30), (30, 100), (100, 99), (100, 130), (1000, 990), (10_000, 10_100)]
)
def test_incomplete_gammas_of_integers(n: int, x: float) -> None:
    getcontext().prec = 60
    term, total = Decimal(1), Decimal(0)
    for k in range(n):
        total += term
        term = term * Decimal(x) / (k + 1)
    upper = total * (-Decimal(x)).exp()
    assert weft.igammac(_f64(n), _f64(x)).item() == pytest.approx(float(upper), rel=1e-13)
    assert weft.special.gammainc(_f64(n), _f64(x)).item() == pytest.approx(float(1 - upper), rel=1e-14)


def test_incomplete_gammas_of_halves() -> None:
    x = _f64(1e-8, 0.01, 0.3, 1.0, 1.4, 9.0, 40.0)
    roots = [math.sqrt(v) for v in x.tolist()]
    half = _f64(0.5).expand(7)
    assert weft.igamma(half, x).tolist() == pytest.approx([math.erf(v) for v in roots], rel=2e-15)
    assert weft.igammac(half, x).tolist() == pytest.approx([math.erfc(v) for v in roots], rel=2e-14)


def test_incomplete_gammas_at_the_edges() -> None:
    inf, nan = math.inf, math.nan
    a = _f64(0.0, 0.0, 1.0, -1.0, 1.0, inf, 1.0, inf, nan)
    x = _f64(1.0, 0.0, 0.0, 1.0, -1.0, 1.0, inf, inf, 1.0)
    assert repr(weft.igamma(a, x).tolist()) == repr([1.0, nan, 0.0, nan, nan, 0.0, 1.0, nan, nan])
    assert repr(weft.igammac(a, x).tolist()) == repr([0.0, nan, 1.0, nan, nan, 1.0, 0.0, nan, nan])
    # Q(a, x) is a E1(x) for small a; E1(0.3) = 0.9056766516758467
    assert weft.igammac(_f64(1e-12), _f64(0.3)).item() == pytest.approx(0.9056766516758467e-12, rel=1e-11)


def test_zeta_in_closed_form() -> None:
    x = _f64(2, 4, 2, 6, 2, 3, 2)
    q = _f64(1, 1, 0.5, 1, -0.5, -1.5, 1e9)
    pi, third = math.pi, 1.2020569031595942854
    before = -8 - 8 / 27  # the terms of q = -1.5 before 0.5
    expected = [pi**2 / 6, pi**4 / 90, pi**2 / 2, pi**6 / 945, 4 + pi**2 / 2, 7 * third + before, 1.0000000005e-9]
    assert weft.special.zeta(x, q).tolist() == pytest.approx(expected, rel=2e-14)
    edges = weft.special.zeta(_f64(1, 0.5, 2, 2, 2.5), _f64(2, 2, 0, -3, -0.5)).tolist()
    assert repr(edges) == repr([math.inf, math.nan, math.inf, math.inf, math.nan])


def test_zeta_and_polygamma() -> None:
    x = _f64(0.2, 1.0, 3.7, 20.0)
    for n in (1, 2, 3, 5):
        sign = (-1) ** (n + 1) * math.factorial(n)
        expected = [sign * v for v in weft.special.zeta(_f64(n + 1).expand(4), x).tolist()]
        assert weft.polygamma(n, x).tolist() == pytest.approx(expected, rel=1e-13)


def test_erfcx() -> None:
    x = [-5.0, -1.0, -0.0, 1e-10, 0.46, 0.47, 1.0, 3.99]
    found = weft.special.erfcx(_f64(*x)).tolist()
    assert found == pytest.approx([math.exp(v * v) * math.erfc(v) for v in x], rel=1e-14)
    # 1 / (x sqrt(pi)) (1 - 1 / (2 x^2) + 3 / (4 x^4) - 15 / (8 x^6)), and the ends
    far = [30.0, 1e3, 1e8, 1e100]
    series = []
    for v in far:
        r = 1 / (v * v)
        series.append((1 - r / 2 + 0.75 * r * r - 1.875 * r * r * r) / v / math.sqrt(math.pi))
    assert weft.special.erfcx(_f64(*far)).tolist() == pytest.approx(series, rel=1e-11)
    assert weft.special.erfcx(_f64(math.inf, -math.inf, -27.0)).tolist() == [0.0, math.inf, math.inf]


@pytest.mark.parametrize("compiled", [False, True])
def test_their_gradients(compiled: bool) -> None:
    first = _f64(2.0, 3.0, 1.5)
    x = _f64(1.0, 0.3, 4.0).requires_grad_()
    for function in (
        weft.special.erfcx, lambda x: weft.special.zeta(first, x), lambda x: weft.igamma(first, x),
        lambda x: weft.special.gammaincc(first, x),
    ):
        run = weft.compile(function) if compiled else function
        assert weft.autograd.gradcheck(run, (x,))
        assert weft.autograd.gradgradcheck(run, (x,), fast_mode=True)
