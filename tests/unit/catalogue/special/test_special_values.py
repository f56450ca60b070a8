"""Values that are known exactly: the normal distribution's functions and modified Bessel functions at their edges,
far out, and in every precision."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import weft

special = weft.special
INF, NAN = float("inf"), float("nan")
Rng = np.random.Generator


def _tensor(*values: float, dtype: weft.dtype = weft.float64) -> weft.Tensor:
    return weft.tensor(values, dtype=dtype)


def test_normal_distribution(rng: Rng) -> None:
    x = rng.uniform(-5, 5, 50)
    np.testing.assert_allclose(
        special.ndtr(weft.from_numpy(x)).numpy(), [math.erfc(-v / math.sqrt(2)) / 2 for v in x], rtol=1e-12
    )
    p = rng.uniform(0, 1, 50)
    np.testing.assert_allclose(
        special.ndtri(weft.from_numpy(p)).numpy(), [NormalDist().inv_cdf(v) for v in p], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        special.log_ndtr(weft.from_numpy(x)).exp().numpy(), special.ndtr(weft.from_numpy(x)).numpy(), rtol=1e-12
    )
    assert special.ndtri(_tensor(0.0, 0.5, 1.0)).tolist() == [-INF, 0, INF]
    assert special.ndtri(_tensor(-0.1, 1.1, NAN)).isnan().all()


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_far_below_the_mean(dtype: weft.dtype) -> None:
    """There the distribution function is the density over -x, to 1/x**2: its logarithm does not underflow."""
    for x in (-50.0, -1e4):
        expected = -x * x / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log1p(-1 / (x * x))
        assert special.log_ndtr(_tensor(x, dtype=dtype)).item() == pytest.approx(expected, rel=1e-6)
    at = {weft.float32: -10.0, weft.float64: -20.0}[dtype]  # where one formula takes over from the other
    left, right = special.log_ndtr(_tensor(at * (1 + 1e-6), at * (1 - 1e-6), dtype=dtype)).tolist()
    assert left < right and right - left < 1e-3


def test_entropy_of_a_probability() -> None:
    got = special.entr(_tensor(-1.0, 0.0, 0.5, 1.0, NAN)).tolist()
    assert got[:4] == [-INF, 0, pytest.approx(0.5 * math.log(2)), 0] and math.isnan(got[4])


@pytest.mark.parametrize("dtype", [weft.float16, weft.float32, weft.float64])
def test_bessel_functions(dtype: weft.dtype, rng: Rng) -> None:
    x = weft.from_numpy(rng.uniform(-12, 12, 20)).to(dtype)
    wide = x.double()
    close = {"rtol": {weft.float16: 2e-3, weft.float32: 2e-6, weft.float64: 1e-13}[dtype]}
    np.testing.assert_allclose(special.i0(wide).numpy(), np.i0(wide.numpy()), rtol=1e-13)
    for name in ("i0", "i0e", "i1", "i1e"):
        np.testing.assert_allclose(
            getattr(special, name)(x).double().numpy(), getattr(special, name)(wide).numpy(), **close
        )
    np.testing.assert_allclose((special.i1e(wide) * wide.abs().exp()).numpy(), special.i1(wide).numpy(), rtol=1e-13)
    h = 1e-6  # the derivative of i0 is i1
    np.testing.assert_allclose(
        ((special.i0(wide + h) - special.i0(wide - h)) / (2 * h)).numpy(),
        special.i1(wide).numpy(), rtol=1e-6, atol=1e-6,
    )


def test_bessel_functions_far_out() -> None:
    x = _tensor(-INF, -1e5, 0.0, 1e5, INF)
    assert special.i0e(x).tolist()[::2] == [0, 1, 0]
    np.testing.assert_allclose(special.i0e(_tensor(1e5)).item(), 1 / math.sqrt(2e5 * math.pi), rtol=1e-5)
    assert special.i0(x).tolist() == [INF, INF, 1, INF, INF]
    assert special.i1(x).tolist() == [-INF, -INF, 0, INF, INF]
    near = special.i0e(_tensor(20 - 1e-9, 20 + 1e-9))
    assert near[0].item() == pytest.approx(near[1].item(), rel=1e-9)


def test_compiled(rng: Rng) -> None:
    x = weft.from_numpy(rng.uniform(-25, 25, 30)).requires_grad_()

    def total(v: weft.Tensor) -> weft.Tensor:
        return (
            special.log_ndtr(v).sum() + special.i0e(v).sum() + special.i1e(v).sum() + special.ndtri(v.sigmoid()).sum()
        )

    np.testing.assert_allclose(weft.compile(total)(x).item(), total(x).item(), rtol=1e-10)
    assert weft.autograd.gradcheck(lambda v: special.log_ndtr(v) + special.i1e(v), x)
