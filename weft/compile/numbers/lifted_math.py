"""Python's math module on lifted numbers: while a function is captured, `math.cos(self.n / total)` is recorded instead
of answered once and for all. And `len` of a tensor, which Python's own makes a plain integer of.

The code that is captured loads these functions in place of Python's (guards/rewrite.py); math and builtins stay what
they are. It begins with the function itself; other code is known by a symbol that C code asks for a plain number
(LiftedNumbers.taken), and the capture starts again with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from types import CodeType, FunctionType
from typing import Any, Final

from weft.compile.capture.symbolic import SymbolicPayload
from weft.compile.numbers.sym_float import SymFloat, float_of, is_live
from weft.guards.rewrite import Substitutes, functions_with, with_substitutes
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt

Function = Callable[..., Any]
_RECORDED: Final = tuple(str.split(
    "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc"
))
_PYTHONS: Final[dict[str, Function]] = {
    name: getattr(math, name) for name in (*_RECORDED, "pow", "fabs", "isnan", "isinf", "isfinite")
}
_PYTHONS_LEN: Final = len


def _lifted(value: Any) -> SymFloat | None:
    if type(value) is SymInt:
        return float_of(value)
    return value if type(value) is SymFloat and is_live(value) else None


def _recorded(name: str) -> Function:
    python, op = _PYTHONS[name], getattr(aten, name).default.op

    @functools.wraps(python)
    def function(x: Any, *rest: Any) -> Any:
        number = _lifted(x)
        if number is None:
            return python(x, *rest)
        if rest:  # log(x, base)
            return function(number) / function(rest[0])
        python(number.now())  # what Python refuses now is refused now
        number.ask(lambda v: _is_defined(python, v))
        compute = number.compute
        assert number.capture is not None  # (it is live)
        return SymFloat(
            number.capture.recorder.builder.emit(op, (number.value,)).output, number.capture,
            lambda values: python(compute(values)),
        )

    return function


def _is_defined(function: Function, x: float) -> bool:
    try:
        function(x)
    except (ValueError, OverflowError):
        return False
    return True


def _question(name: str) -> Function:
    python = _PYTHONS[name]

    @functools.wraps(python)
    def function(x: Any) -> Any:
        number = _lifted(x)
        return python(x) if number is None else number.ask(python)

    return function


def _pow(x: Any, y: Any) -> Any:
    a, b = _lifted(x), _lifted(y)
    return _PYTHONS["pow"](x, y) if a is None and b is None else (x if a is None else a) ** (y if b is None else b)


def _fabs(x: Any) -> Any:
    number = _lifted(x)
    return _PYTHONS["fabs"](x) if number is None else abs(number)


def _len(x: Any) -> Any:
    return x.shape[0] if type(x) is Tensor and type(x._data) is SymbolicPayload and x.shape else _PYTHONS_LEN(x)


class _Math:
    """The module math where lifted numbers may come: its functions take them, the rest is what stands there."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        return FUNCTIONS.values.get(id(found), found)


_OURS: Final[dict[str, Function]] = {
    **{name: _recorded(name) for name in _RECORDED},
    **{name: _question(name) for name in ("isnan", "isinf", "isfinite")},
    "pow": _pow,
    "fabs": _fabs,
}
LENGTHS: Final = Substitutes({id(_PYTHONS_LEN): _len})
FUNCTIONS: Final = Substitutes(
    {id(_PYTHONS[name]): ours for name, ours in _OURS.items()}, {id(math): (_Math(), frozenset(_OURS))}
)
LIFTED: Final = Substitutes({**LENGTHS.values, **FUNCTIONS.values}, FUNCTIONS.modules)
# their frames stand between the user's code and what Python's own call of it
CODES: Final = frozenset([_len.__code__, *(ours.__code__ for ours in _OURS.values())])


def lifted_in(function: Any, codes: Collection[CodeType]) -> AbstractContextManager[None]:
    """Let a function that is captured, and every function with one of these codes, use math's functions and `len` on
    what is symbolic within a block. For all else, also on other threads, they are Python's own."""
    root = getattr(function, "__func__", function)
    functions = functions_with(codes) if codes else []
    return with_substitutes([*functions, *([root] if type(root) is FunctionType else ())], LIFTED)
