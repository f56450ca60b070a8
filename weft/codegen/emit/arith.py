"""Arithmetic instructions: each method checks its operands, folds what constants allow,
and appends one line of LLVM text.

Folding matters because no optimisation pipeline runs on the text: index sums with 0 and products with 1 must not reach
it. A Python number is accepted wherever the other operand fixes the type.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from .types import I1, EmitError, LType, Signature, Value, const, like, wrap

Operand = Value | int | float


def _shift_right_logical(a: int, b: int, bits: int) -> int:
    return (a & ((1 << bits) - 1)) >> b


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FOLD_INT: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "sdiv": lambda a, b, bits: _quotient(a, b),
    "srem": lambda a, b, bits: a - b * _quotient(a, b),
    "udiv": lambda a, b, bits: (a % (1 << bits)) // (b % (1 << bits)),
    "urem": lambda a, b, bits: (a % (1 << bits)) % (b % (1 << bits)),
    "and": lambda a, b, bits: a & b,
    "or": lambda a, b, bits: a | b,
    "xor": lambda a, b, bits: a ^ b,
    "shl": lambda a, b, bits: a << b,
    "lshr": _shift_right_logical,
    "ashr": lambda a, b, bits: a >> b,
}
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_SHIFTS = ("shl", "lshr", "ashr")
_RIGHT_ZERO_IS_LEFT = frozenset(("add", "sub", "or", "xor", "shl", "lshr", "ashr"))
_RIGHT_ONE_IS_LEFT = frozenset(("mul", "sdiv", "udiv"))
_COMMUTES = frozenset(("add", "mul", "or", "xor", "and"))
_SIGNED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
}
_UNSIGNED = {"ult": operator.lt, "ule": operator.le, "ugt": operator.gt, "uge": operator.ge}
_FLOAT_PREDICATES = frozenset(
    ["oeq", "one", "olt", "ole", "ogt", "oge", "ord", "ueq", "une", "ult", "ule", "ugt", "uge", "uno", "true", "false"]
)


_FOLDED_CASTS = frozenset(("trunc", "zext", "sext", "sitofp"))


def _fold_cast(op: str, a: Value, to: LType) -> Value:
    """A constant integer, cast; a true i1 is 1 without a sign and -1 with one."""
    number = int(a.const or 0)
    if op == "zext":
        number %= 1 << a.type.bits
    elif a.type.bits == 1 and op != "trunc":
        number = -number
    return const(to, number)


def _fold_pair(op: str, type: LType, a: int, b: int) -> Value | None:
    """The constant that `a op b` is, or None where LLVM gives it no value (division by zero, too long a shift)."""
    if (op in _DIVISIONS and b == 0) or (op in _SHIFTS and not 0 <= b < type.bits):
        return None
    return const(type, wrap(type.elem, _FOLD_INT[op](a, b, type.bits)))


def _identity(op: str, a: Value, b: Value) -> Value | None:
    """The operand that `a op b` equals when one of them is 0, 1 or all ones."""
    if b.const is None:
        if op not in _COMMUTES or a.const is None:
            return None
        a, b = b, a
    if b.const == 0:
        if op in _RIGHT_ZERO_IS_LEFT:
            return a
        return b if op in ("mul", "and") else None
    if b.const == 1 and a.type.bits > 1:
        return a if op in _RIGHT_ONE_IS_LEFT else None
    return a if b.const == -1 and op == "and" else None


class Emitter:
    """Appends lines to the current block and hands out readable, unique register names."""

    def __init__(self, declare: Callable[..., Signature]) -> None:
        self.callees: set[str] = set()  # names of the functions that are called
        self._declare = declare
        self._lines: list[str] = []
        self._allocas: list[str] = []
        self._names: dict[str, int] = {}
        self._open = True

    def _fresh(self, hint: str) -> str:
        seen = self._names.get(hint)
        if seen is None:
            if not hint.replace("_", "a").isalnum():
                return self._fresh("".join(c if c.isalnum() else "_" for c in hint) or "v")
            self._names[hint] = 1
            return hint
        self._names[hint] = seen + 1
        return f"{hint}.{seen}"

    def _emit(self, type: LType, text: str, name: str) -> Value:
        if not self._open:
            raise EmitError(f"instruction after the end of a block: {text}")
        register = "%" + self._fresh(name)
        self._lines.append(f"  {register} = {text}")
        return Value(type, register)

    def _do(self, text: str) -> None:
        if not self._open:
            raise EmitError(f"instruction after the end of a block: {text}")
        self._lines.append("  " + text)


def same_type(op: str, a: Operand, b: Operand) -> tuple[Value, Value]:
    """Both operands as values of one type; raises EmitError naming both types if they differ."""
    if not isinstance(a, Value):
        if not isinstance(b, Value):
            raise EmitError(f"{op}: two Python numbers have no LLVM type ({a!r}, {b!r})")
        return const(b.type, a), b
    if not isinstance(b, Value):
        return a, const(a.type, b)
    if a.type is not b.type:
        raise EmitError(f"{op}: operand types differ: {a.type} ({a.text}) and {b.type} ({b.text})")
    return a, b


class Arithmetic(Emitter):
    """Integer and floating point arithmetic, comparisons, selection and casts."""

    def _int(self, op: str, a: Operand, b: Operand, flags: str, name: str) -> Value:
        a, b = same_type(op, a, b)
        type = a.type
        if type.kind != "int":
            raise EmitError(f"{op}: needs integers, got {type} and {b.type}")
        if a.const is not None or b.const is not None:
            folded = _identity(op, a, b)
            if folded is None and a.const is not None and b.const is not None:
                folded = _fold_pair(op, type, int(a.const), int(b.const))
            if folded is not None:
                return folded
        return self._emit(type, f"{op} {flags}{' ' if flags else ''}{type.text} {a.text}, {b.text}", name or op)

    def add(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a + b, wrapping; `flags` may say "nuw", "nsw" or both."""
        return self._int("add", a, b, flags, name)

    def sub(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a - b, wrapping."""
        return self._int("sub", a, b, flags, name)

    def mul(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a * b, wrapping."""
        return self._int("mul", a, b, flags, name)

    def sdiv(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a / b of signed integers, towards zero; undefined for b == 0."""
        return self._int("sdiv", a, b, flags, name)

    def udiv(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a / b of unsigned integers; undefined for b == 0."""
        return self._int("udiv", a, b, flags, name)

    def srem(self, a: Operand, b: Operand, name: str = "") -> Value:
        """Remainder with the sign of a (C's %, not Python's)."""
        return self._int("srem", a, b, "", name)

    def urem(self, a: Operand, b: Operand, name: str = "") -> Value:
        """Remainder of unsigned integers."""
        return self._int("urem", a, b, "", name)

    def and_(self, a: Operand, b: Operand, name: str = "") -> Value:
        """Bitwise and."""
        return self._int("and", a, b, "", name)

    def or_(self, a: Operand, b: Operand, name: str = "") -> Value:
        """Bitwise or."""
        return self._int("or", a, b, "", name)

    def xor(self, a: Operand, b: Operand, name: str = "") -> Value:
        """Bitwise exclusive or."""
        return self._int("xor", a, b, "", name)

    def not_(self, a: Value, name: str = "not") -> Value:
        """All bits flipped; logical not for i1."""
        return self._int("xor", a, 1 if a.type.bits == 1 else -1, "", name)

    def shl(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a << b; undefined unless 0 <= b < bits."""
        return self._int("shl", a, b, flags, name)

    def lshr(self, a: Operand, b: Operand, name: str = "") -> Value:
        """a >> b, zeros shifted in."""
        return self._int("lshr", a, b, "", name)

    def ashr(self, a: Operand, b: Operand, name: str = "") -> Value:
        """a >> b, the sign shifted in."""
        return self._int("ashr", a, b, "", name)

    def _float(self, op: str, a: Operand, b: Operand, flags: str, name: str) -> Value:
        a, b = same_type(op, a, b)
        type = a.type
        if type.kind != "float":
            raise EmitError(f"{op}: needs floats, got {type} and {b.type}")
        return self._emit(type, f"{op} {flags}{' ' if flags else ''}{type.text} {a.text}, {b.text}", name or op)

    def fadd(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a + b; `flags` may hold fast-math words such as "reassoc nsz"."""
        return self._float("fadd", a, b, flags, name)

    def fsub(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a - b."""
        return self._float("fsub", a, b, flags, name)

    def fmul(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a * b."""
        return self._float("fmul", a, b, flags, name)

    def fdiv(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """a / b."""
        return self._float("fdiv", a, b, flags, name)

    def frem(self, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """C's fmod; becomes a library call."""
        return self._float("frem", a, b, flags, name)

    def fneg(self, a: Value, name: str = "") -> Value:
        """-a, also of NaN and zero."""
        if a.type.kind != "float":
            raise EmitError(f"fneg: needs a float, got {a.type}")
        return self._emit(a.type, f"fneg {a.type.text} {a.text}", name or "fneg")

    def icmp(self, predicate: str, a: Operand, b: Operand, name: str = "") -> Value:
        """Compare integers or pointers; predicate is eq, ne, slt, sle, sgt, sge, ult, ule, ugt or uge."""
        a, b = same_type("icmp " + predicate, a, b)
        if a.type.kind not in ("int", "ptr") or (predicate not in _SIGNED and predicate not in _UNSIGNED):
            raise EmitError(f"icmp {predicate}: needs integers or pointers, got {a.type} and {b.type}")
        result = like(I1, a.type)
        if a.const is not None and b.const is not None:
            if predicate in _SIGNED and a.type.bits > 1:
                return const(result, _SIGNED[predicate](a.const, b.const))
            if predicate in _UNSIGNED:
                span = 1 << a.type.bits
                return const(result, _UNSIGNED[predicate](int(a.const) % span, int(b.const) % span))
        return self._emit(result, f"icmp {predicate} {a.type.text} {a.text}, {b.text}", name or "is_" + predicate)

    def fcmp(self, predicate: str, a: Operand, b: Operand, name: str = "", flags: str = "") -> Value:
        """Compare floats; predicate is o.. (false with a NaN) or u.. (true with a NaN) of eq, ne, lt, le,
        gt, ge, or ord, uno."""
        a, b = same_type("fcmp " + predicate, a, b)
        if a.type.kind != "float" or predicate not in _FLOAT_PREDICATES:
            raise EmitError(f"fcmp {predicate}: needs floats, got {a.type} and {b.type}")
        text = f"fcmp {flags}{' ' if flags else ''}{predicate} {a.type.text} {a.text}, {b.text}"
        return self._emit(like(I1, a.type), text, name or "is_" + predicate)

    def select(self, cond: Value, a: Operand, b: Operand, name: str = "") -> Value:
        """a where cond else b; cond is i1, or one i1 for each lane."""
        a, b = same_type("select", a, b)
        if cond.type is not I1 and cond.type is not like(I1, a.type):
            raise EmitError(f"select: condition of type {cond.type} cannot choose between values of type {a.type}")
        if cond.const is not None:
            return a if cond.const else b
        return self._emit(
            a.type,
            f"select {cond.type.text} {cond.text}, {a.type.text} {a.text}, {b.type.text} {b.text}",
            name or "sel",
        )

    def _cast(self, op: str, a: Value, to: LType, kinds: str, name: str) -> Value:
        source, target = kinds.split()
        to = to if to.lanes else like(to, a.type)
        grows = {"zext": True, "sext": True, "fpext": True, "trunc": False, "fptrunc": False}.get(op)
        is_sized = grows is None or (to.bits > a.type.bits if grows else to.bits < a.type.bits)
        if a.type.kind != source or to.kind != target or a.type.lanes != to.lanes or not is_sized:
            raise EmitError(f"{op}: cannot turn {a.type} ({a.text}) into {to}")
        if a.const is not None and op in _FOLDED_CASTS:
            return _fold_cast(op, a, to)
        return self._emit(to, f"{op} {a.type.text} {a.text} to {to.text}", name or op)

    def trunc(self, a: Value, to: LType, name: str = "") -> Value:
        """The low bits of an integer. A scalar target type stands for as many lanes as `a` has,
        here and in every cast."""
        return self._cast("trunc", a, to, "int int", name)

    def zext(self, a: Value, to: LType, name: str = "") -> Value:
        """An unsigned integer, wider."""
        return self._cast("zext", a, to, "int int", name)

    def sext(self, a: Value, to: LType, name: str = "") -> Value:
        """A signed integer, wider."""
        return self._cast("sext", a, to, "int int", name)

    def fptrunc(self, a: Value, to: LType, name: str = "") -> Value:
        """A float, narrower, rounded half to even."""
        return self._cast("fptrunc", a, to, "float float", name)

    def fpext(self, a: Value, to: LType, name: str = "") -> Value:
        """A float, wider, exactly."""
        return self._cast("fpext", a, to, "float float", name)

    def sitofp(self, a: Value, to: LType, name: str = "") -> Value:
        """A signed integer as a float."""
        return self._cast("sitofp", a, to, "int float", name)

    def uitofp(self, a: Value, to: LType, name: str = "") -> Value:
        """An unsigned integer as a float."""
        return self._cast("uitofp", a, to, "int float", name)

    def fptosi(self, a: Value, to: LType, name: str = "") -> Value:
        """A float as a signed integer, towards zero; undefined out of range."""
        return self._cast("fptosi", a, to, "float int", name)

    def bitcast(self, a: Value, to: LType, name: str = "") -> Value:
        """The same bits as another type of the same total size."""
        if max(a.type.lanes, 1) * a.type.bits != max(to.lanes, 1) * to.bits or "ptr" in (a.type.kind, to.kind):
            raise EmitError(f"bitcast: {a.type} ({a.text}) and {to} differ in size")
        return a if a.type is to else self._emit(to, f"bitcast {a.type.text} {a.text} to {to.text}", name or "bits")
