"""Questions about symbols in normal form, and what became of them: guards of a program, and demands that it checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.support.locations import Location
from weft.types import dims
from weft.types.dims import Atom, Dim, Expr, Monomial


@dataclass(frozen=True)
class Relation:
    """A question about symbols in normal form: `expr == 0` (op "==") or `expr < 0` (op "<")."""

    op: str
    expr: Expr

    def holds(self, values: dict[str, int]) -> bool:
        value = dims.evaluate(self.expr, values)
        return value == 0 if self.op == "==" else value < 0

    def __str__(self) -> str:
        return _relation_text(self.op, self.expr)


def _relation_text(op: str, expr: Expr) -> str:
    left = {m: c for m, c in expr.terms if c > 0}
    right = {m: -c for m, c in expr.terms if c < 0}
    return f"{_side_text(left)} {op} {_side_text(right)}"


def _side_text(terms: Mapping[Monomial, int]) -> str:
    return str(Expr(terms)) if terms else "0"


@dataclass(frozen=True)
class ShapeGuard:
    """An answer that the program depends on: the relation, the answer, the user's line that asked."""

    relation: Relation
    answer: bool
    where: Location | None

    def holds(self, values: dict[str, int]) -> bool:
        return self.relation.holds(values) is self.answer

    def __str__(self) -> str:
        text = str(self.relation)
        if not self.answer:
            text = text.replace("==", "!=") if self.relation.op == "==" else text.replace("<", ">=")
        return text


@dataclass(frozen=True)
class Demand:
    """A relation that must not hold of unbacked sizes: where it does, the program raises an error of this class
    with this text."""

    relation: Relation
    error: str
    text: str


def lower_bound_of(name: str) -> int | None:
    """Sizes are never negative; other integers may be anything."""
    return 0 if name[0] in "su" else None


def positive_first(difference: Expr) -> Expr:
    """The sum or its opposite: equalities have one form."""
    if difference.terms[0][1] < 0:
        flipped = -difference
        assert isinstance(flipped, Expr)
        return flipped
    return difference


def with_most(d: Dim, most: Callable[[Atom], Dim | None]) -> Dim:
    """Something that is never above a dim: what is taken off in it at its most."""
    total: Dim = 0
    for mono, coef in d.terms if isinstance(d, Expr) else (((), d),):
        part: Dim = coef
        for atom in mono:
            bound = most(atom) if coef < 0 and atom.kind == "symbol" else None
            part = part * (Expr({(atom,): 1}) if bound is None else bound)
        total = total + part
    return total


def upper_bound(d: Dim, most: Callable[[Atom], Dim | None]) -> int | None:
    """A proven upper bound of a dim whose symbols are sizes, given what these never exceed."""
    total = 0
    for mono, coef in d.terms if isinstance(d, Expr) else (((), d),):
        if coef < 0:
            low = dims.lower_bound(Expr({mono: 1}), lower_bound_of) if mono else 1
            total += coef * (low or 0)
            continue
        part = coef
        for atom in mono:
            bound = _atom_at_most(atom, most)
            if bound is None:
                return None
            part *= bound
        total += part
    return total


def _atom_at_most(atom: Atom, most: Callable[[Atom], Dim | None]) -> int | None:
    if atom.kind == "symbol":
        bound = most(atom)
        return None if bound is None else upper_bound(bound, most)
    a, b = (upper_bound(x, most) for x in atom.args)  # type: ignore[arg-type]
    if atom.kind == "min":
        return min([x for x in (a, b) if x is not None], default=None)
    if a is None or b is None:
        return None
    if atom.kind == "max":
        return max(a, b)
    return a // b if atom.kind == "floordiv" and isinstance(atom.args[1], int) and b > 0 else a
