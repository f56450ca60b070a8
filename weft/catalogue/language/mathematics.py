"""Python's module math: the same functions, the same errors."""

from __future__ import annotations

import cmath
import math

from weft.catalogue.language.entries import language
from weft.catalogue.language.native import Body
from weft.catalogue.language.numbers import whole, wrap
from weft.types.numbers import MATH

# those that are no function of C
_BODIES: dict[str, Body] = {
    "fabs": lambda s, x: s.intrinsic("fabs", x),
    "copysign": lambda s, x, y: s.intrinsic("copysign", x, y),
    "degrees": lambda s, x: s.arithmetic("mul", x, 180.0 / math.pi),
    "radians": lambda s, x: s.arithmetic("mul", x, math.pi / 180.0),
    **{f"is{kind}": lambda s, x, kind=kind: s.is_kind_of_float(kind, x) for kind in ("finite", "inf", "nan")},
}


def _in_c(name: str) -> Body:
    return lambda s, *x: s.library(name, *x)


for _name, _operation in MATH.items():
    if _name != "log":  # (it has a base)
        _raises = _operation.result == "float"
        language(
            _operation.entry, ", ".join("xy"[: _operation.operands]),
            f"math.{_name}." + (" Raises ValueError outside of its domain." if _raises else ""), _operation.python,
            f"{', '.join(['float'] * _operation.operands)} -> {_operation.result}",
            effect="raises" if _raises else "pure",
            native=_in_c(_name) if _operation.in_c else _BODIES.get(_name),
        )
for _name in ("ceil", "floor", "trunc"):
    language(
        f"math::{_name}", "x", f"math.{_name}, an integer.", whole(getattr(math, _name)), "float -> int",
        effect="raises", native=lambda s, x, name=_name: s.rounded(name, x),
    )

for _name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10", "sin", "sinh",
              "sqrt", "tan", "tanh"):
    language(
        f"cmath::{_name}", "z", f"cmath.{_name}. Raises ValueError outside of its domain.", getattr(cmath, _name),
        "complex -> complex", effect="raises",
    )
for _name in ("isfinite", "isinf", "isnan"):
    language(f"cmath::{_name}", "z", f"cmath.{_name}.", getattr(cmath, _name), "complex -> bool")
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
