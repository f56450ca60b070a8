"""Arithmetic on numbers that are only known when the program runs: the bodies of catalogue/language/native.py as
operators on 0-dim tensors. What may raise by their values is refused: the program then is interpreted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.jit.interpreter.recording.values import NotRecorded, RunTime, number_tensor
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, FLOAT, INT, Type

_KINDS: dict[DType, Type] = {dt.int64: INT, dt.float64: FLOAT, dt.bool_: BOOL}
_BITS = {"and_": aten.bitwise_and, "or_": aten.bitwise_or, "xor": aten.bitwise_xor}
_SHIFTS: dict[str, Callable[..., Any]] = {"shl": aten.bitwise_left_shift, "ashr": aten.bitwise_right_shift}
_ARITHMETIC: dict[str, Callable[..., Any]] = {"add": aten.add, "sub": aten.sub, "mul": aten.mul}
_ROUNDED: dict[str, Callable[..., Any]] = {
    "floor": aten.floor, "ceil": aten.ceil, "trunc": aten.trunc, "roundeven": aten.round
}
_FLOATS: dict[str, Callable[..., Any]] = {"finite": aten.isfinite, "inf": aten.isinf, "nan": aten.isnan}


def _made(tensor: Any) -> RunTime:
    return RunTime(tensor, _KINDS[tensor.dtype])


def _refused(what: str) -> NotRecorded:
    return NotRecorded(f"{what} of numbers that are only known when the program runs")


class RecordedNumbers:
    """Operations on numbers, each a number of Python's, a symbol, a RunTime, or a tensor with one element."""

    def _tensor(self, x: Any) -> Tensor:
        if isinstance(x, Tensor):
            return x if x.ndim == 0 else aten.reshape(x, ())
        return number_tensor(x)

    def _wide(self, x: Any) -> Tensor:
        tensor = self._tensor(x)
        return tensor.to(dt.int64) if tensor.dtype is dt.bool_ else tensor

    def _float(self, x: Any) -> Tensor:
        tensor = self._tensor(x)
        return tensor if tensor.dtype is dt.float64 else tensor.to(dt.float64)

    def _alike(self, a: Any, b: Any) -> tuple[Tensor, Tensor]:
        x, y = self._wide(a), self._wide(b)
        return (x, y) if x.dtype is y.dtype else (self._float(x), self._float(y))

    def arithmetic(self, name: str, a: Any, b: Any) -> RunTime:
        return _made(_ARITHMETIC[name](*self._alike(a, b)))

    def bits(self, name: str, a: Any, b: Any) -> RunTime:
        x, y = self._tensor(a), self._tensor(b)
        if x.dtype is not y.dtype:
            x, y = self._wide(x), self._wide(y)
        return _made(_BITS[name](x, y))

    def _divisor(self, b: Any) -> None:
        if type(b) not in (int, float) or b == 0:
            raise _refused("division by a number")

    def truediv(self, a: Any, b: Any) -> RunTime:
        self._divisor(b)
        return _made(aten.div(self._float(a), self._float(b)))

    def floordiv(self, a: Any, b: Any) -> RunTime:
        self._divisor(b)
        return _made(aten.div(*self._alike(a, b), rounding_mode="floor"))

    def mod(self, a: Any, b: Any) -> RunTime:
        self._divisor(b)
        return _made(aten.remainder(*self._alike(a, b)))

    def neg(self, a: Any) -> RunTime:
        return _made(aten.neg(self._wide(a)))

    def pos(self, a: Any) -> RunTime:
        return _made(self._wide(a))

    def abs(self, a: Any) -> RunTime:
        return _made(aten.abs(self._wide(a)))

    def invert(self, a: Any) -> RunTime:
        return _made(aten.bitwise_not(self._wide(a)))

    def not_(self, a: Any) -> RunTime:
        return _made(aten.logical_not(self._tensor(a)))

    def shift(self, name: str, a: Any, b: Any) -> RunTime:
        if type(b) is not int or b < 0:
            raise _refused("shifts")
        return _made(_SHIFTS[name](self._wide(a), min(b, 63)) if b < 64 or name == "ashr" else number_tensor(0))

    def power(self, a: Any, b: Any) -> RunTime:
        raise _refused("powers")

    def int_power(self, a: Any, exponent: Any) -> RunTime:
        base, power = self._wide(a), self._wide(1)
        for bit in bin(int(exponent))[2:]:
            power = aten.mul(power, power)
            power = aten.mul(power, base) if bit == "1" else power
        return _made(power)

    def compare(self, predicate: str, a: Any, b: Any) -> RunTime:
        return _made(getattr(aten, predicate)(*self._alike(a, b)))

    def extremum(self, predicate: str, a: Any, b: Any) -> RunTime:
        x, y = self._tensor(a), self._tensor(b)
        if x.dtype is not y.dtype:
            raise _refused("the lesser or greater")
        return _made(aten.where(getattr(aten, predicate)(y, x), y, x))

    def to_int(self, a: Any) -> RunTime:
        return _made(self._tensor(a).to(dt.int64))

    def to_float(self, a: Any) -> RunTime:
        return _made(self._float(a))

    def to_bool(self, a: Any) -> RunTime:
        return _made(self._tensor(a).to(dt.bool_))

    def rounded(self, name: str, a: Any) -> RunTime:
        x = self._wide(a)
        return _made(x if x.dtype is dt.int64 else _ROUNDED[name](x).to(dt.int64))

    def range_length(self, start: Any, stop: Any, step: Any) -> RunTime:
        self._divisor(step)
        distance = aten.sub(self._wide(stop), self._wide(start))
        steps = aten.div(aten.add(distance, step - (1 if step > 0 else -1)), step, rounding_mode="floor")
        return _made(aten.clamp(steps, min=0))

    def library(self, name: str, *args: Any) -> RunTime:
        raise _refused(name)

    def intrinsic(self, name: str, *args: Any) -> RunTime:
        if name != "fabs":
            raise _refused(name)
        return _made(aten.abs(self._float(args[0])))

    def is_kind_of_float(self, name: str, a: Any) -> RunTime:
        return _made(_FLOATS[name](self._float(a)))


NUMBERS = RecordedNumbers()
