"""Lifted numbers: Python floats that became runtime inputs. Arithmetic is recorded, questions are answered from the example and guarded."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ir.graph import Value
from weft.ops.op import OPS
from weft.tensor.modes import modes
from weft.types.dims import Expr, evaluate
from weft.types.sym import SymInt, install_float_maker

if TYPE_CHECKING:
    from weft.compile.capture import Capture

Compute = Callable[[], float]


class SymFloat:
    """A float known when the program runs. `compute()` evaluates it from the current Python state."""

    __slots__ = ("capture", "compute", "value")
    __weft_number__ = True
    __weft_number_type__ = float

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """float, so that `isinstance(k, float)` in the user's code says what it says in eager mode."""
        return float

    def __init__(self, value: Value, capture: Capture, compute: Compute) -> None:
        self.value, self.capture, self.compute = value, capture, compute

    @staticmethod
    def __weft_route__(op: Any, args: tuple[Any, ...]) -> Any:
        capture = next(a.capture for a in args if isinstance(a, SymFloat))
        return capture.run_numbers(op, args)

    def _binary(self, other: Any, name: str, fn: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        if isinstance(other, SymInt):
            other = float_of(other) or int(other)
        if type(other) is SymFloat:  # (to isinstance it is a float)
            other_compute: Callable[[], Any] = other.compute
            operand: Any = other.value
        elif isinstance(other, (int, float)):
            other_compute, operand = (lambda: other), other
        else:
            return NotImplemented
        mine = self.compute
        args = (operand, self.value) if swapped else (self.value, operand)
        compute = (lambda: fn(other_compute(), mine())) if swapped else (lambda: fn(mine(), other_compute()))
        node = self.capture.builder.emit(OPS[name], _with_defaults(OPS[name], args))
        return SymFloat(node.output, self.capture, compute)

    def __add__(self, other: Any) -> Any:
        return self._binary(other, "aten::add.Tensor", operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._binary(other, "aten::sub.Tensor", operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(other, "aten::sub.Tensor", operator.sub, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary(other, "aten::mul.Tensor", operator.mul)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._binary(other, "aten::div.Tensor", operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(other, "aten::div.Tensor", operator.truediv, swapped=True)

    def __neg__(self) -> Any:
        return self._binary(-1.0, "aten::mul.Tensor", operator.mul)

    def __pos__(self) -> SymFloat:
        return self

    def __pow__(self, other: Any) -> Any:
        return self._binary(other, "aten::pow.Tensor_Tensor", operator.pow)

    def __rpow__(self, other: Any) -> Any:
        return self._binary(other, "aten::pow.Tensor_Tensor", operator.pow, swapped=True)

    def __floordiv__(self, other: Any) -> Any:
        return float(self) // other

    def __rfloordiv__(self, other: Any) -> Any:
        return other // float(self)

    def __mod__(self, other: Any) -> Any:
        return float(self) % other

    def __rmod__(self, other: Any) -> Any:
        return other % float(self)

    def __divmod__(self, other: Any) -> Any:
        return divmod(float(self), other)

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(other, float(self))

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __round__(self, digits: int | None = None) -> Any:
        return self._whole(round) if digits is None else round(float(self), digits)

    def __trunc__(self) -> int:
        return self._whole(math.trunc)

    def __floor__(self) -> int:
        return self._whole(math.floor)

    def __ceil__(self) -> int:
        return self._whole(math.ceil)

    def _whole(self, rounded: Callable[[float], int]) -> int:
        """A whole number made of the example's value; guarded is that it stays the same, not the value."""
        found = rounded(self.compute())
        self._ask(lambda v: rounded(v) == found)
        return found

    def _ask(self, question: Callable[[float], bool]) -> bool:
        return self.capture.ask_number(self, question)

    def __bool__(self) -> bool:
        return self._ask(lambda v: v != 0)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def _compare(self, other: Any, fn: Callable[[Any, Any], bool]) -> Any:
        if isinstance(other, SymFloat):
            theirs = other.compute
            return self._ask(lambda v: fn(v, theirs()))
        if isinstance(other, (int, float)):
            return self._ask(lambda v: fn(v, other))
        return NotImplemented

    def __float__(self) -> float:
        """The example's value, guarded: for code that cannot stay symbolic (math functions, formatting)."""
        value = self.compute()
        self._ask(lambda v: v == value)
        return value

    __int__ = __trunc__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(float(self), dtype)

    def __getattr__(self, name: str) -> Any:
        """What else a float has (is_integer, hex, ...), of the guarded value."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(float(self), name)

    def __hash__(self) -> int:
        return hash(float(self))

    def __format__(self, spec: str) -> str:
        return format(float(self), spec)

    def __str__(self) -> str:
        return str(float(self))

    def __repr__(self) -> str:
        return f"SymFloat({self.compute()})"


def float_of(number: SymInt) -> SymFloat | None:
    """A lifted integer as a lifted float; None for one made of sizes, whose questions are asked elsewhere."""
    capture = modes.capture
    known = {} if capture is None else {n.symbol: n for n in capture.numbers if n.symbol is not None}
    used = number.expr.symbols()
    if not used or not used <= known.keys():
        return None
    node = capture.builder.emit(OPS["aten::add.Tensor"], (0.0, number.expr, 1))
    return SymFloat(node.output, capture, lambda: float(evaluate(number.expr, {s: known[s].current for s in used})))


install_float_maker(float_of)


def _with_defaults(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args + tuple(a.default for a in op.schema.arguments[len(args) :])


def operand_of(value: Any) -> Any:
    """The operand of a lifted number (others as they are)."""
    if isinstance(value, SymFloat):
        return value.value
    if isinstance(value, SymInt):
        return value.expr
    return value


def is_lifted(value: Any) -> bool:
    """Whether a Python value stands for a runtime number."""
    return isinstance(value, (SymFloat, SymInt, Expr))
