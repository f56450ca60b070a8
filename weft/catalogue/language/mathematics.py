"""Python's module math: the same functions, the same errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.catalogue.language.entries import language
from weft.catalogue.language.numbers import wrap

_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "degrees", "erf", "erfc", "exp", "expm1", "fabs",
    "gamma", "lgamma", "log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
)
_PAIRS = ("atan2", "copysign", "fmod", "hypot", "pow", "remainder")


def _rounded(function: Callable[[float], int]) -> Callable[[float], Any]:
    return lambda x: wrap(function(x))


for _name in _FLOATS:
    language(
        f"math::{_name}", "x", f"math.{_name}. Raises ValueError outside of its domain.", getattr(math, _name),
        "float -> float", effect="raises",
    )
for _name in _PAIRS:
    language(
        f"math::{_name}", "x, y", f"math.{_name}. Raises ValueError outside of its domain.", getattr(math, _name),
        "float, float -> float", effect="raises",
    )
for _name in ("ceil", "floor", "trunc"):
    language(
        f"math::{_name}", "x", f"math.{_name}, an integer.", _rounded(getattr(math, _name)), "float -> int",
        effect="raises",
    )
for _name in ("isfinite", "isinf", "isnan"):
    language(f"math::{_name}", "x", f"math.{_name}.", getattr(math, _name), "float -> bool")

language(
    "math::log", "x, base=None",
    "The logarithm, natural or to a base. Raises ValueError for numbers that are not positive.",
    lambda x, base: math.log(x) if base is None else math.log(x, base), "float, float? -> float", effect="raises",
)
language(
    "math::factorial", "x", "math.factorial. Raises ValueError for negative numbers.",
    lambda x: wrap(math.factorial(x)), "int -> int", effect="raises",
)
language("math::gcd", "a, b", "The greatest common divisor.", math.gcd, "int, int -> int")
language("math::ldexp", "x, i", "x * 2**i.", math.ldexp, "float, int -> float", effect="raises")
language("math::frexp", "x", "Mantissa and exponent.", math.frexp, "float -> (float, int)")
language("math::modf", "x", "Fraction and whole part.", math.modf, "float -> (float, float)")
language(
    "math::isclose", "a, b, rel_tol=1e-09, abs_tol=0.0", "Whether two numbers are close.",
    lambda a, b, rel, absolute: math.isclose(a, b, rel_tol=rel, abs_tol=absolute), "float, float, float, float -> bool",
)
