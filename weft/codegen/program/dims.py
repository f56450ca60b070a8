"""Arithmetic on sizes: division as Python rounds, and which size is never smaller than another."""

from __future__ import annotations

from functools import lru_cache

from weft.codegen.emit import I64, Function, Value, const
from weft.types import dims as dm
from weft.types.dims import Dim
from weft.types.shape_env import lower_bound_of


def divide(f: Function, kind: str, a: Value, b: Value) -> Value:
    """floordiv or mod as Python rounds, towards -infinity. A divisor of 0 gives what 1 gives."""
    if b.const is None:
        b = f.select(f.icmp("eq", b, 0), const(I64, 1), b, "divisor")  # a plan must not trap: the kernel it sizes does not run
    rest = f.srem(a, b, "rest")
    quotient = f.sdiv(a, b, "quotient")
    is_inexact = f.icmp("ne", rest, 0)
    differs = f.icmp("slt", f.xor(rest, b), 0)
    corrects = f.and_(is_inexact, differs)
    if kind == "floordiv":
        return f.sub(quotient, f.zext(corrects, I64), "floor")
    return f.add(rest, f.select(corrects, b, const(I64, 0)), "modulo")


@lru_cache(maxsize=65536)
def is_covered(small: Dim, large: Dim) -> bool:
    """Whether small <= large for all values of the symbols, as far as that can be proved."""
    if small == large:
        return True
    low = dm.lower_bound(large - small, lower_bound_of)
    return low is not None and low >= 0
