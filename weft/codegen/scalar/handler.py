"""The LLVM handler of the scalar protocol: a pointwise body, run over it, writes code for a vector of elements.

    s = LlvmScalar(function, lanes, target)
    x = s.element(float32, function.load(vec(F32, lanes), p))
    y = op.scalar(s, x, s.const(2.0, float32))
    function.store(y.value, q)

Half precisions compute in float32 and round after each operation. No operation can trap or depend on the number of
lanes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

from weft.codegen.emit import Value
from weft.codegen.math import complex_pairs, integers
from weft.codegen.math.functions import UNARY
from weft.codegen.scalar.arith import ScalarArithmetic
from weft.codegen.scalar.element import Element, illegal, memory_type, register_type
from weft.ops.scalar import METHODS, ScalarOps
from weft.types import dtype as dt

__all__ = ["Element", "LlvmScalar", "memory_type", "register_type"]


class LlvmScalar(ScalarArithmetic):
    """weft.ops.scalar.ScalarOps over Elements of `lanes` lanes (1: scalars), appended to `function`.

    Values and casts are in element.py, arithmetic in arith.py; here: functions, order, bits, complex parts.
    """

    # ---- functions of floats that take other elements too; all others of codegen/math follow

    def sqrt(self, x: Element) -> Element:
        return self._complex_unary("sqrt", complex_pairs.sqrt, x)

    def rsqrt(self, x: Element) -> Element:
        if x.imag is not None:
            return self.div(self.const(1.0, x.dtype), self.sqrt(x))
        return self._unary("rsqrt", x)

    def exp(self, x: Element) -> Element:
        return self._complex_unary("exp", complex_pairs.exp, x)

    def exp2(self, x: Element) -> Element:
        if x.imag is not None:
            parts = [self.f.fmul(part, math.log(2)) for part in x.pair]  # (by 0i an infinite part would be NaN)
            return self.exp(Element(x.dtype, *parts))
        return self._unary("exp2", x)

    def log(self, x: Element) -> Element:
        return self._complex_unary("log", complex_pairs.log, x)

    def log2(self, x: Element) -> Element:
        return self._scaled_log("log2", 2, x)

    def log10(self, x: Element) -> Element:
        return self._scaled_log("log10", 10, x)

    def _scaled_log(self, name: str, base: int, x: Element) -> Element:
        if x.imag is None:
            return self._unary(name, x)
        real, imag = self.log(x).pair
        return Element(x.dtype, self.f.fmul(real, 1 / math.log(base)), self.f.fmul(imag, 1 / math.log(base)))

    def sin(self, x: Element) -> Element:
        return self._circular("sin", complex_pairs.sinh, x)

    def cos(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype, *complex_pairs.cosh(self.m, complex_pairs.turned(self.m, x.pair)))
        return self._unary("cos", x)

    def tan(self, x: Element) -> Element:
        return self._circular("tan", complex_pairs.tanh, x)

    def _circular(self, name: str, rule: Callable[..., tuple[Value, Value]], x: Element) -> Element:
        """The circular function of a hyperbolic one, which exchanges the parts of its operand and of its result: no
        sign changes, so that infinities keep theirs."""
        if x.imag is None:
            return self._unary(name, x)
        real, imaginary = x.pair
        imaginary, real = rule(self.m, (imaginary, real))
        return Element(x.dtype, real, imaginary)

    def sinh(self, x: Element) -> Element:
        return self._complex_unary("sinh", complex_pairs.sinh, x)

    def cosh(self, x: Element) -> Element:
        return self._complex_unary("cosh", complex_pairs.cosh, x)

    def tanh(self, x: Element) -> Element:
        return self._complex_unary("tanh", complex_pairs.tanh, x)

    def sigmoid(self, x: Element) -> Element:
        if x.imag is not None:
            one = self.const(1.0, x.dtype)
            return self.div(one, self.add(one, self.exp(self.neg(x))))
        return self._unary("sigmoid", x)

    # ---- order

    def maximum(self, x: Element, y: Element) -> Element:
        return self._extreme("maximum", "gt", x, y)

    def minimum(self, x: Element, y: Element) -> Element:
        return self._extreme("minimum", "lt", x, y)

    def _extreme(self, name: str, order: str, x: Element, y: Element) -> Element:
        if x.dtype.is_floating_point:
            return self._binary(name, x, y)
        return Element(x.dtype, self.f.select(self._compared(name, order, x, y), x.value, y.value))

    def eq(self, x: Element, y: Element) -> Element:
        return self._equality("eq", self.f.and_, x, y)

    def ne(self, x: Element, y: Element) -> Element:
        return self._equality("ne", self.f.or_, x, y)

    def _equality(self, order: str, join: Callable[[Value, Value], Value], x: Element, y: Element) -> Element:
        same = self._compared(order, order, x, y)
        if x.imag is not None and y.imag is not None:
            predicate = "oeq" if order == "eq" else "une"
            same = join(same, self.f.fcmp(predicate, x.imag, y.imag))
        return Element(dt.bool_, same)

    def lt(self, x: Element, y: Element) -> Element:
        return self._ordering("lt", x, y)

    def le(self, x: Element, y: Element) -> Element:
        return self._ordering("le", x, y)

    def gt(self, x: Element, y: Element) -> Element:
        return self._ordering("gt", x, y)

    def ge(self, x: Element, y: Element) -> Element:
        return self._ordering("ge", x, y)

    def _ordering(self, order: str, x: Element, y: Element) -> Element:
        if x.dtype.is_complex:
            raise illegal(order, x)
        return Element(dt.bool_, self._compared(order, order, x, y))

    def _compared(self, name: str, order: str, x: Element, y: Element) -> Value:
        """The i1 of an ordering of real values (of the real parts of complex ones)."""
        self._same(name, x, y)
        if x.dtype.category >= dt.FLOAT:
            return self.f.fcmp(("u" if order == "ne" else "o") + order, self._single(x).value, self._single(y).value)
        if order in ("eq", "ne"):
            return self.f.icmp(order, x.value, y.value)
        return self.f.icmp(("s" if x.dtype.is_signed else "u") + order, x.value, y.value)

    def isnan(self, x: Element) -> Element:
        return self._classified(x, lambda v: self.m.is_nan(v), any_part=True, of_ints=False)

    def isinf(self, x: Element) -> Element:
        return self._classified(x, lambda v: self.m.equal(self.m.abs(v), math.inf), any_part=True, of_ints=False)

    def isfinite(self, x: Element) -> Element:
        return self._classified(x, lambda v: self.m.less(self.m.abs(v), math.inf), any_part=False, of_ints=True)

    def _classified(self, x: Element, test: Callable[[Value], Value], any_part: bool, of_ints: bool) -> Element:
        if x.dtype.category < dt.FLOAT:
            return self.const(of_ints, dt.bool_)
        holds = test(self._single(x).value)
        if x.imag is not None:
            holds = (self.f.or_ if any_part else self.f.and_)(holds, test(x.imag))
        return Element(dt.bool_, holds)

    def signbit(self, x: Element) -> Element:
        if x.dtype.is_complex:
            raise illegal("signbit", x)
        if not x.dtype.is_signed:
            return self.const(False, dt.bool_)
        integer = self.bits(x) if x.dtype.is_floating_point else x
        return Element(dt.bool_, self.f.icmp("slt", integer.value, 0))

    # ---- bits of bool and int

    def bit_and(self, x: Element, y: Element) -> Element:
        return self._bitwise("bit_and", self.f.and_, x, y)

    def bit_or(self, x: Element, y: Element) -> Element:
        return self._bitwise("bit_or", self.f.or_, x, y)

    def bit_xor(self, x: Element, y: Element) -> Element:
        return self._bitwise("bit_xor", self.f.xor, x, y)

    def _bitwise(self, name: str, rule: Callable[[Value, Value], Value], x: Element, y: Element) -> Element:
        self._same(name, x, y)
        if x.dtype.category >= dt.FLOAT:
            raise illegal(name, x)
        return Element(x.dtype, rule(x.value, y.value))

    def bit_not(self, x: Element) -> Element:
        if x.dtype.category >= dt.FLOAT:
            raise illegal("bit_not", x)
        return Element(x.dtype, self.f.not_(x.value))

    def shl(self, x: Element, y: Element) -> Element:
        self._same("shl", x, y)
        return Element(x.dtype, integers.shift_left(self.f, self._int("shl", x), y.value))

    def shr(self, x: Element, y: Element) -> Element:
        self._same("shr", x, y)
        return Element(x.dtype, integers.shift_right(self.f, self._int("shr", x), y.value, x.dtype.is_signed))

    # ---- choice

    def where(self, condition: Element, x: Element, y: Element) -> Element:
        self._same("where", x, y)
        value = self.f.select(condition.value, x.value, y.value)
        if x.imag is None or y.imag is None:
            return Element(x.dtype, value)
        return Element(x.dtype, value, self.f.select(condition.value, x.imag, y.imag))

    # ---- complex

    def complex(self, real: Element, imag: Element) -> Element:
        self._same("complex", real, imag)
        if real.dtype not in (dt.float32, dt.float64):
            raise illegal("complex", real)
        return Element(real.dtype.to_complex(), real.value, imag.value)

    def real(self, x: Element) -> Element:
        return Element(x.dtype.to_real(), x.value)

    def imag(self, x: Element) -> Element:
        return self.const(0, x.dtype) if x.imag is None else Element(x.dtype.to_real(), x.imag)

    def conj(self, x: Element) -> Element:
        return x if x.imag is None else Element(x.dtype, x.value, self.f.fneg(x.imag))

    def angle(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype.to_real(), complex_pairs.angle(self.m, x.pair))
        if not x.dtype.is_floating_point:
            raise illegal("angle", x)
        zero, half_turn = self.const(0.0, x.dtype), self.const(math.pi, x.dtype)
        turned = self.where(self.lt(x, zero), half_turn, zero)
        return self.where(self.isnan(x), x, turned)


def _of_floats(name: str, operands: int) -> Callable[..., Element]:
    def method(self: LlvmScalar, *x: Element) -> Element:
        return self._unary(name, *x) if operands == 1 else self._binary(name, *x)

    method.__signature__ = inspect.signature(getattr(ScalarOps, name))  # type: ignore[attr-defined]
    return method


for _name in METHODS:
    if not hasattr(LlvmScalar, _name):
        setattr(LlvmScalar, _name, _of_floats(_name, 1 if _name in UNARY else 2))
