"""Complex functions of infinities, NaN, signed zeros, and numbers near the ends of the range: programs compute what
eager mode does, which is NumPy's (C's annex G)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

_UNARY = (
    "exp", "exp2", "sinh", "cosh", "tanh", "sin", "cos", "tan", "sqrt", "rsqrt", "log", "log2", "log10", "sigmoid",
    "asin", "acos", "atan", "asinh", "acosh", "atanh", "abs", "angle", "sgn", "log1p", "expm1", "reciprocal",
)
_COMMON = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan]
_PARTS = {
    np.complex128: [*_COMMON, 1e300, -1e300, 5e-324, 1e155, 710.0, -750.0],
    np.complex64: [*_COMMON, 3e38, -3e38, 1e-45, 1e19, 89.0, -104.0],
}


def _numbers(dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """All pairs of parts, then some drawn ones."""
    parts = np.array(_PARTS[dtype])
    z = np.empty(len(parts) ** 2 + 40, dtype)
    drawn = rng.normal(size=(2, 40)) * 10.0 ** rng.integers(-20, 3, (2, 40))
    z.real = np.concatenate([np.repeat(parts, len(parts)), drawn[0]])
    z.imag = np.concatenate([np.tile(parts, len(parts)), drawn[1]])
    return z


def _agree(a: np.ndarray, b: np.ndarray, tolerance: float, least: float) -> np.ndarray:
    """Where two results are the same but for rounding: part by part, or as numbers of one size."""
    def parts(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (np.isnan(a) & np.isnan(b)) | (a == b) | (np.abs(a - b) <= tolerance * np.abs(b) + least)

    with np.errstate(all="ignore"):
        if a.dtype.kind != "c":
            return parts(a, b)
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= tolerance * np.abs(b))
        return near | (parts(a.real, b.real) & parts(a.imag, b.imag))


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", _UNARY)
def test_programs_agree_with_eager_mode(name: str, dtype: Any, rng: np.random.Generator) -> None:
    z, function = _numbers(dtype, rng), getattr(weft, name)
    # (e**710 times a subnormal sine has that one's few digits)
    tolerance, least = (1e-12, 1e-14) if dtype is np.complex128 else (3e-5, 1e-6)
    wanted = function(weft.tensor(z)).numpy()
    compiled = weft.compile(lambda t: function(t))(weft.tensor(z)).numpy()
    deferred = function(weft.tensor(z).to("lazy")).to("cpu").numpy()
    for computed in (compiled, deferred):
        bad = ~_agree(computed, wanted, tolerance, least)
        assert not bad.any(), f"{name} of {z[bad][:5]} is {computed[bad][:5]}, not {wanted[bad][:5]}"


@pytest.mark.parametrize("name", ["exp", "sinh", "cosh", "tanh", "sqrt", "log", "sin", "cos", "tan"])
def test_signs_of_zeros_are_numpys(name: str) -> None:
    parts = [(0.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0), (1.0, 0.0), (1.0, -0.0), (np.inf, -0.0)]
    z = np.array([complex(*pair) for pair in parts])
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(z[:5] if name == "log" else z)
    computed = weft.compile(lambda t: getattr(weft, name)(t))(weft.tensor(z)).numpy()[: len(wanted)]
    for part in ("real", "imag"):
        a, b = getattr(computed, part), getattr(wanted, part)
        np.testing.assert_array_equal(np.signbit(a[b == 0]), np.signbit(b[b == 0]))
