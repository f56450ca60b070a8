"""The NumPy handler of the scalar protocol: it is complete, and it has the protocol's edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.ops.scalar import METHODS
from weft.ops.scalar_numpy import NUMPY, NumpyScalar, run_body
from weft.types import dtype as dt

INTEGERS = [np.int8, np.int16, np.int32, np.int64]


def test_every_method_of_the_protocol_is_there():
    missing = [m for m in METHODS if not callable(getattr(NumpyScalar, m, None))]
    assert not missing


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_divisions_agree_with_python(rng, kind):
    x = rng.integers(-120, 120, 500).astype(kind)
    y = rng.choice([-7, -3, -1, 1, 2, 5, 100], 500).astype(kind)
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=False)]
    np.testing.assert_array_equal(NUMPY.floordiv(x, y), [a // b for a, b in pairs])
    np.testing.assert_array_equal(NUMPY.remainder(x, y), [a % b for a, b in pairs])
    np.testing.assert_array_equal(NUMPY.truncdiv(x, y), [math.trunc(a / b) for a, b in pairs])
    np.testing.assert_array_equal(NUMPY.fmod(x, y), [int(math.fmod(a, b)) for a, b in pairs])


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_powers_wrap_and_negative_exponents_vanish(kind):
    bits = 8 * np.dtype(kind).itemsize
    base, exponent = np.array([3, -2, 7, 1, -1, -1, 2, 0], kind), np.array([5, 3, 40, -3, -3, -2, -1, -1], kind)
    expected = [3**5, -8, 7**40, 1, -1, 1, 0, 0]
    wrapped = [(v + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)) for v in expected]
    np.testing.assert_array_equal(NUMPY.pow(base, exponent), wrapped)


def test_shifts_outside_of_the_width():
    x = np.array([5, -5, 5, -5, 5], np.int32)
    count = np.array([1, 1, 32, 40, -1], np.int32)
    np.testing.assert_array_equal(NUMPY.shl(x, count), [10, -10, 0, 0, 0])
    np.testing.assert_array_equal(NUMPY.shr(x, count), [2, -3, 0, -1, 0])
    for place in (0, 3, 31, 32, -1):
        one = NUMPY.const(place, dt.int32)
        np.testing.assert_array_equal(NUMPY.shl(x, one), NUMPY.shl(x, np.full(5, place, np.int32)))
        np.testing.assert_array_equal(NUMPY.shr(x, one), NUMPY.shr(x, np.full(5, place, np.int32)))


def test_casts():
    with np.errstate(all="ignore"):
        x = np.array([-1.9, 0.5, 0.0, 3.99, np.nan])
        np.testing.assert_array_equal(NUMPY.cast(x[:4], dt.int32), [-1, 0, 0, 3])
        np.testing.assert_array_equal(NUMPY.cast(x, dt.bool_), [True, True, False, True, True])
        np.testing.assert_array_equal(NUMPY.cast(np.array([300.0, -1.0]), dt.uint8), [300 % 256, 255])
        np.testing.assert_array_equal(NUMPY.cast(np.array([1 + 2j]), dt.float32), [1.0])
        assert NUMPY.cast(np.array([1 + 2j]), dt.bool_).item() is True
        assert NUMPY.cast(np.array([2j]), dt.bool_).item() is True


@pytest.mark.parametrize("value", [0, 1, -1, 2**63, -(2**63) - 5, 2**64 - 1])
def test_integer_constants_wrap(value):
    assert int(NUMPY.const(value, dt.int64)) == (value + 2**63) % 2**64 - 2**63
    assert int(NUMPY.const(value, dt.uint8)) == value % 256


@pytest.mark.parametrize("kind,whole", [(np.float32, np.int32), (np.float64, np.int64)])
def test_bits_and_back(rng, kind, whole):
    x = rng.normal(size=20).astype(kind)
    bits = NUMPY.bits(x)
    assert bits.dtype == whole
    np.testing.assert_array_equal(NUMPY.from_bits(bits, dt.from_numpy(np.dtype(kind))), x)


def test_order_follows_nan():
    x, y = np.array([1.0, np.nan, 2.0]), np.array([np.nan, 1.0, 3.0])
    np.testing.assert_array_equal(NUMPY.maximum(x, y), [np.nan, np.nan, 3])
    np.testing.assert_array_equal(NUMPY.minimum(x, y), [np.nan, np.nan, 2])
    assert NUMPY.sign(np.array([np.nan]))[0] == 0


def test_float_floor_division_by_zero_is_ieee():
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            NUMPY.floordiv(np.array([1.0, -1.0, 0.0, 7.5]), np.array([0.0, 0.0, 0.0, 2.0])),
            [np.inf, -np.inf, np.nan, 3],
        )


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, -2.0, -0.5, 1.0, 0.0, 1.7, -3.0])
def test_constant_powers_agree_with_general_ones(rng, exponent):
    x = rng.uniform(0.1, 4, 100)
    np.testing.assert_allclose(
        NUMPY.pow(x, np.float64(exponent)), np.array([float(v) ** exponent for v in x]), rtol=1e-15
    )


def test_sign_of_complex_numbers_is_their_direction():
    x = np.array([3 + 4j, 0, -2j])
    np.testing.assert_allclose(NUMPY.sign(x), [0.6 + 0.8j, 0, -1j])


def test_long_bodies_run_in_blocks_with_the_same_bits(rng):
    size = 70000 + int(rng.integers(1, 5000))
    x, y = rng.normal(size=(2, size))
    body = lambda s, a, b, c: s.add(s.mul(a, b), s.where(s.lt(a, c), s.exp(b), a))  # noqa: E731
    calls = []

    def counted(s, *operands):
        calls.append(len(operands[0]))
        return body(s, *operands)

    got = run_body(counted, (x, y, np.float64(0.3)))
    assert max(calls) < size and sum(calls) == size and got.base is None
    np.testing.assert_array_equal(got, body(NUMPY, x, y, np.float64(0.3)))
    grid = np.asarray(run_body(body, (x[:70000].reshape(700, 100), y[:70000].reshape(700, 100), np.float64(0.3))))
    np.testing.assert_array_equal(grid.reshape(-1), got[:70000])
    strided = run_body(body, (x[::2], y[::2], np.float64(0.3)))
    np.testing.assert_array_equal(strided, got[::2])


def test_a_constant_body_needs_no_blocks():
    assert np.ndim(run_body(lambda s, x: s.const(2.0, dt.float64), (np.ones(100000),))) == 0
