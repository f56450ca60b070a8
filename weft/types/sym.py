"""SymInt: the integer that Python code sees where a size is a symbol. Arithmetic stays symbolic,
questions become guards.

A SymInt that outlives its capture (a cache of the user's kept it) is a plain number from then on: that of the call
that was captured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, Union

import numpy as np

from weft.support.errors import UnknownSize, Unsupported
from weft.support.locations import is_internal
from weft.types import dims, int64
from weft.types.dims import Dim, Expr
from weft.types.numbers import BINARY, COMPARISONS, NumberMethods, NumberOperation, are_numbers
from weft.types.relation import Relation, positive_first
from weft.types.shape_env import ShapeEnv, current_env

IntLike = Union[int, "SymInt"]


class SymBool:
    """PyTorch's type of a question about sizes. weft answers such a question when it is asked, and records a guard:
    there are no objects of this type."""

    __slots__ = ()

    def __new__(cls, *args: object) -> SymBool:
        raise Unsupported("SymBool: a question about sizes is answered when it is asked; there is nothing to make")


class SymInt(NumberMethods):
    """A symbolic integer. `x.shape[0] * 2` is again symbolic; `x.shape[0] > 8` answers from the example
    and records a guard."""

    __slots__ = ("_expr", "env")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """int, so that `isinstance(n, int)` in the user's code says what it says in eager mode."""
        return int

    def __init__(self, expr: Expr, env: ShapeEnv) -> None:
        self._expr: Dim = expr
        self.env = env

    @property
    def expr(self) -> Dim:
        """What it stands for; a number once the capture has ended, or a run has found it."""
        if type(self._expr) is Expr:
            self._expr = self.env.current(self._expr)
            if type(self._expr) is int:
                self.env = _SETTLED  # whichever environment asks
        return self._expr

    @property
    def is_live(self) -> bool:
        """Whether its capture has not ended."""
        return not self.env.is_over

    def is_same(self, other: NumberMethods) -> bool:
        """Whether it is the same number, in the example if that knows both."""
        assert type(other) is SymInt
        symbols = dims.symbols(self.expr) | dims.symbols(other.expr)
        if self.is_live and not symbols <= self.env.examples.keys():
            return bool(self.expr == other.expr)
        return self == other

    def as_float(self) -> Any:
        """A symbolic float where a builder offers one, else that of the guarded value."""
        return _as_float(self)

    def of_math(self, operation: NumberOperation, *operands: Any) -> Any:
        """What a function of the module math gives of a symbolic float."""
        number = _as_float(self)
        if not isinstance(number, NumberMethods):
            return operation(*operands)
        return number.of_math(operation, *operands)

    def extreme(self, operation: NumberOperation, a: Any, b: Any) -> Any:
        """`max` or `min` of two numbers: integers stay symbolic, otherwise it is asked which is which."""
        if not (is_int_like(a) and is_int_like(b)):
            return operation(a, b)
        return self._wrap(dims.combined(operation.python.__name__, to_dim(a), to_dim(b)))

    def _wrap(self, value: Dim, other: Any = None) -> IntLike:
        """A dim made of this number and another one."""
        is_settled = self.env.is_over and type(other) is SymInt
        env = other._asked() if is_settled else self._asked()
        return env.fixed(value) if isinstance(value, Expr) and not _is_held(value, env) else wrap(value, env)

    def _asked(self) -> ShapeEnv:
        """Where questions go: a number has no environment of its own, and what it meets in a later capture has."""
        env = self.env
        return env if not env.is_over else current_env() or env

    def _operation(self, operation: NumberOperation, *operands: Any) -> Any:
        """Arithmetic that leaves the integers: through a symbolic float where a builder offers one, else through the
        guarded value."""
        if operation.result == "int":
            return operation(*[int(x) if type(x) is SymInt else x for x in operands])
        if not are_numbers(operands):
            return NotImplemented
        return operation(*[_as_float(x) if type(x) is SymInt else x for x in operands])

    def __add__(self, other: Any) -> Any:
        if is_int_like(other):
            return self._wrap(self.expr + to_dim(other), other)
        return self._operation(_ADD, self, other)

    def __radd__(self, other: Any) -> Any:
        if is_int_like(other):
            return self._wrap(self.expr + to_dim(other), other)
        return self._operation(_ADD, other, self)

    def __sub__(self, other: Any) -> Any:
        if is_int_like(other):
            return self._wrap(self.expr - to_dim(other), other)
        return self._operation(_SUB, self, other)

    def __rsub__(self, other: Any) -> Any:
        if is_int_like(other):
            return self._wrap(to_dim(other) - self.expr, other)
        return self._operation(_SUB, other, self)

    def __mul__(self, other: Any) -> Any:
        if is_int_like(other):
            return self._wrap(self.expr * to_dim(other), other)
        return self._operation(_MUL, self, other)

    def __rmul__(self, other: Any) -> Any:
        if is_int_like(other):
            return self._wrap(self.expr * to_dim(other), other)
        return self._operation(_MUL, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(dims.floordiv, _FLOORDIV, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided(dims.floordiv, _FLOORDIV, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._divided(dims.mod, _MOD, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._divided(dims.mod, _MOD, other, self)

    def _divided(self, of_dims: Callable[[Dim, Dim], Dim], operation: NumberOperation, a: Any, b: Any) -> Any:
        """A quotient or remainder. Raises ZeroDivisionError, in a later call or while the program runs too."""
        if not (is_int_like(a) and is_int_like(b)):
            return self._operation(operation, a, b)
        divisor = to_dim(b)
        if isinstance(divisor, int):
            return operation(self.expr, divisor) if divisor == 0 else self._wrap(of_dims(to_dim(a), divisor))
        relation = Relation("==", positive_first(divisor))
        asked = b if type(b) is SymInt else self
        asked._asked().refuse(relation, lambda: ZeroDivisionError("integer division or modulo by zero"))
        return self._wrap(of_dims(to_dim(a), to_dim(b)), asked)  # (asking may have found the numbers)

    def __lshift__(self, other: Any) -> Any:
        return self * 2 ** _shift(other)

    def __rshift__(self, other: Any) -> Any:
        return self // 2 ** _shift(other)

    def __invert__(self) -> Any:
        return -self - 1

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    def __trunc__(self) -> IntLike:
        return self

    __floor__ = __ceil__ = __trunc__

    def __neg__(self) -> IntLike:
        return self._wrap(-self.expr)

    def __pos__(self) -> IntLike:
        return self

    def __abs__(self) -> IntLike:
        return self._wrap(dims.maximum(self.expr, -self.expr))

    def __pow__(self, power: Any, modulus: Any = None) -> Any:
        if modulus is None and type(power) is int and power >= 0:
            return self._wrap(dims.product([self.expr] * power))
        if modulus is not None or type(power) is SymInt:  # an int or a float, by the sign of the exponent
            return pow(int(self), power if modulus is None else int(power), modulus)
        return self._operation(_POW, self, power)

    def __rpow__(self, base: Any) -> Any:
        return base ** int(self) if is_int_like(base) else self._operation(_POW, base, self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, np.generic):
            return NotImplemented  # NumPy asks for the number
        if not is_int_like(other):
            return isinstance(other, float) and bool(self._operation(_EQ, self, other) is True)
        mine = self.expr
        return self._asked().equal(mine, to_dim(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._is_less(self, other, sys._getframe(1)) if is_int_like(other) else self._operation(_LT, self, other)

    def __gt__(self, other: Any) -> bool:
        return self._is_less(other, self, sys._getframe(1)) if is_int_like(other) else self._operation(_GT, self, other)

    def __le__(self, other: Any) -> bool:
        return not self > other if is_int_like(other) else self._operation(_LE, self, other)

    def __ge__(self, other: Any) -> bool:
        return not self < other if is_int_like(other) else self._operation(_GE, self, other)

    def _is_less(self, a: Any, b: Any, frame: FrameType) -> bool:
        try:
            return self._asked().less(to_dim(a), to_dim(b))
        except UnknownSize:
            if _notes[0] is not None:
                _notes[0].question(self, frame)
            raise

    def __bool__(self) -> bool:
        return not self._asked().equal(self.expr, 0)

    def __int__(self) -> int:
        """The example's value, with a guard that it stays so: for `range(n)`, list sizes and the like."""
        mine = self.expr
        if isinstance(mine, int):
            return mine
        try:
            value = self.env.hint(mine)
        except UnknownSize:
            if _notes[0] is not None:
                _notes[0].number(self, sys._getframe(1))
            number = None if self.env.answers is None else self.env.answers.number(mine)
            if number is None:
                raise
            return number
        self.env.equal(mine, value)
        return value

    def __index__(self) -> int:
        if _notes[0] is not None and type(self.expr) is not int:
            _notes[0].index(self, sys._getframe(1))
        return int(self)

    def __float__(self) -> float:
        if _notes[0] is not None:
            _notes[0].number(self, sys._getframe(1))
        return float(int(self))

    def __hash__(self) -> int:
        return hash(int(self))

    def __format__(self, spec: str) -> str:
        """The example's value, with a guard that it stays so: text is made once."""
        return format(int(self), spec)

    def __str__(self) -> str:
        return str(int(self))

    def __repr__(self) -> str:
        """The symbol in texts of weft's own; the user's code reads a number."""
        return self.env.text(self.expr) if is_internal(sys._getframe(1).f_code.co_filename) else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(int(self), dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> SymInt:
        return self

    def __copy__(self) -> SymInt:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as the guarded value."""
        return int, (int(self),)

    def __getattr__(self, name: str) -> Any:
        """What else an int has (bit_length, real, ...), of the guarded value."""
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute '{name}'")
        return getattr(int(self), name)


_LT, _GT, _LE, _GE, _EQ = (COMPARISONS[name] for name in ("lt", "gt", "le", "ge", "eq"))
_ADD, _SUB, _MUL, _POW = (BINARY[name] for name in ("add", "sub", "mul", "pow"))
_FLOORDIV, _MOD = BINARY["floordiv"], BINARY["mod"]


def _shift(count: Any) -> int:
    bits = int(count)
    if bits < 0:
        raise ValueError("negative shift count")
    return bits


def _as_float(value: SymInt) -> Any:
    make = _float_maker[0]
    lifted = make(value) if make is not None else None
    return float(int(value)) if lifted is None else lifted


_SETTLED = ShapeEnv(is_over=True)  # of numbers whose capture has ended: nothing of it is kept

_float_maker: list[Any] = [None]
_notes: list[Notes | None] = [None]


class Notes(Protocol):
    """What capture is told of a SymInt, and of the frame that it happens on."""

    def number(self, number: SymInt, frame: FrameType) -> None:
        """A plain number is made of it."""

    def index(self, number: SymInt, frame: FrameType) -> None:
        """Code in C asks for it as a plain integer."""

    def question(self, number: SymInt, frame: FrameType) -> None:
        """It is compared, and nothing says with which answer."""


def install_float_maker(make: Any, notes: Notes) -> None:
    """Let capture turn a SymInt into a symbolic float (the builder emits the conversion)."""
    _float_maker[0], _notes[0] = make, notes


def fits(value: int | SymInt) -> bool:
    """Whether an integer is one of 64 bits. Of one that hangs on a call's numbers the answer is guarded; False also
    where only the run can say."""
    if not isinstance(value, SymInt):
        return int64.fits(value, _SETTLED)
    try:
        return int64.fits(value.expr, value.env)
    except UnknownSize:
        return False


def _is_held(value: Expr, env: ShapeEnv) -> bool:
    """Whether machine code, whose integers have 64 bits, can compute what Python does. Raises UnknownSize where that
    hangs on a size that only the run knows."""
    return int64.is_count(value) or int64.fits(value, env)


def is_int_like(value: object) -> bool:
    """int (bool included), SymInt or a bare expression."""
    return isinstance(value, (int, SymInt, Expr))


def to_dim(value: Any) -> Dim:
    """The dim behind an int or SymInt."""
    return value.expr if isinstance(value, SymInt) else int(value) if type(value) is bool else value


def wrap(value: Dim, env: ShapeEnv) -> IntLike:
    """A dim as Python code sees it."""
    return SymInt(value, env) if isinstance(value, Expr) else value
