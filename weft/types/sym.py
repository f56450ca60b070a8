"""SymInt: the integer that Python code sees where a size is a symbol. Arithmetic stays symbolic,
questions become guards.

A SymInt that outlives its capture (a cache of the user's kept it) is a plain number from then on: that of the call
that was captured.
"""

from __future__ import annotations

import sys
from typing import Any, Union

import numpy as np

from weft.types import dims
from weft.types.dims import Dim, Expr
from weft.types.shape_env import ShapeEnv, current_env

IntLike = Union[int, "SymInt"]


class SymInt:
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

    def _wrap(self, value: Dim) -> IntLike:
        return wrap(value, self._asked())

    def _asked(self) -> ShapeEnv:
        """Where questions go: a number has no environment of its own, and what it meets in a later capture has."""
        env = self.env
        return env if not env.is_over else current_env() or env

    def __add__(self, other: Any) -> Any:
        return self._wrap(self.expr + to_dim(other)) if is_int_like(other) else _number(self, other, "__add__")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._wrap(self.expr - to_dim(other)) if is_int_like(other) else _number(self, other, "__sub__")

    def __rsub__(self, other: Any) -> Any:
        return self._wrap(to_dim(other) - self.expr) if is_int_like(other) else _number(self, other, "__rsub__")

    def __mul__(self, other: Any) -> Any:
        return self._wrap(self.expr * to_dim(other)) if is_int_like(other) else _number(self, other, "__mul__")

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._wrap(dims.floordiv(self.expr, to_dim(other))) if is_int_like(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return self._wrap(dims.floordiv(to_dim(other), self.expr)) if is_int_like(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self._wrap(dims.mod(self.expr, to_dim(other))) if is_int_like(other) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return self._wrap(dims.mod(to_dim(other), self.expr)) if is_int_like(other) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if is_int_like(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if is_int_like(other) else NotImplemented

    def __lshift__(self, other: Any) -> Any:
        return self * 2 ** int(other)

    def __rshift__(self, other: Any) -> Any:
        return self // 2 ** int(other)

    def __rlshift__(self, other: int) -> int:
        return other << int(self)

    def __rrshift__(self, other: int) -> int:
        return other >> int(self)

    def __and__(self, other: Any) -> int:
        return int(self) & int(other)

    def __or__(self, other: Any) -> int:
        return int(self) | int(other)

    def __xor__(self, other: Any) -> int:
        return int(self) ^ int(other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

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
        return -self if self < 0 else self

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, int) and power >= 0:
            return self._wrap(dims.product([self.expr] * power))
        return _number(self, power, "__pow__")

    def __rpow__(self, base: Any) -> Any:
        return _number(self, base, "__rpow__")

    def __truediv__(self, other: Any) -> Any:
        return _number(self, other, "__truediv__")

    def __rtruediv__(self, other: Any) -> Any:
        return _number(self, other, "__rtruediv__")

    def __eq__(self, other: object) -> bool:
        if not is_int_like(other):
            return bool(isinstance(other, float)) and int(self) == other
        mine = self.expr
        return self._asked().equal(mine, to_dim(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._asked().less(self.expr, to_dim(other)) if is_int_like(other) else int(self) < other

    def __gt__(self, other: Any) -> bool:
        return self._asked().less(to_dim(other), self.expr) if is_int_like(other) else int(self) > other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return not self._asked().equal(self.expr, 0)

    def __int__(self) -> int:
        """The example's value, with a guard that it stays so: for `range(n)`, list sizes and the like."""
        mine = self.expr
        if isinstance(mine, int):
            return mine
        value = self.env.hint(mine)
        self.env.equal(mine, value)
        return value

    __index__ = __int__

    def __float__(self) -> float:
        if _taken_as_float[0] is not None:
            _taken_as_float[0](self, sys._getframe(1))
        return float(int(self))

    def __hash__(self) -> int:
        return hash(int(self))

    def __format__(self, spec: str) -> str:
        """The example's value, with a guard that it stays so: text is made once."""
        return format(int(self), spec)

    def __str__(self) -> str:
        return str(int(self))

    def __repr__(self) -> str:
        return self.env.text(self.expr)

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
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(int(self), name)


def _number(value: SymInt, other: Any, method: str) -> Any:
    """Arithmetic with a float: through a symbolic float where a builder offers one, else through the guarded value."""
    return getattr(_as_float(value), method)(_as_float(other) if isinstance(other, SymInt) else other)


def _as_float(value: SymInt) -> Any:
    make = _float_maker[0]
    lifted = make(value) if make is not None else None
    return float(int(value)) if lifted is None else lifted


_SETTLED = ShapeEnv(is_over=True)  # of numbers whose capture has ended: nothing of it is kept

_float_maker: list[Any] = [None]
_taken_as_float: list[Any] = [None]


def install_float_maker(make: Any, taken: Any) -> None:
    """Let capture turn a SymInt into a symbolic float (the builder emits the conversion).

    taken: called with a SymInt of which a plain float is made, and with the frame that asked for it.
    """
    _float_maker[0], _taken_as_float[0] = make, taken


def is_int_like(value: object) -> bool:
    """int (bool included), SymInt or a bare expression."""
    return isinstance(value, (int, SymInt, Expr))


def to_dim(value: Any) -> Dim:
    """The dim behind an int or SymInt."""
    return value.expr if isinstance(value, SymInt) else value


def wrap(value: Dim, env: ShapeEnv) -> IntLike:
    """A dim as Python code sees it."""
    return SymInt(value, env) if isinstance(value, Expr) else value
