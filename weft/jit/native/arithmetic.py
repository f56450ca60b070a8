"""Python's rules for numbers in machine code: signs of division, exact comparison, errors. Where Python would raise,
or a result has no 64 bits, the code leaves for the interpreter.
"""

from __future__ import annotations

import math
from typing import Any

from weft.codegen.emit import F64, I1, I64, Function, Value, const
from weft.jit.native.kinds import Unfit

_EXACT = 1 << 53  # integers up to here are floats too
_LIMIT = 2.0**63
_WORDS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def immediate(number: Any) -> Value:
    """A number of the program as a constant. Raises Unfit for what is none."""
    if type(number) not in (bool, int, float):
        raise Unfit(repr(number))
    return const(I1 if type(number) is bool else F64 if type(number) is float else I64, number)


class PythonNumbers:
    """The operations of catalogue/language/native.py. Whoever derives from it says what `leave_if` does."""

    f: Function

    def leave_if(self, condition: Value) -> None:
        """Where the condition holds, the interpreter runs the operation."""
        raise NotImplementedError

    # ---- conversions
    def _number(self, x: Any) -> Value:
        return x if isinstance(x, Value) else immediate(x)

    def _wide(self, x: Any) -> Value:
        """A bool as an int."""
        number = self._number(x)
        return self.f.zext(number, I64) if number.type is I1 else number

    def _alike(self, a: Any, b: Any) -> tuple[Value, Value]:
        x, y = self._wide(a), self._wide(b)
        if x.type is y.type:
            return x, y
        return self.to_float(x), self.to_float(y)

    def to_float(self, a: Any) -> Value:
        x = self._wide(a)
        if x.type is F64:
            return x
        return const(F64, float(int(x.const))) if x.const is not None else self.f.sitofp(x, F64)

    def to_bool(self, a: Any) -> Value:
        x = self._number(a)
        if x.type is I1:
            return x
        return self.f.fcmp("une", x, 0.0) if x.type is F64 else self.f.icmp("ne", x, 0)

    def to_int(self, a: Any) -> Value:
        x = self._wide(a)
        return x if x.type is I64 else self.rounded("trunc", x)

    def rounded(self, name: str, a: Any) -> Value:
        x = self._wide(a)
        if x.type is I64:
            return x
        whole = self.f.intrinsic(name, x)
        fits = self.f.and_(self.f.fcmp("oge", whole, -_LIMIT), self.f.fcmp("olt", whole, _LIMIT))
        self.leave_if(self.f.not_(fits))
        return self.f.fptosi(whole, I64)

    # ---- arithmetic
    def arithmetic(self, name: str, a: Any, b: Any) -> Value:
        x, y = self._alike(a, b)
        return getattr(self.f, ("f" if x.type is F64 else "") + name)(x, y)  # type: ignore[no-any-return]

    def bits(self, name: str, a: Any, b: Any) -> Value:
        x, y = self._number(a), self._number(b)
        if x.type is not y.type:
            x, y = self._wide(x), self._wide(y)
        return getattr(self.f, name)(x, y)  # type: ignore[no-any-return]

    def neg(self, a: Any) -> Value:
        x = self._wide(a)
        return self.f.fneg(x) if x.type is F64 else self.f.sub(0, x)

    def pos(self, a: Any) -> Value:
        return self._wide(a)

    def abs(self, a: Any) -> Value:
        x = self._wide(a)
        if x.type is F64:
            return self.f.intrinsic("fabs", x)
        return self.f.select(self.f.icmp("slt", x, 0), self.f.sub(0, x), x)

    def invert(self, a: Any) -> Value:
        return self.f.xor(self._wide(a), -1)

    def not_(self, a: Any) -> Value:
        return self.f.not_(self.to_bool(a))

    def shift(self, name: str, a: Any, b: Any) -> Value:
        x, count = self._wide(a), self._wide(b)
        self.leave_if(self.f.icmp("slt", count, 0))
        small = self.f.icmp("slt", count, 64)
        if name == "ashr":
            return self.f.ashr(x, self.f.select(small, count, const(I64, 63)))
        return self.f.select(small, self.f.shl(x, self.f.select(small, count, const(I64, 0))), const(I64, 0))

    # ---- division
    def _refuse_zero(self, y: Value) -> None:
        if y.const is None or y.const == 0:
            self.leave_if(self.f.fcmp("oeq", y, 0.0) if y.type is F64 else self.f.icmp("eq", y, 0))

    def truediv(self, a: Any, b: Any) -> Value:
        x, y = self._wide(a), self._wide(b)
        if x.type is I64 and y.type is I64:  # Python rounds once: floats do so where both are exact
            self._refuse_inexact(x)
            self._refuse_inexact(y)
        x, y = self.to_float(x), self.to_float(y)
        self._refuse_zero(y)
        return self.f.fdiv(x, y)

    def _refuse_inexact(self, x: Value) -> None:
        if x.const is not None:
            if abs(x.const) > _EXACT:
                self.leave_if(const(I1, 1))
            return
        self.leave_if(self.f.icmp("ugt", self.f.add(x, _EXACT), 2 * _EXACT))

    def _divided(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Quotient and remainder of integers, cut off; the least integer by -1 wraps around."""
        f = self.f
        self._refuse_zero(y)
        if y.const is not None and y.const != -1:
            quotient = f.sdiv(x, y, "quotient")
            return quotient, f.sub(x, f.mul(quotient, y), "rest")
        turns = f.icmp("eq", y, -1)
        divisor = f.select(turns, const(I64, 1), y)
        quotient = f.sdiv(x, divisor, "quotient")
        rest = f.sub(x, f.mul(quotient, divisor), "rest")
        return f.select(turns, f.sub(0, x), quotient), rest

    def _corrects(self, rest: Value, y: Value) -> Value:
        """Whether rounding down differs from cutting off."""
        f = self.f
        return f.and_(f.icmp("ne", rest, 0), f.icmp("slt", f.xor(rest, y), 0))

    def floordiv(self, a: Any, b: Any) -> Value:
        x, y = self._alike(a, b)
        if x.type is F64:
            return self._float_divided(x, y)[0]
        quotient, rest = self._divided(x, y)
        return self.f.sub(quotient, self.f.zext(self._corrects(rest, y), I64))

    def mod(self, a: Any, b: Any) -> Value:
        x, y = self._alike(a, b)
        if x.type is F64:
            return self._float_divided(x, y)[1]
        _, rest = self._divided(x, y)
        return self.f.add(rest, self.f.select(self._corrects(rest, y), y, const(I64, 0)))

    def _float_divided(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Python's own steps: the remainder is exact, the quotient is what it leaves, made whole."""
        f = self.f
        self._refuse_zero(y)
        rest = f.frem(x, y, "rest")
        quotient = f.fdiv(f.fsub(x, rest), y, "quotient")
        is_inexact = f.fcmp("une", rest, 0.0)
        differs = f.xor(f.fcmp("olt", y, 0.0), f.fcmp("olt", rest, 0.0))
        corrects = f.and_(is_inexact, differs)
        zero = f.intrinsic("copysign", const(F64, 0.0), y)
        rest = f.select(is_inexact, f.select(corrects, f.fadd(rest, y), rest), zero, "modulo")
        quotient = f.select(corrects, f.fsub(quotient, 1.0), quotient)
        whole = f.intrinsic("floor", quotient)
        whole = f.select(f.fcmp("ogt", f.fsub(quotient, whole), 0.5), f.fadd(whole, 1.0), whole)
        nothing = f.intrinsic("copysign", const(F64, 0.0), f.fdiv(x, y))
        return f.select(f.fcmp("une", quotient, 0.0), whole, nothing), rest

    # ---- powers
    def power(self, a: Any, b: Any) -> Value:
        x, y = self.to_float(a), self.to_float(b)
        power = self._call("pow", x, y)
        self._refuse_infinity(power, x, y)
        return power

    def int_power(self, a: Any, exponent: Any) -> Value:
        x, written = self._wide(a), self._wide(exponent).const
        if written is None:
            raise Unfit("an exponent that is not written in the program")
        n = int(written)
        power: Value = const(I64, 1)
        while n:
            if n & 1:
                power = self.f.mul(power, x)
            n >>= 1
            if n:
                x = self.f.mul(x, x)
        return power

    # ---- comparison
    def compare(self, predicate: str, a: Any, b: Any) -> Value:
        x, y = self._wide(a), self._wide(b)
        if x.type is not y.type:
            self._refuse_inexact(x if x.type is I64 else y)
            x, y = self.to_float(x), self.to_float(y)
        if x.type is F64:
            return self.f.fcmp("une" if predicate == "ne" else "o" + predicate, x, y)
        return self.f.icmp(_WORDS[predicate], x, y)

    def extremum(self, predicate: str, a: Any, b: Any) -> Value:
        x, y = self._number(a), self._number(b)
        if x.type is not y.type or x.type is I1:  # Python gives back one of them, of its own type
            raise Unfit("the lesser or greater of numbers of different types")
        return self.f.select(self.compare(predicate, y, x), y, x)

    def range_length(self, start: Any, stop: Any, step: Any) -> Value:
        f = self.f
        low, high, by = self._wide(start), self._wide(stop), self._wide(step)
        self._refuse_zero(by)
        up = f.icmp("sgt", by, 0)
        first, last = f.select(up, low, high), f.select(up, high, low)
        stride = f.select(up, by, f.sub(0, by))
        steps = f.add(f.udiv(f.sub(f.sub(last, first), 1), self._not_zero(stride)), 1)
        length = f.select(f.icmp("slt", first, last), steps, const(I64, 0))
        self.leave_if(f.icmp("slt", length, 0))
        return length

    def _not_zero(self, x: Value) -> Value:
        return x if x.const is not None else self.f.select(self.f.icmp("eq", x, 0), const(I64, 1), x)

    # ---- functions
    def _call(self, name: str, *args: Value) -> Value:
        return self.f.call(self.f.module.declare(name, F64, [F64] * len(args)), args, name)

    def library(self, name: str, *args: Any) -> Value:
        f, numbers = self.f, [self.to_float(a) for a in args]
        result = self.intrinsic("sqrt", *numbers) if name == "sqrt" else self._call(name, *numbers)
        self._refuse_infinity(result, *numbers)
        is_nan, was_nan = f.fcmp("uno", result, 0.0), f.fcmp("uno", numbers[0], numbers[-1])
        self.leave_if(f.and_(is_nan, f.not_(was_nan)))
        return result

    def _refuse_infinity(self, result: Value, *args: Value) -> None:
        """No finite numbers have an infinite result: it is an error of Python's."""
        failed = self._is_infinite(result)
        for x in args:
            failed = self.f.and_(failed, self.is_kind_of_float("finite", x))
        self.leave_if(failed)

    def intrinsic(self, name: str, *args: Any) -> Value:
        return self.f.intrinsic(name, *map(self.to_float, args))

    def _is_infinite(self, x: Value) -> Value:
        return self.f.fcmp("oeq", self.f.intrinsic("fabs", x), math.inf)

    def is_kind_of_float(self, name: str, a: Any) -> Value:
        x = self.to_float(a)
        if name == "nan":
            return self.f.fcmp("uno", x, x)
        if name == "inf":
            return self._is_infinite(x)
        return self.f.fcmp("olt", self.f.intrinsic("fabs", x), math.inf)
