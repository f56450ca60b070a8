"""Python's module math: the same functions, the same errors."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from weft.catalogue.language.entries import language
from weft.catalogue.language.native import Body
from weft.catalogue.language.numbers import wrap

_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "degrees", "erf", "erfc", "exp", "expm1", "fabs",
    "gamma", "lgamma", "log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
)
_PAIRS = ("atan2", "copysign", "fmod", "hypot", "pow", "remainder")


def _rounded(function: Callable[[float], int]) -> Callable[[float], Any]:
    return lambda x: wrap(function(x))


# Those that Python takes from the C library, and so does native code. Gamma, hypot and remainder are Python's own.
_LIBRARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1", "fmod",
    "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh",
)
_BODIES: dict[str, Body] = {
    **{name: lambda s, *x, name=name: s.library(name, *x) for name in _LIBRARY},
    "sqrt": lambda s, x: s.library("sqrt", x),
    "fabs": lambda s, x: s.intrinsic("fabs", x),
    "copysign": lambda s, x, y: s.intrinsic("copysign", x, y),
    "degrees": lambda s, x: s.arithmetic("mul", x, 180.0 / math.pi),
    "radians": lambda s, x: s.arithmetic("mul", x, math.pi / 180.0),
}

for _name in _FLOATS:
    language(
        f"math::{_name}", "x", f"math.{_name}. Raises ValueError outside of its domain.", getattr(math, _name),
        "float -> float", effect="raises", native=_BODIES.get(_name),
    )
for _name in _PAIRS:
    language(
        f"math::{_name}", "x, y", f"math.{_name}. Raises ValueError outside of its domain.", getattr(math, _name),
        "float, float -> float", effect="raises", native=_BODIES.get(_name),
    )
for _name in ("ceil", "floor", "trunc"):
    language(
        f"math::{_name}", "x", f"math.{_name}, an integer.", _rounded(getattr(math, _name)), "float -> int",
        effect="raises", native=lambda s, x, name=_name: s.rounded(name, x),
    )
for _name in ("isfinite", "isinf", "isnan"):
    language(
        f"math::{_name}", "x", f"math.{_name}.", getattr(math, _name), "float -> bool",
        native=lambda s, x, name=_name[2:]: s.is_kind_of_float(name, x),
    )

for _name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10", "sin", "sinh",
              "sqrt", "tan", "tanh"):
    language(
        f"cmath::{_name}", "z", f"cmath.{_name}. Raises ValueError outside of its domain.", getattr(cmath, _name),
        "complex -> complex", effect="raises",
    )
language("cmath::phase", "z", "The angle of a complex number.", cmath.phase, "complex -> float")
language("cmath::polar", "z", "Length and angle.", cmath.polar, "complex -> (float, float)")
language("cmath::rect", "r, phi", "The number of a length and an angle.", cmath.rect, "float, float -> complex")
language("prim::real", "z", "The real part.", lambda z: z.real, "complex -> float")
language("prim::imag", "z", "The imaginary part.", lambda z: z.imag, "complex -> float")
language("prim::conjugate", "z", "The conjugate.", lambda z: z.conjugate(), "complex -> complex")
language(
    "math::log", "x, base=None",
    "The logarithm, natural or to a base. Raises ValueError for numbers that are not positive.",
    lambda x, base: math.log(x) if base is None else math.log(x, base), "float, float? -> float", effect="raises",
    native=lambda s, x, base: s.library("log", x) if base is None else None,
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
