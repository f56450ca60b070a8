"""erf, erfc, erfinv against the C library (erf, erfc) and against the equation that defines an inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.ops import special


def worst_ulps(got, expected):
    """The largest error in units of the last place of the expected value."""
    expected = np.asarray(expected, got.dtype)
    return float(
        np.max(np.abs(got.astype(np.float64) - expected.astype(np.float64)) / np.spacing(np.abs(expected)), initial=0.0)
    )


def of_floats(fn, x):
    return np.array([fn(float(v)) for v in x.reshape(-1)]).reshape(x.shape)


@pytest.fixture
def points(rng):
    return np.concatenate([
        rng.uniform(-6, 6, 3000), rng.uniform(-1.3, 1.3, 3000), 10.0 ** rng.uniform(-12, 0, 500),
        [0.25, 0.65, 0.84375, 1.0, 1.25, 2.5, 4.0],
    ])


def test_erf_and_erfc_in_double_precision_are_within_three_ulp_of_libm(rng, points):
    # ours is within 2 ulp of the exact value
    assert worst_ulps(special.erf(points), of_floats(math.erf, points)) <= 3
    tail = np.concatenate([points, rng.uniform(5, 26, 1000)])
    assert worst_ulps(special.erfc(tail), of_floats(math.erfc, tail)) <= 7  # libm allows itself up to 5


def test_single_precision_is_within_one_ulp(points):
    x = points.astype(np.float32)
    assert worst_ulps(special.erf(x), of_floats(math.erf, x)) <= 1.5
    positive = np.abs(x[np.abs(x) < 9])
    assert worst_ulps(special.erfc(positive), of_floats(math.erfc, positive)) <= 1.0
    assert special.erf(x).dtype == np.float32


def test_erfinv_inverts_erf_and_erfc(rng):
    x = rng.uniform(0.01, 0.9, 2000)
    y = special.erfinv(x)
    slope = 2 / math.sqrt(math.pi) * np.exp(-y * y)
    assert np.max(np.abs(of_floats(math.erf, y) - x) / (slope * np.spacing(y) + np.spacing(x))) <= 4
    near_one = 1 - 10.0 ** rng.uniform(-15, -1, 500)
    z = special.erfinv(near_one)
    np.testing.assert_allclose(of_floats(math.erfc, z), 1 - near_one, rtol=2e-14)
    np.testing.assert_array_equal(special.erfinv(-near_one), -z)


def test_limits_and_signs():
    with np.errstate(all="ignore"):
        x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 40.0, -40.0])
        np.testing.assert_array_equal(special.erf(x), [0, 0, 1, -1, np.nan, 1, -1])
        assert np.signbit(special.erf(x)[1]) and not np.signbit(special.erf(x)[0])
        np.testing.assert_array_equal(
            special.erf(x.astype(np.float32)), np.array([0, 0, 1, -1, np.nan, 1, -1], np.float32)
        )
        np.testing.assert_array_equal(special.erfc(x), [1, 1, 0, 2, np.nan, 0, 2])
        np.testing.assert_array_equal(
            special.erfinv(np.array([1.0, -1.0, 1.5, -2.0, np.nan, 0.0])), [np.inf, -np.inf] + 3 * [np.nan] + [0]
        )


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4), (40000,)])
def test_shape_is_kept_and_blocks_join(rng, shape):
    x = rng.normal(size=shape)
    for fn in (special.erf, special.erfc, special.erfinv):
        with np.errstate(all="ignore"):
            whole = fn(x)
            assert whole.shape == shape and whole.dtype == x.dtype
            np.testing.assert_array_equal(whole.reshape(-1)[:5], fn(x.reshape(-1)[:5].copy()))
