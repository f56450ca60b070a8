"""Lifted numbers: Python floats that became runtime inputs, or were made of sizes. Arithmetic is recorded,
questions are answered from the example and guarded.

A number that outlives its capture (a cache of the user's kept it) is a plain one from then on: that of the call
that was captured.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from weft.compile.capture.backend import active_capture
from weft.guards.values import same
from weft.ir.graph import Value
from weft.ops.packet import Overload, aten
from weft.ops.route import call
from weft.support.errors import CaptureError
from weft.types.dims import Expr, evaluate
from weft.types.sym import SymInt, install_float_maker

if TYPE_CHECKING:
    from weft.compile.capture.capture import Capture

Values = Mapping[str, Any]  # of symbols and lifted numbers, at a call
Compute = Callable[[Values], float]


class SymFloat:
    """A float known when the program runs. `compute(values)` evaluates it from the current Python state and the values
    of a call's symbols."""

    __slots__ = ("__weakref__", "capture", "compute", "value")
    __weft_number__ = True
    __weft_number_type__ = float
    is_number = True

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """float, so that `isinstance(k, float)` in the user's code says what it says in eager mode."""
        return float

    def __init__(self, value: Value, capture: Capture, compute: Compute) -> None:
        self.value, self.compute = value, compute
        self.capture: Capture | None = capture
        capture.python_state.floats.append(ref(self))

    def settle(self) -> None:
        """The capture has ended: become the number of the call that was captured, and hold nothing else of it."""
        try:
            number = self.now()
        except (CaptureError, ArithmeticError, ValueError):  # nobody knows it, as when it hangs on an unbacked size
            return
        self.capture, self.compute = None, lambda values: number
        del self.value

    @staticmethod
    def __weft_route__(op: Any, args: tuple[Any, ...]) -> Any:
        args = tuple([a.now() if type(a) is SymFloat and a.capture is None else a for a in args])
        capture = next((a.capture for a in args if type(a) is SymFloat), None)
        return call(op, args) if capture is None else capture.tensors.run_numbers(op, args)

    def _binary(self, other: Any, overload: Overload, fn: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        if type(other) is SymFloat and other.capture is None:
            other = other.now()
        if self.capture is None:
            return fn(other, self.now()) if swapped else fn(self.now(), other)
        if isinstance(other, SymInt):
            other = float_of(other) or int(other)
        if type(other) is SymFloat:  # (to isinstance it is a float)
            other_compute: Compute = other.compute
            operand: Any = other.value
        elif isinstance(other, (int, float)):
            other_compute, operand = (lambda values: other), other
        else:
            return NotImplemented
        mine = self.compute
        if fn is operator.truediv:
            self.capture.python_state.refuse_zero(*((self.value, mine) if swapped else (operand, other_compute)))
        args = (operand, self.value) if swapped else (self.value, operand)
        compute: Compute = (
            (lambda v: fn(other_compute(v), mine(v))) if swapped else (lambda v: fn(mine(v), other_compute(v)))
        )
        node = self.capture.recorder.builder.emit(overload.op, _with_defaults(overload.op, args))
        return SymFloat(node.output, self.capture, compute)

    def now(self) -> float:
        """Its value in the example."""
        return self.compute({}) if self.capture is None else self.capture.python_state.example_of(self.compute)

    def __add__(self, other: Any) -> Any:
        return self._binary(other, aten.add.Tensor, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._binary(other, aten.sub.Tensor, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(other, aten.sub.Tensor, operator.sub, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary(other, aten.mul.Tensor, operator.mul)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._binary(other, aten.div.Tensor, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(other, aten.div.Tensor, operator.truediv, swapped=True)

    def __neg__(self) -> Any:
        return self._binary(-1.0, aten.mul.Tensor, operator.mul)

    def __pos__(self) -> SymFloat:
        return self

    def __pow__(self, other: Any) -> Any:
        return self._binary(other, aten.pow.Tensor_Tensor, operator.pow)

    def __rpow__(self, other: Any) -> Any:
        return self._binary(other, aten.pow.Tensor_Tensor, operator.pow, swapped=True)

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
        found = rounded(self.now())
        self.ask(lambda v: rounded(v) == found)
        return found

    def ask(self, question: Callable[[float], bool]) -> bool:
        """Answer a question from the example; the answer is guarded."""
        if self.capture is None:
            return question(self.now())
        mine = self.compute
        return self.capture.python_state.ask_number(
            lambda values: question(mine(values)), self.value.name or "a number", mine
        )

    def __bool__(self) -> bool:
        return self.ask(lambda v: v != 0)

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
        if isinstance(other, SymInt):
            other = float_of(other) or int(other)
        if type(other) is SymFloat and other.capture is None:
            other = other.now()
        if self.capture is None:
            return fn(self.now(), other)
        if type(other) is SymFloat:
            mine, theirs = self.compute, other.compute
            return self.capture.python_state.ask_number(lambda values: fn(mine(values), theirs(values)))
        if isinstance(other, (int, float)):
            return self.ask(lambda v: fn(v, other))
        return NotImplemented

    def __float__(self) -> float:
        """The example's value, guarded: for code that cannot stay symbolic (functions in C, formatting)."""
        if self.capture is not None:
            self.capture.python_state.note_float(sys._getframe(1))
        value = self.now()
        self.ask(lambda v: same(v, value))
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
        return repr(float(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> SymFloat:
        return self

    def __copy__(self) -> SymFloat:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as the guarded value."""
        return float, (float(self),)


def float_of(number: SymInt) -> SymFloat | None:
    """A symbolic integer (a size, a lifted number, or made of them) as a lifted float; None if nothing is captured."""
    capture = active_capture()
    if capture is None or number.env is not capture.env:
        return None
    expr = number.expr
    node = capture.recorder.builder.emit(aten.add.Tensor.op, (0.0, expr, 1))
    return SymFloat(node.output, capture, lambda values: float(evaluate(expr, values)))


def _note_float(number: SymInt, frame: FrameType) -> None:
    capture = active_capture()
    if capture is not None and number.env is capture.env:
        capture.python_state.note_float(frame)


install_float_maker(float_of, _note_float)


def _with_defaults(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args + tuple(a.default for a in op.schema.arguments[len(args) :])


def is_live(value: Any) -> bool:
    """Whether a value is a symbol of a capture that has not ended."""
    if type(value) is SymInt:
        return not value.env.is_over
    return type(value) is SymFloat and value.capture is not None


def operand_of(value: Any) -> Any:
    """The operand of a lifted number, in tuples too (others as they are)."""
    if type(value) is tuple:
        return tuple(map(operand_of, value))
    if isinstance(value, SymFloat):
        return value.value if is_live(value) else value.now()
    if isinstance(value, SymInt):
        return value.expr
    return value


def is_lifted(value: Any) -> bool:
    """Whether a Python value stands for a runtime number."""
    return isinstance(value, (SymFloat, SymInt, Expr))
