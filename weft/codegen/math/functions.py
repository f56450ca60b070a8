"""Vector math in plain LLVM instructions: every function of one float, by the scalar protocol's name.

Each takes a FloatMath and values of one type, f32 or f64 of any width, and returns a value of that type. Accuracy,
measured by scripts/measure_math.py: single precision exp, log <= 1 ulp, tanh, erf <= 1.5, sin, cos <= 2, all others
and double precision <= 4. NaN, infinities, zeros with sign and denormals come out as in C. tables.py holds the
polynomials, written by scripts/fit_math.py.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.emit import Value
from weft.codegen.math import error_function, exponential, logarithm, rounding, trigonometry
from weft.codegen.math.core import FloatMath

Unary = Callable[[FloatMath, Value], Value]
Binary = Callable[[FloatMath, Value, Value], Value]


def rsqrt(m: FloatMath, x: Value) -> Value:
    """1 / sqrt(x)."""
    return m.div(1.0, m.sqrt(x))


UNARY: dict[str, Unary] = {
    "sqrt": FloatMath.sqrt, "rsqrt": rsqrt, "floor": FloatMath.floor, "ceil": FloatMath.ceil, "trunc": FloatMath.trunc,
    "round": FloatMath.round,
    "exp": exponential.exp, "exp2": exponential.exp2, "expm1": exponential.expm1, "sigmoid": exponential.sigmoid,
    "sinh": exponential.sinh, "cosh": exponential.cosh, "tanh": exponential.tanh,
    "log": logarithm.log, "log2": logarithm.log2, "log10": logarithm.log10, "log1p": logarithm.log1p,
    "asinh": logarithm.asinh, "acosh": logarithm.acosh, "atanh": logarithm.atanh,
    "sin": trigonometry.sin, "cos": trigonometry.cos, "tan": trigonometry.tan,
    "asin": trigonometry.asin, "acos": trigonometry.acos, "atan": trigonometry.atan,
    "erf": error_function.erf, "erfc": error_function.erfc, "erfinv": error_function.erfinv,
}

BINARY: dict[str, Binary] = {
    "pow": logarithm.pow, "atan2": trigonometry.atan2, "copysign": FloatMath.copysign, "fmod": rounding.fmod,
    "remainder": rounding.remainder, "floordiv": rounding.floordiv, "truncdiv": rounding.truncdiv,
    "maximum": rounding.maximum, "minimum": rounding.minimum, "hypot": rounding.hypot,
}
