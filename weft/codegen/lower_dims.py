"""Dims to LLVM: an expression over symbols becomes straight-line i64 arithmetic, each subexpression once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from weft.codegen.emit import I64, Function, Value, const
from weft.types import dims as dm
from weft.types.dims import Atom, Dim, Expr
from weft.types.shape_env import lower_bound_of


class DimLowering:
    """Values of dims in one function. `symbol` gives the value of a symbol, in the entry block or wherever it dominates all uses."""

    def __init__(self, function: Function, symbol: Callable[[str], Value]) -> None:
        self._f, self._symbol = function, symbol
        self._dims: dict[Dim, Value] = {}
        self._products: dict[tuple[Atom, ...], Value] = {}

    def value(self, dim: Dim) -> Value:
        """The i64 value of a dim; exact as long as every intermediate fits into 64 bits."""
        if not isinstance(dim, Expr):
            return const(I64, dim)
        found = self._dims.get(dim)
        if found is None:
            found = self._dims[dim] = self._sum(dim)
        return found

    def _sum(self, dim: Expr) -> Value:
        total: Value | None = None
        for monomial, coefficient in dim.terms:
            term = self._f.mul(self._product(monomial), coefficient, "term")
            total = term if total is None else self._f.add(total, term, "dim")
        return const(I64, 0) if total is None else total

    def _product(self, monomial: tuple[Atom, ...]) -> Value:
        if not monomial:
            return const(I64, 1)
        found = self._products.get(monomial)
        if found is None:
            last = self._atom(monomial[-1])
            found = last if len(monomial) == 1 else self._f.mul(self._product(monomial[:-1]), last, "product")
            self._products[monomial] = found
        return found

    def _atom(self, atom: Atom) -> Value:
        if atom.kind == "symbol":
            return self._symbol(str(atom.args[0]))
        a, b = atom.args
        assert isinstance(a, (int, Expr)) and isinstance(b, (int, Expr))
        if atom.kind in ("max", "min"):
            return choose(self._f, atom.kind, self.value(a), self.value(b))
        plain = _is_at_least(a, 0) and _is_at_least(b, 0)
        return divide(self._f, atom.kind, self.value(a), self.value(b), plain)


def choose(f: Function, kind: str, a: Value, b: Value) -> Value:
    """max or min of two i64."""
    takes_a = f.icmp("sgt" if kind == "max" else "slt", a, b)
    return f.select(takes_a, a, b, kind)


def divide(f: Function, kind: str, a: Value, b: Value, plain: bool = False) -> Value:
    """floordiv or mod as Python rounds, towards -infinity. plain: neither operand is negative. A divisor of 0 gives what 1 gives."""
    if b.const is None:
        b = f.select(f.icmp("eq", b, 0), const(I64, 1), b, "divisor")  # a plan must not trap: the kernel it sizes does not run
    rest = f.srem(a, b, "rest")
    quotient = f.sdiv(a, b, "quotient")
    if plain:
        return quotient if kind == "floordiv" else rest
    is_inexact = f.icmp("ne", rest, 0)
    differs = f.icmp("slt", f.xor(rest, b), 0)
    corrects = f.and_(is_inexact, differs)
    if kind == "floordiv":
        return f.sub(quotient, f.zext(corrects, I64), "floor")
    return f.add(rest, f.select(corrects, b, const(I64, 0)), "modulo")


def _is_at_least(dim: Dim, bound: int) -> bool:
    low = dm.lower_bound(dim, lower_bound_of)
    return low is not None and low >= bound


@lru_cache(maxsize=65536)
def is_covered(small: Dim, large: Dim) -> bool:
    """Whether small <= large for all values of the symbols, as far as that can be proved."""
    if small == large:
        return True
    low = dm.lower_bound(large - small, lower_bound_of)
    return low is not None and low >= 0
