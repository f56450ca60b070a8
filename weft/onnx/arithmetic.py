"""Python's operations on numbers that a model computes: ints have 64 bits, floats are doubles."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft
import weft.onnx.exact as exact
from weft.onnx.outputs import Output

Write = Callable[[Any, Any, Any], Output]


@dataclass(frozen=True)
class Rule:
    """What Python computes, and how it is written."""

    plain: Callable[[Any, Any], Any]
    write: Write


def _common(g: Any, a: Any, b: Any) -> tuple[Output, Output]:
    """Both as doubles where one is, else as ints."""
    dtype = weft.float64 if weft.float64 in (g.dtype(a), g.dtype(b)) else weft.int64
    return g.cast(a, dtype), g.cast(b, dtype)


def _plainly(name: str) -> Write:
    return lambda g, a, b: g.op(name, *_common(g, a, b))


def _quotient(g: Any, a: Any, b: Any) -> Output:
    return g.op("Div", g.cast(a, weft.float64), g.cast(b, weft.float64))  # type: ignore[no-any-return]


def _floored(g: Any, a: Any, b: Any) -> Output:
    a, b = _common(g, a, b)
    if g.dtype(a) is weft.float64:
        return exact.floored_quotient(g, a, b)  # type: ignore[no-any-return]
    return g.op("Div", g.op("Sub", a, g.op("Mod", a, b)), b)  # type: ignore[no-any-return]


def _remainder(g: Any, a: Any, b: Any) -> Output:
    a, b = _common(g, a, b)
    if g.dtype(a) is weft.int64:
        return g.op("Mod", a, b)  # type: ignore[no-any-return]
    return exact.remainder(g, a, b)  # type: ignore[no-any-return]


def _unequal(g: Any, a: Any, b: Any) -> Output:
    return g.op("Not", g.op("Equal", *_common(g, a, b)))  # type: ignore[no-any-return]


RULES = {
    "add": Rule(operator.add, _plainly("Add")), "sub": Rule(operator.sub, _plainly("Sub")),
    "mul": Rule(operator.mul, _plainly("Mul")), "truediv": Rule(operator.truediv, _quotient),
    "floordiv": Rule(operator.floordiv, _floored), "mod": Rule(operator.mod, _remainder),
    "pow": Rule(operator.pow, _plainly("Pow")), "int_pow": Rule(operator.pow, _plainly("Pow")),
    "lt": Rule(operator.lt, _plainly("Less")), "le": Rule(operator.le, _plainly("LessOrEqual")),
    "gt": Rule(operator.gt, _plainly("Greater")), "ge": Rule(operator.ge, _plainly("GreaterOrEqual")),
    "eq": Rule(operator.eq, _plainly("Equal")), "ne": Rule(operator.ne, _unequal),
    "max": Rule(max, _plainly("Max")), "min": Rule(min, _plainly("Min")),
}  # fmt: skip
