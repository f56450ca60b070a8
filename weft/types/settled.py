"""What the guards of an environment say of its symbols: which stand for numbers, or for other symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from weft.types import dims as dm
from weft.types.dims import Atom, Dim, Expr, Monomial
from weft.types.relation import Relation, ShapeGuard, lower_bound_of, positive_first
from weft.types.shape_env import ShapeEnv

LONGEST = 3  # terms of what stands for a symbol: settled sizes shall not grow without end


class SettledSizes:
    """Sizes in as few symbols as the guards leave open.

    values    what each symbol that is decided stands for, in symbols that are not; quotients and the like, which are
              symbols to sums, may be decided too
    whole     sums without a constant term that are numbers though their symbols are not known, as `s0*s1` with the
              guard `s0*s1 == 6`
    symbols   all that any of these tells of
    """

    def __init__(self, env: ShapeEnv) -> None:
        self.values: dict[Atom, Dim] = {}
        self._told: set[str] = set()  # symbols in what has a value
        self._users: dict[str, set[Atom]] = {}  # by symbol, whose values were made of it
        self.whole: dict[Expr, int] = {}
        equal, least = _facts(env)
        while self._learn(equal) or self._learn(self._pinned(least)):
            equal = [fact for fact in map(self.replaced, equal) if isinstance(fact, Expr)]  # the others are settled
        for fact in equal:
            self._note_whole(self.replaced(fact))
        determined = [*map(_atom, self.values), *self.whole]
        self.symbols = {s for d in determined for s in d.symbols()}
        self._memo: dict[Expr, Dim] = {}

    def settle(self, d: Dim) -> Dim:
        """The dim in symbols that are left open, or its number."""
        if not isinstance(d, Expr):
            return d
        resolved = self._memo.get(d)
        if resolved is None:
            resolved = self._memo[d] = self._settled(d)
        return resolved

    def _settled(self, d: Expr) -> Dim:
        replaced = self.replaced(d)
        rest, constant = _split(replaced)
        number = self.whole.get(rest) if isinstance(rest, Expr) else None
        return replaced if number is None else number + constant

    def replaced(self, d: Expr) -> Dim:
        """The sum with what its symbols stand for."""
        return d if self._told.isdisjoint(d.symbols()) else _substituted(d, self.values)

    def _learn(self, facts: Iterable[Expr]) -> bool:
        """Solve what can be solved of sums that are 0. False if nothing new was found."""
        before = len(self.values)
        for fact in facts:
            left = self.replaced(fact)
            solved = solution(left) if isinstance(left, Expr) else {}
            if solved:
                names = {name for atom in solved for name in _atom(atom).symbols()}
                touched = {atom for name in names for atom in self._users.get(name, ())}
                for atom in touched:
                    self._put(atom, _substituted(self.values[atom], solved))
                for atom, d in solved.items():
                    self._put(atom, d)
                self._told |= names
        return len(self.values) > before

    def _put(self, atom: Atom, d: Dim) -> None:
        self.values[atom] = d
        for name in dm.symbols(d):
            self._users.setdefault(name, set()).add(atom)

    def _pinned(self, least: Iterable[Expr]) -> list[Expr]:
        """Of sums that are at least 0, those that are at most 0 too."""
        sums = {d: None for d in map(self.replaced, least) if isinstance(d, Expr)}
        return [d for d in sums if -d in sums or _is_size(-d)]

    def _note_whole(self, fact: Dim) -> None:
        rest, constant = _split(fact)
        if not isinstance(rest, Expr):
            return
        common = gcd(*(c for _, c in rest.terms))
        if constant % common == 0:
            reduced = dm.floordiv(rest, common)
            assert isinstance(reduced, Expr)
            self.whole[reduced] = -constant // common


def settled_sizes(env: ShapeEnv) -> SettledSizes:
    """What the guards that an environment has by now say."""
    guards = list(env.guards.values())
    if env._settled is None or env._settled[0] != guards:
        env._settled = guards, SettledSizes(env)
    sizes: SettledSizes = env._settled[1]
    return sizes


def settled_guards(env: ShapeEnv) -> dict[Relation, ShapeGuard]:
    """The guards in settled symbols, those that say nothing any more left out."""
    sizes = settled_sizes(env)
    guards: dict[Relation, ShapeGuard] = {}
    for guard in env.guards.values():
        expr = sizes.replaced(guard.relation.expr)
        if isinstance(expr, Expr):
            relation = Relation(guard.relation.op, positive_first(expr) if guard.relation.op == "==" else expr)
            guards[relation] = ShapeGuard(relation, guard.answer, guard.where)
    return guards


def solution(fact: Expr) -> dict[Atom, Dim]:
    """What `fact == 0` says of symbols by themselves; nothing where it leaves a choice.

    2*s0 - 6      s0 = 3
    s0*s1 - 1     s0 = s1 = 1, for sizes are not negative
    s0 + s1*s2    s0 = 0
    s2 - s0 - s1  s2 = s0 + s1, but s1 is not s2 - s0: of a difference nobody sees that it is a size
    """
    rest, constant = _split(fact)
    assert isinstance(rest, Expr)
    if len(rest.terms) == 1:
        return _factors(*rest.terms[0], constant)
    if constant == 0 and (_is_size(rest) or _is_size(-rest)):
        return {m[0]: 0 for m, _ in rest.terms if len(set(m)) == 1}
    return _alone(fact)


def _factors(factors: Monomial, coefficient: int, constant: int) -> dict[Atom, Dim]:
    """The factors of one product, from coefficient * product == -constant."""
    if constant % coefficient:
        return {}
    number, different = -constant // coefficient, set(factors)
    if len(factors) == 1 or (len(different) == 1 and number == 0):
        return dict.fromkeys(different, number)
    return dict.fromkeys(different, 1) if number == 1 and all(_is_size(_atom(a)) for a in different) else {}


def _alone(fact: Expr) -> dict[Atom, Dim]:
    """The youngest symbol that stands alone in a sum, as what the others make it."""
    if len(fact.terms) > LONGEST + 1:
        return {}
    common = gcd(*(c for _, c in fact.terms))
    alone = [(m[0], c) for m, c in fact.terms if len(m) == 1 and m[0].kind == "symbol" and abs(c) == common]
    alone.sort(key=lambda a: (a[0].key[0] not in "su", len(a[0].key), a[0].key), reverse=True)
    for symbol, coefficient in alone:
        others = _atom(symbol) - dm.floordiv(fact, coefficient)
        if symbol.key not in dm.symbols(others) and (lower_bound_of(symbol.key) is None or _is_size(others)):
            return {symbol: others}
    return {}


def _atom(atom: Atom) -> Expr:
    return Expr({(atom,): 1})


def _facts(env: ShapeEnv) -> tuple[list[Expr], list[Expr]]:
    """Sums that are 0, and sums that are at least 0."""
    equal, least = [], []
    for guard in env.guards.values():
        expr = guard.relation.expr
        if guard.relation.op == "==":
            equal += [expr] if guard.answer else []
            continue
        bound = -expr - 1 if guard.answer else expr
        least += [bound] if isinstance(bound, Expr) else []
    return equal, least


def _substituted(d: Dim, values: Mapping[Atom, Dim]) -> Dim:
    if not isinstance(d, Expr) or not values:
        return d
    try:
        return sum((dm.product([coef, *[_value(atom, values) for atom in mono]]) for mono, coef in d.terms), 0)
    except ZeroDivisionError:  # a quotient that no call within the guards asks for
        return d


def _value(atom: Atom, values: Mapping[Atom, Dim]) -> Dim:
    """What an atom stands for: told as a whole, or made of what its operands stand for."""
    if atom in values:
        return values[atom]
    if atom.kind == "symbol":
        return _atom(atom)
    a, b = (_substituted(x, values) for x in atom.args)  # type: ignore[arg-type]
    combined = dm.combined(atom.kind, a, b)
    if isinstance(combined, Expr) and len(combined.terms) == 1 and combined.terms[0] != ((atom,), 1):
        factors, coefficient = combined.terms[0]
        if coefficient == 1 and len(factors) == 1:
            return values.get(factors[0], combined)
    return combined


def _split(d: Dim) -> tuple[Dim, int]:
    """A sum without its constant term, and that term."""
    if not isinstance(d, Expr):
        return 0, d
    constant = next((c for mono, c in d.terms if not mono), 0)
    return d - constant, constant


def _is_size(d: Dim) -> bool:
    """Whether a dim is proved not to be negative."""
    low = dm.lower_bound(d, lower_bound_of)
    return low is not None and low >= 0
