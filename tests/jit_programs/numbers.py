# ruff: noqa: SIM108  (programs as people write them)
"""Programs on numbers."""

from __future__ import annotations

import math

SCALE = 3
OFFSETS = (1, 2.5)


def arithmetic(a: int, b: int):
    return a + b, a - b, a * b, -a, +b, ~a, abs(a)


def division(a: int, b: int):
    c = b if b != 0 else 7
    return a / c, a // c, a % c, divmod(a, c)


def float_division(a: float, b: float):
    c = b if b != 0.0 else 0.5
    return a / c, a // c, a % c


def mixed(a: int, x: float, flag: bool):
    return a + x, a * x, x - a, flag + a, flag * x, a / 2, x // 1, a + True


def bits(a: int, b: int):
    return a & b, a | b, a ^ b, a << 3, a >> 1, (a > 0) & (b > 0), (a > 0) ^ True


def powers(a: int, x: float):
    return a**2, a**0, x**2, abs(x) ** 0.5, 2.0**a, (a * a) ** 0.5


def comparisons(a: int, x: float):
    return a < x, a <= x, a == x, a != x, a > x, a >= x, a == a, 1 < a < 5


def conversions(a: int, x: float, flag: bool):
    return (
        int(x),
        float(a),
        bool(a),
        bool(x),
        int(flag),
        float(flag),
        int("12"),
        float("1.5"),
        str(a),
        str(flag),
        str(x),
    )


def extrema(a: int, b: int, x: float, y: float):
    return min(a, b), max(a, b, 0), min(x, y), max([a, b, 3]), sum([a, b]), round(x), round(x, 1)


def functions_of_math(x: float):
    y = abs(x) + 0.1
    return (
        math.sqrt(y),
        math.exp(-y),
        math.log(y),
        math.floor(x),
        math.ceil(x),
        math.sin(x),
        math.pi * y,
        math.atan2(x, y),
        math.isnan(x),
        math.pow(y, 2),
    )


def augmented(a: int, x: float):
    a += 2
    a *= 3
    a -= 1
    a //= 2
    a %= 5
    x /= 2
    x **= 2
    a <<= 2
    a |= 1
    return a, x


def changes_type(a: int):
    b = a
    b = b * 0.5
    c = b > 1
    return b, c


def closed_over(a: int):
    return a * SCALE + OFFSETS[0], a * OFFSETS[1]


def default_arguments(a: int, b: int = 4, c: float = 0.5):
    return a * b + c


def complex_numbers(x: float, y: float):
    z = complex(x, y)
    return z * z, z + 1, abs(z)


def early_and_late(a: int) -> float:
    if a > 2:
        return 1.5
    return float(a)


def folded():
    n = 7
    if n // 2 == 3:
        k = n % 4
    else:
        k = 0
    return n, k, -n // 2, -n % 3, 2**10, 7 / 2


def boolean(a: bool, b: bool):
    return a and b, a or b, not a, a == b, a != b, (a or b) and not (a and b)


def accumulated(n: int):
    total = 0.0
    for i in range(n):
        total += 1.0 / (i + 1)
    return total


def integer_root(n: int) -> int:
    n = abs(n) * 10
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        if middle * middle <= n:
            low = middle
        else:
            high = middle
    return low
