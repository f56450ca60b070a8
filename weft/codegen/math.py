"""Vector math in plain LLVM instructions: every function of one float, by the scalar protocol's name.

Each takes a FloatMath and values of one type, f32 or f64 of any width, and returns a value of that type. Accuracy,
measured by scripts/measure_math.py: single precision exp, log <= 1 ulp, tanh, erf <= 1.5, sin, cos <= 2, all others
and double precision <= 4. NaN, infinities, zeros with sign and denormals come out as in C. Starting points:
`math_core` (what they are written with), `math_exp`, `math_log`, `math_trig`, `math_erf`, `math_round`;
`math_tables` holds the polynomials, written by scripts/fit_math.py.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen import math_erf, math_exp, math_log, math_round, math_trig
from weft.codegen.emit import Value
from weft.codegen.math_core import FloatMath

Unary = Callable[[FloatMath, Value], Value]
Binary = Callable[[FloatMath, Value, Value], Value]


def rsqrt(m: FloatMath, x: Value) -> Value:
    """1 / sqrt(x)."""
    return m.div(1.0, m.sqrt(x))


UNARY: dict[str, Unary] = {
    "sqrt": FloatMath.sqrt, "rsqrt": rsqrt, "floor": FloatMath.floor, "ceil": FloatMath.ceil, "trunc": FloatMath.trunc,
    "round": FloatMath.round,
    "exp": math_exp.exp, "exp2": math_exp.exp2, "expm1": math_exp.expm1, "sigmoid": math_exp.sigmoid,
    "sinh": math_exp.sinh, "cosh": math_exp.cosh, "tanh": math_exp.tanh,
    "log": math_log.log, "log2": math_log.log2, "log10": math_log.log10, "log1p": math_log.log1p,
    "asinh": math_log.asinh, "acosh": math_log.acosh, "atanh": math_log.atanh,
    "sin": math_trig.sin, "cos": math_trig.cos, "tan": math_trig.tan,
    "asin": math_trig.asin, "acos": math_trig.acos, "atan": math_trig.atan,
    "erf": math_erf.erf, "erfc": math_erf.erfc, "erfinv": math_erf.erfinv,
}  # fmt: skip

BINARY: dict[str, Binary] = {
    "pow": math_log.pow, "atan2": math_trig.atan2, "copysign": FloatMath.copysign, "fmod": math_round.fmod,
    "remainder": math_round.remainder, "floordiv": math_round.floordiv, "truncdiv": math_round.truncdiv,
    "maximum": math_round.maximum, "minimum": math_round.minimum, "hypot": math_round.hypot,
}  # fmt: skip
