"""The scalar protocol's arithmetic in LLVM: sums, products, quotients, remainders, powers, rounding."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.emit import Function, Value, const
from weft.codegen.math import complex_pairs, integers
from weft.codegen.math.core import FloatMath
from weft.codegen.scalar.element import Element, ScalarValues, illegal
from weft.types import dtype as dt

_QUOTIENTS = ("floordiv", "truncdiv")


class ScalarArithmetic(ScalarValues):
    """Operations on ints, floats and complex numbers; integers wrap, and no operand can trap."""

    # ---- arithmetic

    def add(self, x: Element, y: Element) -> Element:
        self._same("add", x, y)
        if x.dtype.is_complex:
            return self._parts(self.f.fadd, x, y)
        if x.dtype.is_floating_point:
            return self._floats("add", FloatMath.add, x, y)
        return Element(x.dtype, (self.f.or_ if x.dtype is dt.bool_ else self.f.add)(x.value, y.value))

    def sub(self, x: Element, y: Element) -> Element:
        self._same("sub", x, y)
        if x.dtype.is_complex:
            return self._parts(self.f.fsub, x, y)
        if x.dtype.is_floating_point:
            return self._floats("sub", FloatMath.sub, x, y)
        return Element(x.dtype, self.f.sub(self._int("sub", x), y.value))

    def mul(self, x: Element, y: Element) -> Element:
        self._same("mul", x, y)
        if x.dtype.is_complex:
            return Element(x.dtype, *complex_pairs.mul(self.m, x.pair, y.pair))
        if x.dtype.is_floating_point:
            return self._floats("mul", FloatMath.mul, x, y)
        return Element(x.dtype, (self.f.and_ if x.dtype is dt.bool_ else self.f.mul)(x.value, y.value))

    def div(self, x: Element, y: Element) -> Element:
        self._same("div", x, y)
        if x.dtype.is_complex:
            return Element(x.dtype, *complex_pairs.div(self.m, x.pair, y.pair))
        return self._floats("div", FloatMath.div, x, y)

    def floordiv(self, x: Element, y: Element) -> Element:
        return self._division("floordiv", integers.floor_quotient, x, y)

    def truncdiv(self, x: Element, y: Element) -> Element:
        return self._division("truncdiv", integers.quotient, x, y)

    def remainder(self, x: Element, y: Element) -> Element:
        return self._division("remainder", integers.floor_rest, x, y)

    def fmod(self, x: Element, y: Element) -> Element:
        return self._division("fmod", integers.rest, x, y)

    def _division(
        self, name: str, rule: Callable[[Function, Value, Value, bool], Value], x: Element, y: Element
    ) -> Element:
        if x.dtype.category >= dt.FLOAT:
            return self._binary(name, x, y)
        self._same(name, x, y)
        if x.dtype is dt.bool_:  # by 1 everything divides without a rest; by 0 as integers do
            return Element(x.dtype, self.f.and_(x.value, y.value) if name in _QUOTIENTS else const(x.value.type, 0))
        return Element(x.dtype, rule(self.f, self._int(name, x), y.value, x.dtype.is_signed))

    def _int(self, name: str, x: Element) -> Value:
        if x.dtype.category != dt.INT:
            raise illegal(name, x)
        return x.value

    def neg(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype, self.f.fneg(x.value), self.f.fneg(x.imag))
        if x.dtype.is_floating_point:
            return self._half(Element(self._single(x).dtype, self.f.fneg(self._single(x).value)), x.dtype)
        return Element(x.dtype, self.f.sub(0, self._int("neg", x)))

    def abs(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype.to_real(), complex_pairs.absolute(self.m, x.pair))
        if x.dtype.is_floating_point:
            up = self._single(x)
            return self._half(Element(up.dtype, self.m.abs(up.value)), x.dtype)
        if not x.dtype.is_signed:
            return x
        return Element(x.dtype, self.f.select(self.f.icmp("slt", x.value, 0), self.f.sub(0, x.value), x.value))

    def sign(self, x: Element) -> Element:
        f = self.f
        if x.imag is not None:
            return Element(x.dtype, *complex_pairs.sign(self.m, x.pair))
        if x.dtype.is_floating_point:
            up = self._single(x)
            below = f.select(self.m.less(up.value, 0.0), const(up.value.type, -1.0), const(up.value.type, 0.0))
            return self._half(Element(up.dtype, f.select(self.m.greater(up.value, 0.0), 1.0, below)), x.dtype)
        if x.dtype is dt.bool_:
            return x
        positive = f.zext(f.icmp("sgt" if x.dtype.is_signed else "ne", x.value, 0), x.value.type)
        return Element(
            x.dtype, f.or_(positive, f.ashr(x.value, x.value.type.bits - 1)) if x.dtype.is_signed else positive
        )

    def pow(self, x: Element, y: Element) -> Element:
        self._same("pow", x, y)
        if x.dtype.is_complex:
            return Element(x.dtype, *complex_pairs.pow(self.m, x.pair, y.pair))
        if x.dtype.is_floating_point:
            return self._float_power(x, y)
        if x.dtype is dt.bool_:
            return Element(x.dtype, self.f.or_(x.value, self.f.not_(y.value)))
        return Element(x.dtype, integers.power(self.f, x.value, y.value, x.dtype.is_signed))

    def _float_power(self, x: Element, y: Element) -> Element:
        """Squares and reciprocals, exactly rounded, where the exponent is known; else pow."""
        exponent = y.value.const
        if exponent == 1:
            return x
        if exponent == 2:
            return self.mul(x, x)
        if exponent == -1:
            return self.div(self.const(1.0, x.dtype), x)
        if exponent == 0.5:  # as NumPy and PyTorch have it: NaN of -inf, where pow gives inf
            return self._unary("sqrt", x)
        if exponent == -0.5:
            return self.div(self.const(1.0, x.dtype), self._unary("sqrt", x))
        if exponent == 3:
            return self.mul(self.mul(x, x), x)
        if exponent == -2:
            return self.div(self.const(1.0, x.dtype), self.mul(x, x))
        return self._binary("pow", x, y)

    # ---- rounding

    def floor(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("floor", x)

    def ceil(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("ceil", x)

    def trunc(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("trunc", x)

    def round(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("round", x)
