"""ShapeEnv: where symbols come from, what their example values are, and every question that was answered
from them (guards)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.support.asides import put_aside_by
from weft.support.errors import UnknownSize, WeftError
from weft.support.locations import Location, user_location
from weft.types import dims
from weft.types import dtype as dt
from weft.types.dims import Atom, Dim, Expr
from weft.types.relation import Demand, Relation, ShapeGuard, lower_bound_of, positive_first, with_most


class Answers(Protocol):
    """What answers questions about sizes that a run finds: the program is for these answers."""

    def relation(self, relation: Relation) -> bool | None:
        """Whether a relation holds; None where that cannot be told."""

    def number(self, dim: Dim) -> int | None:
        """The value of a dim; None where that cannot be told."""


@dataclass(eq=False, repr=False)
class ShapeEnv:
    """Symbols with example values. `s*` are sizes bound on entry (>= 0), `i*` integers bound on entry,
    `u*` unbacked ones: bound while the program runs, without an example."""

    examples: dict[str, int] = field(default_factory=dict)
    guards: dict[Relation, ShapeGuard] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    # what the next unbacked sizes are known to be
    expected: list[Expr | None] = field(default_factory=list)
    # unbacked sizes of a node that is being emitted anew: what takes its place has the same
    reused: list[Expr] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)  # what the builder has yet to put into the program
    # of each unbacked size: the line, and what to write instead
    origins: dict[str, tuple[Location | None, str]] = field(default_factory=dict)
    most: dict[str, Dim] = field(default_factory=dict)  # what unbacked sizes never exceed
    # who answers questions about unbacked sizes; None where they have no answer
    answers: Answers | None = field(default=None, init=False, repr=False, compare=False)
    is_over: bool = False  # whether the capture has ended: to Python, its symbols are numbers from then on
    # the default dtype, by which operators on integers and factories go, whenever the graph is compiled or run
    default_dtype: dt.DType = field(default_factory=dt.get_default, repr=False, compare=False)
    _asked: dict[tuple[Dim, Dim], tuple[bool, Relation | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # results of type rules by what they see (ir/builder.py)
    types: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    # what these guards say of symbols (types/settled.py): a program's passes ask again and again
    _settled: tuple[list[ShapeGuard], Any] | None = field(default=None, init=False, repr=False, compare=False)

    def fresh(self, kind: str, example: int | None = None) -> Expr:
        """A new symbol of kind "s", "i" or "u"."""
        number = self.counts.get(kind, 0)
        while dt.by_short(f"{kind}{number}") is not None:  # i8 is a dtype: in text, a symbol must not look like one
            number += 1
        self.counts[kind] = number + 1
        name = f"{kind}{number}"
        if example is not None:
            self.examples[name] = example
        return dims.symbol(name)

    def at(self, values: Mapping[str, int]) -> ShapeEnv:
        """The same symbols and guards, with the values of another call as examples. What is asked of the one
        is not recorded in the other."""
        examples = {name: values[name] for name in self.examples if name in values}
        return ShapeEnv(
            {**self.examples, **examples}, dict(self.guards), dict(self.counts), origins=dict(self.origins),
            most=dict(self.most), default_dtype=self.default_dtype,
        )

    @property
    def keeps_types(self) -> bool:
        """Whether a type rule that sees the same gives the same types again. (Others answer by what is known at the
        time.)"""
        return type(self) is ShapeEnv and not self.reused

    def count_of_answers(self) -> tuple[int, int]:
        """What grows where a question leaves more than its answer: a demand, or a size that a run finds."""
        return len(self.demands), self.counts.get("u", 0)

    def take_back(self, guards: int) -> list[ShapeGuard]:
        """Forget all guards but so many of the first; they are returned. What was answered by them is asked again."""
        taken = []
        while len(self.guards) > guards:
            taken.append(self.guards.popitem()[1])
        if taken:
            self.types.clear()
        return taken[::-1]

    @property
    def has_unbacked(self) -> bool:
        """Whether any size is only known once the program runs."""
        return bool(self.counts.get("u"))

    def unbacked(self, remedy: str = "", at_most: Dim | None = None) -> Expr:
        """A size that is only known when the operator has run: a `u` symbol, that of an earlier operator where both
        have the same. at_most: what it never exceeds.

        remedy: what a program writes instead where it knows the size beforehand, for the error of a question
        that cannot be answered.
        """
        symbol = self.expected.pop(0) if self.expected else None
        if self.reused:
            symbol = self.reused.pop(0)
        if symbol is None:
            symbol = self.fresh("u")
            self.origins[str(symbol)] = (user_location(2), remedy)
            if at_most is not None:
                self.most[str(symbol)] = at_most
        return symbol

    def _origin_text(self, names: Iterable[str]) -> str:
        """Where unbacked sizes come from, and what to write instead."""
        origins = [self.origins[n] for n in sorted(names) if n in self.origins]
        lines = " and ".join(dict.fromkeys(f"line {where.line}" for where, _ in origins if where is not None))
        remedies = "".join(f"; {remedy}" for remedy in dict.fromkeys(r for _, r in origins if r))
        return (f" (it is found in {lines})" if lines else "") + remedies

    def equal(self, a: Dim, b: Dim) -> bool:
        """Whether a == b; recorded as a guard when only the example answers."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if a == b:
            return True
        earlier = self._asked.get((a, b))
        # a guard may have been put off since
        if earlier is not None and (earlier[1] is None or earlier[1] in self.guards):
            return earlier[0]
        difference = a - b
        if isinstance(difference, int):
            return difference == 0
        relation = Relation("==", positive_first(difference))
        answer = self._ask(relation)
        # others answer by what is known at the time; and what pinned other sizes stands only as long as those guards
        if type(self) is ShapeEnv and (relation in self.guards or not self._left_to_run(relation)):
            self._asked[(a, b)] = (answer, relation if relation in self.guards else None)
        return answer

    def _left_to_run(self, relation: Relation) -> bool:
        """Whether an unbacked size is part of a question."""
        return not relation.expr.symbols() <= self.examples.keys()

    def less(self, a: Dim, b: Dim) -> bool:
        """Whether a < b; recorded as a guard when only the example answers."""
        difference = a - b
        if isinstance(difference, int):
            return difference < 0
        return self._ask(Relation("<", difference))

    def refuse(self, relation: Relation, error: Callable[[], Exception]) -> None:
        """Raise `error()` where the relation holds: now, and (a guard sees to it) for every size that a later call
        brings. What hangs on an unbacked size becomes a demand, which the program checks."""
        if not self._left_to_run(relation):
            if self._ask(relation):
                raise error()
            return
        proven = self._prove(relation)
        if proven:
            raise error()
        if proven is None:
            refusal = error()
            self.demands.append(Demand(relation, type(refusal).__name__, str(refusal)))

    def proves_equal(self, a: Dim, b: Dim) -> bool:
        """Whether a == b is certain from structure or from a guard that is already recorded. Records nothing."""
        if a == b:
            return True
        difference = a - b
        if isinstance(difference, int):
            return difference == 0
        guard = self.guards.get(Relation("==", positive_first(difference)))
        return guard is not None and guard.answer

    def proves_not_less(self, difference: Expr) -> bool:
        """Whether bounds say that it is not negative."""
        return self._prove(Relation("<", difference)) is False

    def _ask(self, relation: Relation) -> bool:
        proven = self._prove(relation)
        if proven is not None:
            return proven
        guard = self.guards.get(relation)
        if guard is not None:
            return guard.answer
        missing = [s for s in relation.expr.symbols() if s not in self.examples]
        if missing:
            answered = None if self.answers is None else self.answers.relation(relation)
            if answered is None:
                answered = self._pinned(relation)
            if answered is not None:
                return answered
            raise UnknownSize(
                f"the answer to `{relation}` depends on {', '.join(sorted(missing))}, a size that is only known while "
                f"the program runs{self._origin_text(missing)}; use weft.cond, or avoid the question"
            )
        answer = relation.holds(self.examples)
        self.guards[relation] = ShapeGuard(relation, answer, user_location(2))
        return answer

    def _pinned(self, relation: Relation) -> bool | None:
        """The answer to a question about unbacked sizes that is the same for all of them once the other sizes are those
        of the example: each of these is then guarded to be so. (A batch that the run finds, cut into `c // groups`
        channels: `groups * (c // groups) * u0 == c * u0`.)"""
        pinned = relation.expr.symbols() & self.examples.keys()
        if not pinned:
            return None
        rest = dims.substitute(relation.expr, {name: self.examples[name] for name in pinned})
        if isinstance(rest, int):
            answer: bool | None = rest == 0 if relation.op == "==" else rest < 0
        else:
            answer = self._prove(Relation(relation.op, positive_first(rest) if relation.op == "==" else rest))
        if answer is not None:
            self._pin(pinned)
        return answer

    def _pin(self, names: Iterable[str]) -> None:
        """Guard that symbols stay what they are in the example."""
        for name in sorted(names):
            self.equal(dims.symbol(name), self.examples[name])

    def _prove(self, relation: Relation) -> bool | None:
        low, high = self._at_least(relation.expr), self._at_least(-relation.expr)
        if relation.op == "==":
            if (low is not None and low > 0) or (high is not None and high > 0):
                return False
            return None
        if low is not None and low >= 0:
            return False
        return True if high is not None and high > 0 else None

    def _at_least(self, d: Dim) -> int | None:
        """A proven lower bound."""
        bound = dims.lower_bound(d, lower_bound_of)
        return bound if bound is not None else dims.lower_bound(with_most(d, self.most_of), lower_bound_of)

    def most_of(self, size: Atom) -> Dim | None:
        """What a size never exceeds."""
        return self.most.get(size.key)

    def current(self, expr: Expr) -> Dim:
        """What an expression that Python holds is by now: a number, once the capture has ended."""
        return self.hint(expr) if self.is_over else expr

    def text(self, d: Dim) -> str:
        """What Python shows of a dim."""
        return str(d)

    def hint(self, d: Dim) -> int:
        """The value of a dim in the example. Raises UnknownSize for what is only known while the program runs."""
        try:
            return dims.evaluate(d, self.examples)
        except KeyError:
            raise UnknownSize(
                f"Python asks for the value of {d}, a size that is only known while the program "
                f"runs{self._origin_text(dims.symbols(d))}; keep it in a tensor, or move the line out of the "
                "compiled function"
            ) from None

    def fixed(self, d: Expr) -> int:
        """The value of a dim in the example, for which each of its symbols is guarded to stay what it is there."""
        value = self.hint(d)
        self._pin(d.symbols())
        return value


class _Current(threading.local):
    env: ShapeEnv | None = None


_current = _Current()


def current_env() -> ShapeEnv | None:
    """The environment that answers questions on this thread, or None outside of any capture or pass."""
    return _current.env


class using:  # read as a word: `with shape_env.using(env):`
    """Answer questions from `env` within a block."""

    __slots__ = ("_env", "_previous")

    def __init__(self, env: ShapeEnv | None) -> None:
        self._env = env

    def __enter__(self) -> ShapeEnv | None:
        self._previous = _current.env
        _current.env = self._env
        return self._env

    def __exit__(self, *error: object) -> None:
        _current.env = self._previous


put_aside_by(lambda: using(None))


def example(d: Dim) -> int:
    """A dim's value in the example; nothing is asked about it. Raises KeyError where no example says it."""
    if isinstance(d, int):
        return d
    return dims.evaluate(d, {} if _current.env is None else _current.env.examples)


def equal(a: Dim, b: Dim) -> bool:
    """Whether two dims are equal, asked of the current environment when it hangs on symbols."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return _required().equal(a, b)


def less(a: Dim, b: Dim) -> bool:
    """Whether a < b, asked of the current environment when it hangs on symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return _required().less(a, b)


dims.install_less(less)


def is_zero(d: Dim) -> bool:
    """Whether a dim is 0, where that decides what is computed. An unbacked size is taken not
    to be: what follows must then be right for 0 too, or refuse it."""
    if isinstance(d, int):
        return d == 0
    env = _required()
    return d.symbols() <= env.examples.keys() and env.equal(d, 0)


def is_known(d: Dim) -> bool:
    """Whether questions about a dim have an answer before the program runs: no run finds it."""
    return isinstance(d, int) or d.symbols() <= _required().examples.keys()


def is_less(a: Dim, b: Dim) -> bool:
    """Whether a < b, where that decides how something is computed. A size that is found while the program runs is taken
    not to be less: that way must be right for every size."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    env = _required()
    return dims.symbols(a - b) <= env.examples.keys() and env.less(a, b)


def is_never_less(a: Dim, b: Dim) -> bool:
    """Whether it is certain that a < b does not hold. Asks nothing."""
    difference = a - b
    return difference >= 0 if isinstance(difference, int) else _required().proves_not_less(difference)


def refuse_equal(a: Dim, b: Dim, error: Callable[[], WeftError]) -> None:
    """Raise `error()` where a == b, in this call and in every other that the program serves."""
    difference = a - b
    if isinstance(difference, int):
        if difference == 0:
            raise error()
        return
    _required().refuse(Relation("==", positive_first(difference)), error)


def refuse_less(a: Dim, b: Dim, error: Callable[[], WeftError]) -> None:
    """Raise `error()` where a < b, in this call and in every other that the program serves."""
    difference = a - b
    if isinstance(difference, int):
        if difference < 0:
            raise error()
        return
    _required().refuse(Relation("<", difference), error)


def refuse_unequal(a: Dim, b: Dim, error: Callable[[], WeftError]) -> None:
    """Raise `error()` where a != b, in this call and in every other that the program serves."""
    if is_known(a) and is_known(b):
        if not equal(a, b):
            raise error()
        return
    refuse_less(a, b, error)
    refuse_less(b, a, error)


def refuse_negative(sizes: Sequence[Dim], error: Callable[[], WeftError]) -> None:
    """Raise `error()` where a size is negative, in this call and in every other that the program serves."""
    for d in sizes:
        if type(d) is not int or d < 0:
            refuse_less(d, 0, error)


def is_left_open(d: Dim) -> bool:
    """Whether a requested size is the -1 that stands for whatever fits; a number that a later call may bring is asked,
    a size is never negative."""
    return d == -1 if isinstance(d, int) else not _is_size(d) and equal(d, -1)


def _is_size(d: Expr) -> bool:
    low = dims.lower_bound(d, lower_bound_of)
    return low is not None and low >= 0


def refuse_overflow(sizes: Sequence[Dim], error: Callable[[], WeftError]) -> None:
    """Raise `error()` where the product of sizes leaves what 64 bits can count. Asked only where a factor is large
    or any number: what is counted in elements of tensors that exist does not."""
    if all(isinstance(d, int) for d in sizes) or not any(_may_be_huge(d) for d in sizes):
        return
    if not any(is_zero(d) for d in sizes):
        refuse_less(_MOST_ELEMENTS, dims.product(map(_at_most, sizes)), error)


def _at_most(d: Dim) -> Dim:
    """What a size never exceeds that the operator which is asked about has yet to find; others as they are."""
    if isinstance(d, int) or d.symbol_name is None or is_known(d):
        return d
    most = _required().most.get(d.symbol_name)
    return d if most is None else most


_MOST_ELEMENTS = 2**58  # of 16 bytes at most, so that bytes are counted in 62 bits
_HUGE = 2**24


def _may_be_huge(d: Dim) -> bool:
    if isinstance(d, int):
        return d >= _HUGE
    return any(coef >= _HUGE for _, coef in d.terms) or any(name[0] not in "su" for name in d.symbols())


def fixed(d: Dim) -> int:
    """The dim as a Python integer, where no formula says what follows from it; a symbolic one is fixed to the example's
    value, with a guard."""
    return d if isinstance(d, int) else _fixed(d)[0]


def decided(number: Dim) -> int:
    """A number that decides what a program does, as a Python integer: fixed. Raises UnknownSize where the program has
    been made and nothing that was asked then says which it is."""
    if isinstance(number, int):
        return number
    value, is_certain = _fixed(number)
    if not is_certain:
        raise UnknownSize(f"{number} is to be one number, and nothing that was asked says which")
    return value


def _fixed(d: Expr) -> tuple[int, bool]:
    env = _required()
    value = env.hint(d)
    return value, env.equal(d, value)


def is_repeated(d: Dim, other: Dim) -> bool:
    """Whether broadcasting repeats `d` to be `other`, in an example that tells the two apart. The one question asked
    then is `d == 1`: not that the two differ, which would refuse a later call whose `other` is 1 as well."""
    return _is_one(d) and not _is_one(other) and equal(d, 1)


def same_when_summed(size: Dim, wanted: Dim) -> bool:
    """Whether a dim needs no sum to be of the wanted size. Whether `size` is 1 is never asked:
    the sum over a dim of size 1 is right too."""
    return size == wanted or (wanted != 1 and not is_repeated(wanted, size) and equal(size, wanted))


def _is_one(d: Dim) -> bool:
    """Whether a dim is 1 in the example. Asks nothing."""
    if isinstance(d, int):
        return d == 1
    env = _required()
    return d.symbols() <= env.examples.keys() and dims.evaluate(d, env.examples) == 1


_outside: list[ShapeEnv] = [ShapeEnv()]  # nothing to ask: structure alone must answer


def answer_outside(env: ShapeEnv) -> None:
    """Let an environment answer where no capture and no pass does."""
    _outside[:] = [env]


def _required() -> ShapeEnv:
    return _current.env or _outside[0]
