"""Dims: integers, or exact integer expressions over symbols (sum, product, floor division, remainder, max, min)
in normal form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Union

from weft.support import limits

Dim = Union[int, "Expr"]


class Atom:
    """A symbol, or an operation that the polynomial form cannot open: floordiv, mod, max, min. Structural, hashable."""

    __slots__ = ("_hash", "args", "key", "kind")
    is_passing = False  # whether it is of one run, so that nothing is remembered for it

    def __init__(self, kind: str, args: tuple[object, ...]) -> None:
        self.kind, self.args = kind, args
        self.key = _atom_text(kind, args)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.key


def _atom_text(kind: str, args: tuple[object, ...]) -> str:
    if kind == "symbol":
        return str(args[0])
    a, b = (str(x) for x in args)
    if kind in ("max", "min"):
        return f"{kind}({a}, {b})"
    sign = {"floordiv": "//", "mod": "%"}[kind]
    return f"({_wrap(args[0], a)} {sign} {_wrap(args[1], b)})"


def _wrap(value: object, text: str) -> str:
    return f"({text})" if isinstance(value, Expr) and not value.is_symbol else text


Monomial = tuple[Atom, ...]
_key = attrgetter("key")


class Expr:
    """A polynomial with integer coefficients over atoms. Equality is structural; other questions go to a ShapeEnv."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        items = terms.items()
        self.terms: tuple[tuple[Monomial, int], ...] = tuple(items if len(items) == 1 else sorted(items, key=_rank))
        self._hash = hash(self.terms)

    @property
    def is_symbol(self) -> bool:
        return self.symbol_name is not None

    @property
    def symbol_name(self) -> str | None:
        """The name if the expression is one bare symbol."""
        if len(self.terms) != 1:
            return None
        mono, coef = self.terms[0]
        if coef != 1 or len(mono) != 1 or mono[0].kind != "symbol":
            return None
        return str(mono[0].args[0])

    def symbols(self) -> set[str]:
        """Names of all symbols in it."""
        names: set[str] = set()
        for mono, _ in self.terms:
            for atom in mono:
                if atom.kind == "symbol":
                    names.add(str(atom.args[0]))
                else:
                    for arg in atom.args:
                        names |= symbols(arg)  # type: ignore[arg-type]
        return names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        if _is_other(other):
            return NotImplemented
        terms = dict(self.terms)
        for mono, coef in _terms(other):
            terms[mono] = terms.get(mono, 0) + coef
        return _normal(terms)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _normal({m: -c for m, c in self.terms})

    def __sub__(self, other: Dim) -> Dim:
        if _is_other(other):
            return NotImplemented
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return NotImplemented if _is_other(other) else (-self) + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int) and other == 1:
            return self
        if _is_other(other):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in _terms(other):
                mono = tuple(sorted(m1 + m2, key=_key)) if m1 and m2 else m1 or m2
                terms[mono] = terms.get(mono, 0) + c1 * c2
        return _normal(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    def __lt__(self, other: Dim) -> bool:
        return _less[0](self, other)

    def __gt__(self, other: Dim) -> bool:
        return _less[0](other, self)

    def __le__(self, other: Dim) -> bool:
        return not _less[0](other, self)

    def __ge__(self, other: Dim) -> bool:
        return not _less[0](self, other)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        out = ""
        for mono, coef in self.terms:
            factors = [str(a) for a in mono]
            size = abs(coef)
            if size != 1 or not factors:
                factors.insert(0, str(size))
            sign = "-" if coef < 0 else "+"
            out += ("-" if coef < 0 else "") + "*".join(factors) if not out else f" {sign} " + "*".join(factors)
        return out

    __repr__ = __str__


def _unasked(a: Dim, b: Dim) -> bool:
    raise TypeError(f"nobody answers whether {a} is less than {b}")


_less: list[Callable[[Dim, Dim], bool]] = [_unasked]


def install_less(less: Callable[[Dim, Dim], bool]) -> None:
    """Who answers whether a dim is less than another one."""
    _less[0] = less


def _rank(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """Where a term stands in the normal form: by degree, then by its atoms."""
    mono = term[0]
    return -len(mono), [atom.key for atom in mono]


def _is_other(value: object) -> bool:
    """Whether the value is no integer: a float, which no polynomial holds, or what operators accept as a tensor, whose
    own arithmetic then decides."""
    if type(value) is int or type(value) is Expr:
        return False
    return isinstance(value, (float, complex)) or hasattr(type(value), "__weft_route__")


def _terms(d: Dim) -> Iterable[tuple[Monomial, int]]:
    return d.terms if isinstance(d, Expr) else (((), int(d)),)


def _normal(terms: dict[Monomial, int]) -> Dim:
    kept = terms if all(terms.values()) else {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Expr(kept)


def _atom(kind: str, *args: object) -> Expr:
    return Expr({(Atom(kind, args),): 1})


def symbol(name: str) -> Expr:
    """The expression of one symbol."""
    return _atom("symbol", name)


def symbols(d: Dim) -> set[str]:
    """Names of the symbols in a dim."""
    return d.symbols() if isinstance(d, Expr) else set()


def _exact_quotient(a: Expr, b: Dim) -> Dim | None:
    """a / b when b is a single monomial that divides every term of a."""
    terms = list(_terms(b))
    if len(terms) != 1:
        return None
    divisor, coef = terms[0]
    out: dict[Monomial, int] = {}
    for mono, c in a.terms:
        rest = list(mono)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coef:
            return None
        out[tuple(rest)] = c // coef
    return _normal(out)


def is_one(d: object) -> bool:
    """Whether a dim is the number 1: nothing is asked about symbols."""
    return isinstance(d, int) and d == 1


def floordiv(a: Dim, b: Dim) -> Dim:
    """Floor division. A symbolic divisor is taken to be non-zero."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int) and b == 1:
        return a
    if isinstance(a, int) and a == 0:
        return 0
    if a == b:
        return 1
    if isinstance(a, Expr):
        exact = _exact_quotient(a, b)
        if exact is not None:
            return exact
        if isinstance(b, int):
            return _split_floordiv(a, b)
    return _atom("floordiv", a, b)


def _split_floordiv(a: Expr, b: int) -> Dim:
    """(b*p + r) // b == p + r // b: take out what divides."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, c in a.terms:
        q, r = divmod(c, b) if mono == () else ((c // b, 0) if c % b == 0 else (0, c))
        if q:
            whole[mono] = q
        if r:
            rest[mono] = r
    if not whole:
        return _atom("floordiv", a, b)
    left = _normal(rest)
    return _normal(whole) + (left // b if isinstance(left, int) else _atom("floordiv", left, b))


def mod(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of the divisor."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if a == b or (isinstance(b, int) and b == 1):
        return 0
    if isinstance(a, Expr) and _exact_quotient(a, b) is not None:
        return 0
    return _atom("mod", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The greater of two dims. Maxima of maxima are one maximum over distinct terms, those left out
    that another is never below."""
    return _extreme("max", a, b)


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims, in the same normal form."""
    return _extreme("min", a, b)


def _extreme(kind: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if kind == "max" else min(a, b)
    kept: list[Dim] = []
    for item in (*_flattened(kind, a), *_flattened(kind, b)):
        if any(_covers(kind, k, item) for k in kept):
            continue
        kept = [k for k in kept if not _covers(kind, item, k)]
        kept.append(item)
    kept.sort(key=str)
    result = kept[-1]
    for item in reversed(kept[:-1]):
        result = _atom(kind, item, result)
    return result


def _flattened(kind: str, d: Dim) -> tuple[Dim, ...]:
    """The terms of a (nested) maximum or minimum; anything else is its own only term."""
    if isinstance(d, Expr) and len(d.terms) == 1:
        mono, coef = d.terms[0]
        if coef == 1 and len(mono) == 1 and mono[0].kind == kind:
            first, second = mono[0].args
            return (*_flattened(kind, first), *_flattened(kind, second))  # type: ignore[arg-type]
    return (d,)


@lru_cache(maxsize=limits.SIZES)
def _covers(kind: str, x: Dim, y: Dim) -> bool:
    """Whether y adds nothing to an extreme that x is part of."""
    if x == y:
        return True
    low = lower_bound(x - y if kind == "max" else y - x, _size_bound)
    return low is not None and low >= 0


def _size_bound(name: str) -> int | None:
    """Sizes are never negative; other integers may be anything."""
    return 0 if name[0] in "su" else None


def symbol_atoms(d: Dim) -> Iterator[Atom]:
    """The symbols in a dim themselves, repeats included."""
    for mono, _ in d.terms if isinstance(d, Expr) else ():
        for atom in mono:
            if atom.kind == "symbol":
                yield atom
            else:
                for arg in atom.args:
                    yield from symbol_atoms(arg)  # type: ignore[arg-type]


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dims; 1 for none."""
    total: Dim = 1
    for d in dims:
        total = total * d
    return total


_OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}


def substitute(d: Dim, values: Mapping[str, Dim]) -> Dim:
    """The dim with symbols replaced."""
    if isinstance(d, int):
        return d
    total: Dim = 0
    for mono, coef in d.terms:
        part: Dim = coef
        for atom in mono:
            part = part * _substitute_atom(atom, values)
        total = total + part
    return total


def combined(kind: str, a: Dim, b: Dim) -> Dim:
    """The operation that an atom stands for, of other operands: floordiv, mod, max or min."""
    return _OPERATIONS[kind](a, b)


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if atom.kind == "symbol":
        name = str(atom.args[0])
        return values[name] if name in values else Expr({(atom,): 1})
    a, b = (substitute(x, values) for x in atom.args)  # type: ignore[arg-type]
    return combined(atom.kind, a, b)


def evaluate(d: Dim, values: Mapping[str, int]) -> int:
    """The integer value of a dim, all its symbols given."""
    result = substitute(d, values)
    if not isinstance(result, int):
        raise KeyError(f"symbols {sorted(result.symbols())} of {d} have no value")
    return result


def lower_bound(d: Dim, least: Callable[[str], int | None]) -> int | None:
    """A proven lower bound, given one for each symbol (None when unbounded below)."""
    if isinstance(d, int):
        return d
    total = 0
    for mono, coef in d.terms:
        if not mono:
            total += coef
            continue
        bounds = [_atom_bound(a, least) for a in mono]
        if coef < 0 or any(b is None or b < 0 for b in bounds):
            return None
        part = coef
        for b in bounds:
            part *= b or 0
        total += part
    return total


def _atom_bound(atom: Atom, least: Callable[[str], int | None]) -> int | None:
    if atom.kind == "symbol":
        return least(str(atom.args[0]))
    a, b = (lower_bound(x, least) for x in atom.args)  # type: ignore[arg-type]
    if atom.kind == "max":
        return max((x for x in (a, b) if x is not None), default=None)
    if a is None or b is None:
        return None
    if atom.kind == "min":
        return min(a, b)
    return 0 if a >= 0 and b >= 0 else None
