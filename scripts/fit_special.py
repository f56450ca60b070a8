"""Fit the tables of weft/ops/special_tables.py:  python scripts/fit_special.py > weft/ops/special_tables.py

Needs mpmath. Rational functions and polynomials interpolate at Chebyshev's points in 60-digit arithmetic,
which is within a small factor of the best fit of that degree; the largest error of each is printed to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60
Real = mp.mpf
Function = Callable[[Real], Real]


def nodes(low: float, high: float, count: int) -> list[Real]:
    """Chebyshev's points of [low, high]."""
    middle, half = (mp.mpf(low) + mp.mpf(high)) / 2, (mp.mpf(high) - mp.mpf(low)) / 2
    return [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def rational(f: Function, low: float, high: float, top: int, bottom: int) -> tuple[list[Real], list[Real]]:
    """Coefficients, lowest first, of P/Q of these degrees through f; Q begins with 1."""
    points = nodes(low, high, top + bottom + 1)
    matrix, target = mp.matrix(len(points)), mp.matrix(len(points), 1)
    for i, u in enumerate(points):
        value = target[i] = f(u)
        for k in range(top + 1):
            matrix[i, k] = u**k
        for k in range(1, bottom + 1):
            matrix[i, top + k] = -value * u**k
    found = list(mp.lu_solve(matrix, target))
    return found[: top + 1], [mp.mpf(1), *found[top + 1 :]]


def emit(name: str, comment: str, f: Function, low: float, high: float, top: int, bottom: int) -> None:
    """Print a table as Python and its error, relative to 1, to stderr."""
    p, q = rational(f, low, high, top, bottom)
    worst = max(abs(f(u) - mp.polyval(p[::-1], u) / mp.polyval(q[::-1], u)) for u in nodes(low, high, 301))
    print(f"{name}: largest error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)}", file=sys.stderr)
    print(f"\n# {comment}")
    for suffix, row in (("P", p), ("Q", q)):
        if suffix == "Q" and bottom == 0:
            continue
        print(f"{name}_{suffix} = (")
        for c in row:
            print(f"    {float(c)!r},")
        print(")")


def near(z: Real) -> Real:
    """erf(x)/x - 1 at z = x**2."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z else 2 / mp.sqrt(mp.pi) - 1


def tail(s: Real) -> Real:
    """log(x erfc(x)) + x**2 + 9/16 at s = 1/x**2."""
    x = 1 / mp.sqrt(s)
    return mp.log(x * mp.erfc(x)) + x * x + mp.mpf(9) / 16


def middle(u: Real) -> Real:
    """log(erfc(x)) + x**2 + 9/8 at u = x - 3/2."""
    x = u + mp.mpf(3) / 2
    return mp.log(mp.erfc(x)) + x * x + mp.mpf(9) / 8


def tail_single(x: Real) -> Real:
    """-log(erfc(x)) / x at x."""
    return -mp.log(mp.erfc(x)) / x


def inverse(r: Real) -> Real:
    """erfinv(y)/y - 1 at r = 0.7225 - y**2."""
    w = mp.mpf(0.7225) - r
    y = mp.sqrt(w)
    return mp.erfinv(y) / y - 1 if w > 0 else mp.sqrt(mp.pi) / 2 - 1


AT_ONE = 0.15729920705028513  # erfc(1)


def around_one(u: Real) -> Real:
    """erfc(x) - erfc(1) at u = x - 1."""
    return mp.erfc(u + 1) - mp.mpf(AT_ONE)


def main() -> None:
    print(
        '"""Tables of the error function\'s approximations, lowest coefficient first. '
        'Made by scripts/fit_special.py."""'
    )
    emit("NEAR", "erf(x)/x - 1 in z = x**2, |x| <= 0.84375", near, 0, 0.84375**2, 12, 0)
    print(f"\nAT_ONE = {AT_ONE!r}  # erfc(1)")
    emit("AROUND_ONE", "erfc(x) - AT_ONE in x - 1, 0.65 <= x <= 1.25", around_one, -0.35, 0.25, 15, 0)
    emit("MIDDLE", "log(erfc(x)) + x**2 + 9/8 in x - 3/2, 1.25 <= x <= 2.5", middle, -0.25, 1.0, 7, 6)
    emit("FAR", "log(x erfc(x)) + x**2 + 9/16 in s = 1/x**2, x >= 2.5", tail, 1 / 28.0**2, 0.16, 8, 8)
    emit("INVERSE", "erfinv(y)/y - 1 in 0.7225 - y**2, |y| <= 0.85", inverse, 0, 0.7225, 8, 8)
    emit("NEAR_SINGLE", "single precision: erf(x)/x - 1 in z, |x| <= 1", near, 0, 1, 6, 0)
    emit("TAIL_SINGLE", "single precision: -log(erfc(x)) / x in x, 1 <= x <= 4", tail_single, 1, 4, 8, 0)


if __name__ == "__main__":
    main()
