"""Calls, intrinsics and the instructions that work across the lanes of a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .arith import Arithmetic, Operand, same_type
from .types import I32, I64, VOID, EmitError, LType, Signature, Value, const, iota, poison, vec

_REDUCTIONS = frozenset(
    [
        "fadd",
        "fmul",
        "add",
        "mul",
        "and",
        "or",
        "xor",
        "smax",
        "smin",
        "umax",
        "umin",
        "fmax",
        "fmin",
        "fmaximum",
        "fminimum",
    ]
)


class VectorOps(Arithmetic):
    """Calls and intrinsics; lanes inserted, extracted, shuffled, reduced and masked."""

    def call(self, callee: Signature, args: Sequence[Value], name: str = "") -> Value:
        """Call a function of this module or a declared one; the result of a void function is a value of type void."""
        params = callee.params
        types = tuple(a.type for a in args)
        if types != params and not (callee.varargs and types[: len(params)] == params):
            raise EmitError(f"call @{callee.name}: takes ({_join(params)}), got ({_join(types)})")
        self.callees.add(callee.name)
        kind = callee.result.text + (f" ({_join(params)}, ...)" if callee.varargs else "")
        return self._call(f"call {kind} @{callee.name}", callee.result, args, name or callee.name)

    def call_pointer(self, pointer: Value, result: LType, args: Sequence[Value], name: str = "call") -> Value:
        """Call through a pointer; the arguments' types are taken as the function's."""
        return self._call(f"call {result.text} {pointer.text}", result, args, name)

    def _call(self, head: str, result: LType, args: Sequence[Value], name: str) -> Value:
        text = head + "(" + ", ".join([f"{a.type.text} {a.text}" for a in args]) + ")"
        if result is VOID:
            self._do(text)
            return Value(VOID, "")
        return self._emit(result, text, name)

    def intrinsic(
        self,
        name: str,
        *args: Value,
        result: LType | None = None,
        overloads: Sequence[LType] | None = None,
        hint: str = "",
        flags: str = "",
    ) -> Value:
        """Call `llvm.<name>`. By default it is overloaded on the first argument's type, which is also its result.

        `overloads=()` is for intrinsics without a type suffix; `flags` are fast-math words.
        """
        result = args[0].type if result is None else result
        suffixes = [args[0].type] if overloads is None else overloads
        full = "llvm." + name + "".join(["." + t.suffix for t in suffixes])
        self._declare(full, result, tuple([a.type for a in args]))
        head = f"call {flags}{' ' if flags else ''}{result.text} @{full}"
        return self._call(head, result, args, hint or name.replace(".", "_"))

    def fma(self, a: Operand, b: Operand, c: Operand, name: str = "fma") -> Value:
        """a * b + c, rounded once."""
        x = a if isinstance(a, Value) else b if isinstance(b, Value) else c
        if not isinstance(x, Value) or x.type.kind != "float":
            raise EmitError(f"fma: needs floats, got {a!r}, {b!r} and {c!r}")
        type = x.type
        a = same_type("fma", a, x)[0] if a is not x else x
        b = same_type("fma", b, x)[0] if b is not x else x
        c = same_type("fma", c, x)[0] if c is not x else x
        text, full = type.text, "llvm.fma." + type.suffix
        self._declare(full, type, (type, type, type))
        return self._emit(type, f"call {text} @{full}({text} {a.text}, {text} {b.text}, {text} {c.text})", name)

    def insertelement(self, v: Value, scalar: Value, index: int | Value, name: str = "ins") -> Value:
        """`v` with one lane replaced."""
        if not v.type.lanes or scalar.type is not v.type.elem:
            raise EmitError(f"insertelement: {scalar.type} is no lane of {v.type}")
        i = index if isinstance(index, Value) else const(I32, index)
        return self._emit(
            v.type,
            f"insertelement {v.type.text} {v.text}, {scalar.type.text} {scalar.text}, {i.type.text} {i.text}",
            name,
        )

    def extractelement(self, v: Value, index: int | Value, name: str = "lane") -> Value:
        """One lane of `v`."""
        if not v.type.lanes:
            raise EmitError(f"extractelement: {v.type} has no lanes")
        i = index if isinstance(index, Value) else const(I32, index)
        if v.const is not None:
            return const(v.type.elem, v.const)
        return self._emit(v.type.elem, f"extractelement {v.type.text} {v.text}, {i.type.text} {i.text}", name)

    def shufflevector(self, a: Value, b: Value | None, lanes: Sequence[int], name: str = "shuf") -> Value:
        """Lanes picked from `a` followed by `b`, by number; -1 picks nothing in particular."""
        b = poison(a.type) if b is None else b
        if not a.type.lanes or a.type is not b.type:
            raise EmitError(f"shufflevector: operand types differ or have no lanes: {a.type} and {b.type}")
        if not any(lanes):
            picks = "zeroinitializer"
        else:
            picks = "<" + ", ".join([f"i32 {i}" if i >= 0 else "i32 poison" for i in lanes]) + ">"
        text = f"shufflevector {a.type.text} {a.text}, {b.type.text} {b.text}, <{len(lanes)} x i32> {picks}"
        return self._emit(vec(a.type.elem, len(lanes)), text, name)

    def splat(self, scalar: Value, lanes: int, name: str = "splat") -> Value:
        """`scalar` in every lane; one lane gives `scalar` itself."""
        if scalar.type.lanes:
            raise EmitError(f"splat: {scalar.type} is a vector already")
        if lanes <= 1:
            return scalar
        to = vec(scalar.type, lanes)
        if scalar.const is not None:
            return const(to, scalar.const)
        return self.shufflevector(self.insertelement(poison(to), scalar, 0), None, [0] * lanes, name)

    def reduce(self, op: str, v: Value, start: Operand | None = None, flags: str = "", name: str = "") -> Value:
        """All lanes combined: fadd, fmul (both from `start`, in lane order unless flags say "reassoc"), add, mul, and,
        or, xor, smax, smin, umax, umin, fmax, fmin, fmaximum, fminimum."""
        if op not in _REDUCTIONS or not v.type.lanes:
            raise EmitError(f"reduce {op}: no such reduction of {v.type}")
        elem = v.type.elem
        args = [v]
        if op in ("fadd", "fmul"):
            identity = -0.0 if op == "fadd" else 1.0
            args = [same_type("reduce", identity if start is None else start, const(elem, 0))[0], v]
        return self.intrinsic(
            "vector.reduce." + op, *args, result=elem, overloads=[v.type], hint=name or "sum", flags=flags
        )

    def fold_lanes(self, v: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """The lanes of `v` combined by halves, lower with upper, until one is left: an order that is the same
        everywhere."""
        while v.type.lanes > 2:
            half = v.type.lanes // 2
            v = combine(*(self.shufflevector(v, None, range(at, at + half), "half") for at in (0, half)))
        return combine(self.extractelement(v, 0), self.extractelement(v, 1)) if v.type.lanes else v

    def first_lanes(self, count: Value, lanes: int, name: str = "mask") -> Value:
        """The first `count` (i64, clamped to 0..lanes) lanes true: a compare of 32-bit lanes,
        cheaper than LLVM's mask of active lanes."""
        if count.type is not I64:
            raise EmitError(f"first_lanes: count must be {I64}, got {count.type}")
        if lanes <= 1:
            return self.icmp("sgt", count, 0, name)
        clamped = self.smin(self.smax(count, const(I64, 0)), const(I64, lanes))
        return self.icmp("ult", iota(I32, lanes), self.splat(self.trunc(clamped, I32), lanes), name)

    def _extreme(self, op: str, predicate: str, a: Operand, b: Operand, name: str) -> Value:
        a, b = same_type(op, a, b)
        if a.const is not None and b.const is not None:
            return self.select(self.icmp(predicate, a, b), a, b)
        if a.type.kind != "int":
            raise EmitError(f"{op}: needs integers, got {a.type} and {b.type}")
        return self.intrinsic(op, a, b, hint=name or op)

    def smin(self, a: Operand, b: Operand, name: str = "") -> Value:
        """The lesser of two signed integers."""
        return self._extreme("smin", "slt", a, b, name)

    def smax(self, a: Operand, b: Operand, name: str = "") -> Value:
        """The greater of two signed integers."""
        return self._extreme("smax", "sgt", a, b, name)

    def freeze(self, v: Value, name: str = "") -> Value:
        """`v`, or some fixed bits where `v` is poison."""
        return self._emit(v.type, f"freeze {v.type.text} {v.text}", name or "frozen")

    def opaque(self, v: Value, name: str = "opaque") -> Value:
        """`v` (an integer or a pointer), but as something that code generation knows nothing about:
        no instruction is spent, and addresses computed from it are neither merged with others nor rewritten."""
        if v.type.lanes or v.type.kind not in ("int", "ptr"):
            raise EmitError(f"opaque: needs an integer or a pointer, got {v.type}")
        return self._emit(v.type, f'call {v.type.text} asm "", "=r,0"({v.type.text} {v.text})', name)


def _join(types: Sequence[LType]) -> str:
    return ", ".join([t.text for t in types])


__all__ = ["Signature", "VectorOps"]
