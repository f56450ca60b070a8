"""Functions that ONNX has no operators for, without cancelled digits and with the signs of zeros: of tensors, and of
numbers that a model computes. `g` writes the nodes."""

from __future__ import annotations

import math
from typing import Any


def is_negative(g: Any, x: Any) -> Any:
    """Whether the sign of a float is a minus, that of -0.0 too."""
    zero = g.like(x, 0.0)
    return g.op("Less", g.op("Where", g.op("Equal", x, zero), g.op("Reciprocal", x), x), zero)


def copysign(g: Any, x: Any, sign: Any) -> Any:
    """|x| with the sign of another."""
    size = g.op("Abs", x)
    return g.op("Where", is_negative(g, sign), g.op("Neg", size), size)


def remainder(g: Any, a: Any, b: Any) -> Any:
    """The exact remainder, with the sign of the divisor."""
    zero = g.like(a, 0.0)
    rest = g.op("Mod", a, b, fmod=1)
    differs = g.op("Xor", g.op("Less", rest, zero), g.op("Less", b, zero))
    moved = g.op("Where", differs, g.op("Add", rest, b), rest)
    return g.op("Where", g.op("Equal", rest, zero), copysign(g, zero, b), moved)


def floored_quotient(g: Any, a: Any, b: Any) -> Any:
    """The exact quotient rounded down: what the remainder leaves is a multiple, but for rounding."""
    zero, one, quotient = g.like(a, 0.0), g.like(a, 1.0), g.op("Div", a, b)
    rest = g.op("Mod", a, b, fmod=1)
    whole = g.op("Round", g.op("Div", g.op("Sub", a, rest), b))
    differs = g.op("Xor", g.op("Less", rest, zero), g.op("Less", b, zero))
    below = g.op("And", differs, g.op("Not", g.op("Equal", rest, zero)))
    floored = g.op("Where", below, g.op("Sub", whole, one), whole)
    signed = g.op("Where", g.op("Equal", floored, zero), copysign(g, zero, quotient), floored)
    return g.op("Where", g.op("Equal", b, zero), quotient, signed)


def nearest_remainder(g: Any, a: Any, b: Any) -> Any:
    """What a - n * b leaves, n the integer nearest to a / b, the even one of two. Source: CPython's math.remainder."""
    size, step = g.op("Abs", a), g.op("Abs", b)
    rest = g.op("Mod", size, step, fmod=1)
    other = g.op("Sub", step, rest)
    half = g.op("Mul", g.like(a, 0.5), g.op("Sub", size, rest))
    even = g.op("Sub", rest, g.op("Mul", g.like(a, 2.0), g.op("Mod", half, step, fmod=1)))
    nearest = g.op("Where", g.op("Less", rest, other), rest, g.op("Where", g.op("Equal", rest, other), even,
                                                                 g.op("Neg", other)))
    return g.op("Where", is_negative(g, a), g.op("Neg", nearest), nearest)


def rounded(g: Any, x: Any, digits: int) -> Any:
    """A double of so many digits behind the point. Where the product with a power of ten is a tie, what it lost says to
    which side (Dekker's product); ties of the number itself go to even."""
    scale = 10.0**digits
    product = g.op("Mul", x, g.like(x, scale))
    (x_high, x_low), (s_high, s_low) = _halves(g, x), _halves(g, g.like(x, scale))
    lost = g.op("Sub", g.op("Mul", x_high, s_high), product)
    for a, b in ((x_high, s_low), (x_low, s_high), (x_low, s_low)):
        lost = g.op("Add", lost, g.op("Mul", a, b))
    below, zero = g.op("Floor", product), g.like(x, 0.0)
    is_tie = g.op("Equal", g.op("Sub", product, below), g.like(x, 0.5))
    aside = g.op("Where", g.op("Less", lost, zero), below, g.op("Ceil", product))
    to_side = g.op("And", is_tie, g.op("Not", g.op("Equal", lost, zero)))
    whole = g.op("Where", to_side, aside, g.op("Round", product))
    return copysign(g, g.op("Div", whole, g.like(x, scale)), x)


def _halves(g: Any, x: Any) -> tuple[Any, Any]:
    """A double as a sum of two with half the digits. Source: Veltkamp."""
    wide = g.op("Mul", x, g.like(x, 134217729.0))
    high = g.op("Sub", wide, g.op("Sub", wide, x))
    return high, g.op("Sub", x, high)


def log1p(g: Any, x: Any) -> Any:
    """log(1 + x). Source: Kahan; what 1 + x loses of x, the factor x / ((1 + x) - 1) gives back."""
    one = g.like(x, 1.0)
    around = g.op("Add", x, one)
    log = g.op("Log", around)
    near = g.op("Mul", log, g.op("Div", x, g.op("Sub", around, one)))
    corrected = g.op("Where", g.op("IsInf", around), log, near)
    return g.op("Where", g.op("Equal", around, one), x, corrected)


def expm1(g: Any, x: Any) -> Any:
    """exp(x) - 1. Source: Kahan, as log1p."""
    one = g.like(x, 1.0)
    power = g.op("Exp", x)
    less = g.op("Sub", power, one)
    near = g.op("Mul", less, g.op("Div", x, g.op("Log", power)))
    is_far = g.op("Or", g.op("IsInf", power), g.op("Less", power, g.like(x, 0.25)))
    return g.op("Where", g.op("Equal", power, one), x, g.op("Where", is_far, less, near))


def atan2(g: Any, y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    high, wide, zero = g.op("Abs", y), g.op("Abs", x), g.like(x, 0.0)
    diagonal = g.op("Where", g.op("Equal", wide, zero), zero, g.like(x, 1.0))  # (0 / 0 and inf / inf have none)
    slope = g.op("Where", g.op("Equal", high, wide), diagonal, g.op("Div", high, wide))
    angle = g.op("Atan", slope)
    turned = g.op("Where", is_negative(g, x), g.op("Sub", g.like(x, math.pi), angle), angle)
    return copysign(g, turned, y)
