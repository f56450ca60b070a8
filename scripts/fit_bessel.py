"""Fit the tables of weft/catalogue/special/bessel_tables.py:
python scripts/fit_bessel.py > weft/catalogue/special/bessel_tables.py

Needs mpmath. Near 0 a Bessel function is fitted in x**2, less its logarithm and its first zero; further out the two
slow factors of its expansion for large x are (Abramowitz and Stegun 9.2.5 and 9.2.6; 9.7.2 for the modified ones,
10.4.59 and 10.4.60 for Airy's function): they follow from the function and the one of the second kind.
"""

from __future__ import annotations

import mpmath as mp
from fit_special import Function, Real, emit

TWO_OVER_PI = 2 / mp.pi
LIMIT = 5  # of the plain functions
AIRY_LOW, AIRY_MIDDLE, AIRY_HIGH = 5, mp.mpf("0.75"), 4  # its parts: -5, -2, 0.75, 4
AIRY_CENTRE = mp.mpf("-3.5")


def zero(order: int) -> Real:
    """The first zero of J beyond 0."""
    return mp.besseljzero(order, 1)


def near_j(order: int) -> Function:
    """J(x) / (x**order (x**2 - zero**2)) at z = x**2."""
    return lambda z: mp.besselj(order, mp.sqrt(z)) / mp.sqrt(z) ** order / (z - zero(order) ** 2)


def near_y(order: int) -> Function:
    """Y(x) less its logarithm and its pole, over x**order, at z = x**2."""

    def f(z: Real) -> Real:
        x = mp.sqrt(z)
        rest = mp.bessely(order, x) - TWO_OVER_PI * mp.log(x) * mp.besselj(order, x)
        return (rest + order * TWO_OVER_PI / x) / x**order

    return f


def turning(order: int) -> tuple[Function, Function]:
    """P and Q x of the expansion for large x, at w = (LIMIT / x)**2."""

    def both(w: Real) -> tuple[Real, Real]:
        x = LIMIT / mp.sqrt(w)
        angle = x - (2 * order + 1) * mp.pi / 4
        j, y, size = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
        p = size * (j * mp.cos(angle) + y * mp.sin(angle))
        return p, size * (y * mp.cos(angle) - j * mp.sin(angle)) * x

    return (lambda w: both(w)[0]), (lambda w: both(w)[1])


def falling(order: int) -> Function:
    """K(x) exp(x) sqrt(2 x / pi) at t = 1 / x."""
    return lambda t: mp.besselk(order, 1 / t) * mp.exp(1 / t) * mp.sqrt(2 / (t * mp.pi))


def airy_falling(t: Real) -> Real:
    """2 sqrt(pi) x**(1/4) exp(zeta) Ai(x) at t = 1 / zeta, zeta = 2/3 x**(3/2)."""
    x = (3 / (2 * t)) ** (mp.mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(1 / t) * mp.airyai(x)


def airy_turning(w: Real) -> tuple[Real, Real]:
    """P and Q zeta with sqrt(pi) x**(1/4) Ai(-x) = P sin(zeta + pi/4) - Q cos(zeta + pi/4), at w = 1 / zeta**2."""
    zeta = 1 / mp.sqrt(w)
    x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    angle = zeta + mp.pi / 4
    a, b, size = mp.airyai(-x), mp.airybi(-x), mp.sqrt(mp.pi) * mp.root(x, 4)
    p = size * (mp.sin(angle) * a + mp.cos(angle) * b)
    return p, size * (mp.sin(angle) * b - mp.cos(angle) * a) * zeta


def zeta_of(x: Real) -> Real:
    return 2 * mp.mpf(x) ** mp.mpf(1.5) / 3


def main() -> None:
    print(
        '"""Tables of Bessel functions and Airy\'s, lowest coefficient first. Made by scripts/fit_bessel.py."""'
    )
    square = LIMIT**2
    for order in (0, 1):
        root = zero(order)
        print(f"\nJ{order}_ZERO = ({float(root)!r}, {float(root - float(root))!r})  # in two parts")
        power = "x" if order else "1"
        name = f"J{order}(x) / ({power} (x**2 - zero**2)) in z = x**2, x <= {LIMIT}"
        emit(f"J{order}_NEAR", name, near_j(order), 0, square, 7, 4)
        name = f"Y{order}(x), less its logarithm and pole, over {power} in z = x**2, x <= {LIMIT}"
        emit(f"Y{order}_NEAR", name, near_y(order), 0, square, 8, 5)
        p, q = turning(order)
        emit(f"TURNING{order}_COSINE", f"P of order {order} in w = ({LIMIT} / x)**2, x >= {LIMIT}", p, 0, 1, 8, 8)
        emit(f"TURNING{order}_SINE", f"Q x of order {order} in w = ({LIMIT} / x)**2, x >= {LIMIT}", q, 0, 1, 8, 8)
        emit(f"K{order}_FAR", f"K{order}(x) exp(x) sqrt(2 x / pi) in t = 1 / x, x >= 1", falling(order), 0, 1, 11, 11)
    low = zeta_of(AIRY_LOW) ** -2
    high = 1 / zeta_of(AIRY_HIGH)
    factor = "2 sqrt(pi) x**(1/4) exp(zeta) Ai(x)"
    name = f"{factor} in x, {mp.nstr(AIRY_MIDDLE)} <= x <= {AIRY_HIGH}"
    emit("AIRY_MIDDLE", name, lambda x: airy_falling(1 / zeta_of(x)), AIRY_MIDDLE, AIRY_HIGH, 9, 9)
    emit("AIRY_FALLING", f"{factor} in t = 1 / zeta, x >= {AIRY_HIGH}", airy_falling, 0, high, 7, 7)
    name = f"Ai(x) in x - {mp.nstr(AIRY_CENTRE)}, -{AIRY_LOW} <= x <= -2"
    emit("AIRY_WAVE", name, lambda u: mp.airyai(u + AIRY_CENTRE), -1.5, 1.5, 24, 0)
    emit("AIRY_SINE", f"P of Ai(-x) in w = 1 / zeta**2, x >= {AIRY_LOW}", lambda w: airy_turning(w)[0], 0, low, 6, 6)
    name = f"Q zeta of Ai(-x) in w = 1 / zeta**2, x >= {AIRY_LOW}"
    emit("AIRY_COSINE", name, lambda w: airy_turning(w)[1], 0, low, 6, 6)


main()
