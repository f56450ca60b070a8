"""Unbacked sizes: those that a run finds, of values that wait outside of any graph. Nothing runs for such a size until
somebody asks for the number; from then on it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any
from weakref import ref

from weft.types import dims, shape_env
from weft.types.dims import Atom, Dim, Expr
from weft.types.relation import Relation, upper_bound
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType

KNOWN: dict[str, int] = {}  # sizes that were found, and that somebody still goes by
alive = [0]  # how many such sizes somebody goes by
_numbers = count()


class UnbackedSize(Atom):
    """The symbol of a size. value, axis: what has it, as soon as there is such a value; at_most: what it never exceeds.
    """

    __slots__ = ("__weakref__", "at_most", "axis", "users", "value")
    is_passing = True

    def __init__(self, at_most: Dim | None) -> None:
        super().__init__("symbol", (f"u_{next(_numbers)}",))
        self.at_most = at_most
        self.value: Any = None
        self.axis = 0
        self.users: list[ref[Any]] = []  # who is told the number, by `learn_sizes()`
        alive[0] += 1

    @property
    def is_known(self) -> bool:
        """Whether the number is there."""
        return self.key in KNOWN

    def settle(self, number: int) -> None:
        """The number is there: tell it to whoever goes by the size."""
        if self.is_known:
            return
        KNOWN[self.key] = number
        users, self.users, self.value = self.users, [], None
        for user in users:
            holder = user()
            if holder is not None:
                holder.learn_sizes()

    def __repr__(self) -> str:
        return str(KNOWN.get(self.key, self.key))

    def __del__(self, counted: list[int] = alive, numbers: dict[str, int] = KNOWN) -> None:
        counted[0] -= 1  # (at exit the module's names may be gone)
        numbers.pop(self.key, None)


class SizeNeeded(Exception):
    """A rule asks for the number of a size that is not known yet."""

    def __init__(self, sizes: list[UnbackedSize]) -> None:
        super().__init__(", ".join(size.key for size in sizes))
        self.sizes = sizes

    def find(self) -> None:
        """See that the numbers are there."""
        find(self.sizes)


class UnbackedEnv(ShapeEnv):
    """Answers about such sizes. What their bounds do not say is found by running; or else, where what is asked for is
    only being noted, SizeNeeded is raised.
    """

    def __init__(self, runs: bool) -> None:
        super().__init__(examples=KNOWN)
        self.runs = runs

    def unbacked(self, remedy: str = "", at_most: Dim | None = None) -> Expr:
        """A new size, or that which an earlier operator finds too."""
        expected = self.expected.pop(0) if self.expected else None
        return Expr({(UnbackedSize(at_most),): 1}) if expected is None else expected

    def _ask(self, relation: Relation) -> bool:
        proven = self._prove(relation)
        if proven is not None:
            return proven
        if any([type(atom) is not UnbackedSize for atom in dims.symbol_atoms(relation.expr)]):
            return super()._ask(relation)
        return (self.hint(relation.expr) == 0) if relation.op == "==" else self.hint(relation.expr) < 0

    def most_of(self, size: Atom) -> Dim | None:
        """What a size never exceeds."""
        return size.at_most if isinstance(size, UnbackedSize) else None

    def refuse(self, relation: Relation, error: Callable[[], Any]) -> None:
        """Raise `error()` where the relation holds. What is only noted is refused by the program."""
        try:
            if self._ask(relation):
                raise error()
        except SizeNeeded:
            if self._prove(relation):
                raise error() from None

    def hint(self, d: Dim) -> int:
        """The number. Raises SizeNeeded."""
        d = settled(d)
        if isinstance(d, int):
            return d
        sizes = list(unknown_in(d))
        if not self.runs and sizes:
            raise SizeNeeded(sizes)
        find(sizes)
        return super().hint(d)

    def current(self, expr: Expr) -> Dim:
        """The number, once it is known; programs that are captured take it as one."""
        env = shape_env.current_env()
        return settled(expr) if env is None or isinstance(env, UnbackedEnv) else self.hint(expr)

    def text(self, d: Dim) -> str:
        """What Python shows: the number."""
        return str(self.hint(d))


SIZES = UnbackedEnv(runs=True)
shape_env.answer_outside(SIZES)


def find(sizes: Sequence[UnbackedSize]) -> None:
    """See that the numbers are there. Raises what computing them raises."""
    if sizes:
        sizes[0].value.find([size.value for size in sizes])
    for size in sizes:
        if not size.is_known:
            size.settle(size.value.size_at(size.axis))


def bound_of(d: Dim) -> int | None:
    """What a dim never exceeds; None where nothing says so."""
    return upper_bound(settled(d), SIZES.most_of)


def settled(d: Dim) -> Dim:
    """The dim with the numbers of sizes that are known."""
    return d if isinstance(d, int) or d.symbols().isdisjoint(KNOWN) else dims.substitute(d, KNOWN)


def settled_type(kind: TensorType) -> TensorType:
    """The type with the numbers of sizes that are known."""
    return kind.with_dims(tuple([settled(d) for d in kind.shape])) if kind.is_symbolic else kind


def settled_in(value: Any) -> Any:
    """An argument, idem, through tuples."""
    kind = type(value)
    if kind is Expr:
        return settled(value)
    return tuple([settled_in(v) for v in value]) if kind is tuple else value


def numbers_in(value: Any) -> Any:
    """An argument with the numbers of such sizes, which are found, through tuples."""
    kind = type(value)
    if kind is Expr:
        return SIZES.hint(value) if all([type(a) is UnbackedSize for a in dims.symbol_atoms(value)]) else value
    return tuple([numbers_in(v) for v in value]) if kind is tuple else value


def has_symbols(value: Any) -> bool:
    """Whether an argument is such a size, or hangs on one."""
    kind = type(value)
    return kind is Expr or (kind is tuple and any(map(has_symbols, value)))


def unknown_in(*values: Any) -> Iterator[UnbackedSize]:
    """The sizes in arguments and dims that are not known yet, each once."""
    seen: set[str] = set()
    for value in values:
        for atom in _atoms_in(value):
            if type(atom) is UnbackedSize and atom.key not in seen and atom.key not in KNOWN:
                seen.add(atom.key)
                yield atom


def _atoms_in(value: Any) -> Iterable[Atom]:
    if type(value) is tuple:
        for part in value:
            yield from _atoms_in(part)
    elif type(value) is Expr:
        yield from dims.symbol_atoms(value)


def bare_size(d: Dim | None) -> UnbackedSize | None:
    """The size that a dim is, if it is no more than that."""
    if type(d) is not Expr or d.symbol_name is None:
        return None
    atom = d.terms[0][0][0]
    return atom if isinstance(atom, UnbackedSize) else None


def tell(user: Any, *values: Any) -> None:
    """Let `user.learn_sizes()` be called when sizes among these become known."""
    for size in unknown_in(*values):
        size.users.append(ref(user))
