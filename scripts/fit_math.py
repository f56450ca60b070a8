"""Fit the polynomials of weft/codegen/math/tables.py:  python scripts/fit_math.py > weft/codegen/math/tables.py

Needs mpmath. Each polynomial interpolates its function at Chebyshev nodes in 100-digit arithmetic, which is within
a small factor of the best polynomial of that degree; weighted fits (where only part of the interval matters in
full) are least squares with Lawson's reweighting. The largest error is printed to stderr, relative to what the
function adds to the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 100
Real = mp.mpf
Function = Callable[[Real], Real]


def nodes(low: Real, high: Real, count: int) -> list[Real]:
    """Chebyshev's points of [low, high]; not 0 itself, where most of the functions below are 0/0."""
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    return [u if abs(u) > mp.mpf("1e-19") else mp.mpf("1e-19") for u in points]


def interpolate(f: Function, low: Real, high: Real, count: int) -> list[Real]:
    """Coefficients, lowest first, of the polynomial with `count` terms through f at Chebyshev's points."""
    points = nodes(low, high, count)
    matrix = mp.matrix(count, count)
    for i, u in enumerate(points):
        for k in range(count):
            matrix[i, k] = u**k
    return list(mp.lu_solve(matrix, mp.matrix([f(u) for u in points])))


def weighted(f: Function, weight: Function, low: Real, high: Real, count: int) -> list[Real]:
    """Coefficients, lowest first, that keep weight * error even; double precision, for single precision tables only."""
    points = nodes(low, high, 801)
    u, target, w = (
        np.array([float(v) for v in values]) for values in (points, [f(p) for p in points], [weight(p) for p in points])
    )
    basis = np.stack([u**k for k in range(count)], 1)
    extra, best = np.ones(len(u)), (np.inf, np.zeros(count))
    for _ in range(200):
        scale = w * np.sqrt(extra)
        solution = np.linalg.lstsq(basis * scale[:, None], target * scale, rcond=None)[0]
        error = np.abs((basis @ solution - target) * w)
        best = min(best, (float(error.max()), solution), key=lambda pair: pair[0])
        extra *= error + 1e-18
        extra /= extra.mean()
    return [mp.mpf(c) for c in best[1]]


def report(name: str, f: Function, c: list[Real], low: Real, high: Real, weight: Function | None = None) -> None:
    worst = max(abs(f(u) - mp.polyval(c[::-1], u)) * (weight(u) if weight else 1) for u in nodes(low, high, 301))
    print(
        f"{name:16} {len(c):3} terms, largest error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)}",
        file=sys.stderr,
    )


def odd(f: Function) -> Function:
    """(f(x) - x) / x**3 as a function of x*x."""
    return lambda u: (f(mp.sqrt(u)) - mp.sqrt(u)) / (mp.sqrt(u) * u)


def erfcx(x: Real) -> Real:
    return mp.erfc(x) * mp.exp(x * x)


def erfcx_of_q(k: int) -> Function:
    """(1 + 2x) erfcx(x), where q = (x - k) / (x + k)."""

    def f(q: Real) -> Real:
        x = k * (1 + q) / (1 - q)
        return (1 + 2 * x) * erfcx(x)

    return f


def log_ratio(u: Real) -> Real:
    """(log((1+s)/(1-s)) - 2s) / s**3 with u = s*s."""
    s = mp.sqrt(u)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / (s * u)


def log2_ratio(u: Real) -> Real:
    """log2((1+s)/(1-s)) / s with u = s*s."""
    s = mp.sqrt(u)
    return mp.log((1 + s) / (1 - s), 2) / s


def erfinv_over_x(w: Real) -> Real:
    """erfinv(x) / x with w = -log(1 - x*x)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def q_of(k: int, x: str) -> Real:
    return (mp.mpf(x) - k) / (mp.mpf(x) + k)


R = mp.mpf
HALF_LN2 = R("0.34705")
S2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * R("1.0001")
QUARTER = (mp.pi / 4) ** 2 * R("1.0001")
ERF_SPLIT, ERF_END = R("0.93"), R("3.95")

# name: (comment, function, low, high, {bits: terms})
FITS: dict[str, tuple[str, Function, Real, Real, dict[int, int]]] = {
    "EXP": (
        "(exp(r) - 1 - r) / r**2 for |r| <= ln(2)/2",
        lambda r: (mp.expm1(r) - r) / r**2,
        -HALF_LN2,
        HALF_LN2,
        {64: 11},
    ),
    "EXP2": (
        "(2**r - 1) / r for |r| <= 1/2",
        lambda r: (mp.power(2, r) - 1) / r,
        R("-0.5001"),
        R("0.50013"),
        {32: 7, 64: 12},
    ),
    "EXP2_SHORT": (
        "the same to 2**-32, for single precision pow",
        lambda r: (mp.power(2, r) - 1) / r,
        R("-0.5001"),
        R("0.50013"),
        {64: 7},
    ),
    "LOG": (
        "(log(1+f) - f + f**2/2) / f**3 for 1+f in [sqrt(1/2), sqrt(2)]",
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        mp.sqrt(2) / 2 - R("1.00001"),
        mp.sqrt(2) - R("0.99999"),
        {32: 9},
    ),
    "LOG_RATIO": ("(log((1+s)/(1-s)) - 2s) / s**3 in s**2", log_ratio, R("1e-9"), S2, {64: 7}),
    "LOG2_RATIO": ("log2((1+s)/(1-s)) / s in s**2, for single precision pow", log2_ratio, R("1e-9"), S2, {64: 6}),
    "TANH": ("(tanh(x) - x) / x**3 in x**2 for x <= 0.55", odd(mp.tanh), R("1e-9"), R("0.3026"), {32: 5}),
    "SIN": ("(sin(r) - r) / r**3 in r**2 for r <= pi/4", odd(mp.sin), R("1e-9"), QUARTER, {32: 3, 64: 6}),
    "COS": (
        "(cos(r) - 1 + r**2/2) / r**4 in r**2 for r <= pi/4",
        lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2,
        R("1e-9"),
        QUARTER,
        {32: 3, 64: 6},
    ),
    "ATAN": ("(atan(t) - t) / t**3 in t**2 for t <= 1", odd(mp.atan), R("1e-9"), R(1), {32: 10, 64: 20}),
    "ASIN": ("(asin(x) - x) / x**3 in x**2 for x <= 1/2", odd(mp.asin), R("1e-9"), R("0.25"), {32: 6, 64: 13}),
    "SINH": ("(sinh(x) - x) / x**3 in x**2 for x <= 1", odd(mp.sinh), R("1e-9"), R(1), {32: 4, 64: 7}),
    "ERF": (
        "erf(x) / x - 1 in x**2 for x <= 0.93",
        lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1,
        R("1e-9"),
        ERF_SPLIT**2,
        {32: 7, 64: 11},
    ),
    "ERFCX_2": ("(1 + 2x) erfc(x) exp(x**2) in q = (x-2)/(x+2)", erfcx_of_q(2), R(-1), q_of(2, "10.2"), {32: 11}),
    "ERFCX_4": ("(1 + 2x) erfc(x) exp(x**2) in q = (x-4)/(x+4)", erfcx_of_q(4), R(-1), q_of(4, "27.3"), {64: 23}),
    "ERFINV": (
        "erfinv(x) / x in w - 2.5, w = -log(1 - x**2) < 5",
        lambda v: erfinv_over_x(v + R("2.5")),
        R("-2.4999"),
        R("2.51"),
        {32: 11, 64: 11},
    ),
    "ERFINV_TAIL_3": (
        "erfinv(x) / x in sqrt(w) - 3 for w in [5, 16.7]",
        lambda v: erfinv_over_x((v + 3) ** 2),
        R("-0.77"),
        R("1.09"),
        {32: 9},
    ),
    "ERFINV_TAIL_4": (
        "erfinv(x) / x in sqrt(w) - 4 for w in [5, 36.8]",
        lambda v: erfinv_over_x((v + 4) ** 2),
        R("-1.77"),
        R("2.07"),
        {64: 12},
    ),
}


def table(name: str, comment: str, by_bits: dict[int, list[Real]]) -> str:
    rows = []
    for bits, coefficients in by_bits.items():
        kind = np.float32 if bits == 32 else np.float64
        numbers = [
            repr(float(kind(mp.nstr(c, 30))))
            if bits == 64
            else np.format_float_scientific(np.float32(mp.nstr(c, 30)), unique=True)
            for c in coefficients
        ]
        lines = [", ".join(numbers[i : i + 4]) for i in range(0, len(numbers), 4)]
        rows.append(f"    {bits}: (\n        " + ",\n        ".join(lines) + ",\n    ),")
    return f"# {comment}\n{name}: Table = {{\n" + "\n".join(rows) + "\n}\n"


def exp_rest(r: Real) -> Real:
    return (mp.expm1(r) - r) / r**2


# Fitted where the error counts: erf's tail by its effect on erf, exp's by its effect on exp.
WEIGHTED: dict[str, tuple[str, Function, Function, Real, Real, int]] = {
    "EXP": ("", exp_rest, lambda r: r * r / mp.exp(r), -HALF_LN2, HALF_LN2, 5),
    "ERF_TAIL": ("log(erfc(x)) for x in [0.93, 3.95]", lambda x: mp.log(mp.erfc(x)), mp.erfc, R("0.92"), ERF_END, 7),
}


def fit_weighted(name: str) -> list[Real]:
    _, f, weight, low, high, count = WEIGHTED[name]
    fitted = weighted(f, weight, low, high, count)
    report(f"{name}/32", f, fitted, low, high, weight)
    return fitted


def main() -> None:
    print(
        '"""Polynomial coefficients of the vector math functions, lowest power first; '
        'written by scripts/fit_math.py."""\n'
    )
    print("from __future__ import annotations\n\nTable = dict[int, tuple[float, ...]]\n")
    for name, (comment, f, low, high, counts) in FITS.items():
        fitted = {bits: interpolate(f, low, high, count) for bits, count in counts.items()}
        for bits, coefficients in fitted.items():
            report(f"{name}/{bits}", f, coefficients, low, high)
        if name in WEIGHTED:
            fitted = {32: fit_weighted(name), **fitted}
        print(table(name, comment, fitted))
    print(table("ERF_TAIL", WEIGHTED["ERF_TAIL"][0], {32: fit_weighted("ERF_TAIL")}), end="")


if __name__ == "__main__":
    main()
