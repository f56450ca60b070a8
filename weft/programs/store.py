"""The program store: key -> programs, for every front end.

A front end has a key (what is called, but for its sizes and numbers) and a moment when no program fits; it captures one
then. What is kept under a key, in which order it is tried, which numbers of the calls are inputs of the programs, and
what is dropped when there are too many, is here. The limits stand in support/limits.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, final

from weft.support import limits
from weft.support.errors import WeftError
from weft.support.memo import Memo


@final
@dataclass
class Miss:
    """Why a program does not fit a call.

    reason: a text, or what writes it, since most misses are followed by a program that fits. depth: how far the check
    came. lift: the numbers that changed, by the keys of their places; leaf: the leaf of the arguments that the text is
    about; sizes: the symbols of the sizes that it is about; remedy: what the user can do about it.
    """

    reason: str | Callable[[], str]
    depth: int = 0
    lift: tuple[tuple[Any, Any], ...] = ()
    leaf: int | None = None
    sizes: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def text(self) -> str:
        """The reason."""
        return self.reason if isinstance(self.reason, str) else self.reason()


UNFIT = Miss("the program was made for other sizes or numbers", remedy="nothing: the next program takes them as inputs")


class Variant(Protocol):
    """One of the programs under a key."""

    def match(self, inputs: Any, numbers: Any, /) -> Any:
        """What the program makes of a call's inputs and numbers, or a Miss."""


K = TypeVar("K")
P = TypeVar("P", bound=Variant)
R = TypeVar("R")


class Lifting:
    """Which numbers of the calls under one key are inputs of its programs, by their places.

    A number is a constant until a call without a program brings another one; from then on it is an input. latest: the
    numbers of the latest such call. varying: places whose numbers were not always the same; inputs: those that were
    inputs of some program; constant: those that no program can take as an input, each value of which makes another one;
    unexpected: those that were something else than a program takes them for, in terms of other numbers, say.
    """

    __slots__ = ("constant", "inputs", "latest", "unexpected", "varying")

    def __init__(self) -> None:
        self.latest: Sequence[Any] = ()
        self.varying: set[int] = set()
        self.inputs: set[int] = set()
        self.constant: set[int] = set()
        self.unexpected: set[int] = set()

    def note(self, numbers: Sequence[Any]) -> None:
        """The numbers of a call that no program fits. What changes for the first time may be an input after all."""
        pairs = zip(self.latest, numbers, strict=False)
        changed = {i for i, (a, b) in enumerate(pairs) if not is_same_number(a, b)} - self.varying
        self.latest = numbers
        self.varying |= changed
        self.constant -= changed

    def capture(self, make: Callable[[set[int]], P]) -> P:
        """A program. make: captures one with the numbers in these places as inputs: those that have changed, but for
        what a rule or a kernel takes as it is alone."""
        places = self.varying - self.constant
        constants: frozenset[int] = frozenset()
        try:
            program = make(places)
        except (TypeError, WeftError):
            narrower = narrowed(places, lambda constants: _attempt(make, places, constants))
            if narrower is None:
                raise
            program, constants = narrower
        self.constant |= constants
        self.inputs |= places - constants
        return program


def _attempt(make: Callable[[set[int]], P], places: set[int], constants: frozenset[int]) -> Any:
    try:
        return make(places - constants), constants
    except (TypeError, WeftError):
        return None


def narrowed(numbers: Collection[K], capture: Callable[[frozenset[K]], R | None]) -> R | None:
    """A program where none could be captured with all of these numbers as inputs: with all but the one at fault, or
    with none of them. capture: one with these as constants; None where that fails, too. None where no number is at
    fault."""
    constants = frozenset(numbers)
    program = capture(constants) if constants else None
    if program is None or not 1 < len(constants) <= limits.SUSPECTS:
        return program
    singly = (capture(frozenset((number,))) for number in numbers)
    return next((narrower for narrower in singly if narrower is not None), program)


def is_same_number(a: Any, b: Any) -> bool:
    """Whether two numbers are the same, zeros with their signs."""
    return bool(a == b) and (bool(a) or str(a) == str(b))


class Variants(Generic[P]):
    """The programs under one key, the one that was used last first; one that is general, but slower where another fits,
    comes after all others. The one that was not used for the longest time goes when there are too many."""

    __slots__ = ("__weakref__", "_general", "_lock", "_programs", "lifting", "limit", "misses")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lifting = Lifting()
        self.misses = 0  # calls that no program fitted
        self._programs: list[P] = []  # replaced, never changed: other threads may be walking through it
        self._general = 0  # how many at the end are general
        self._lock = threading.RLock()  # (a finalizer may run programs, too)

    def find(self, inputs: Any, numbers: Any = None) -> tuple[P, Any] | None:
        """The first program that fits a call, and what it makes of the call's inputs and numbers."""
        programs = self._programs
        for program in programs:
            match = program.match(inputs, numbers)
            if type(match) is not Miss:
                if program is not programs[0]:
                    self.used(program)
                return program, match
        return None

    def taken(self, program: P, inputs: Any, numbers: Any = None) -> Any:
        """What a program of somebody else's makes of a call's inputs and numbers; it is one of these from now on. None
        where it does not fit."""
        match = program.match(inputs, numbers)
        if type(match) is Miss:
            return None
        self.add(program)
        return match

    def others(self, inputs: Any, numbers: Any, tried: P) -> Iterator[tuple[P, Any]]:
        """The programs besides `tried` that fit a call, and what they make of it."""
        for program in self._programs:
            match = UNFIT if program is tried else program.match(inputs, numbers)
            if type(match) is not Miss:
                yield program, match

    def reasons(self, inputs: Any, numbers: Any = None) -> list[tuple[P, Miss]]:
        """Why each of the programs does not fit a call."""
        asked = [(program, program.match(inputs, numbers)) for program in self._programs]
        return [(program, match) for program, match in asked if type(match) is Miss]

    def missed(self, numbers: Sequence[Any]) -> None:
        """No program fits a call with these numbers."""
        self.misses += 1
        self.lifting.note(numbers)

    def add(self, program: P, is_general: bool = False) -> P:
        """Keep a new program."""
        with self._lock:
            count = len(self._programs) - self._general
            first, last = self._programs[:count], self._programs[count:]
            if len(self._programs) >= self.limit:
                (first or last).pop()
            (last if is_general else first).insert(0, program)
            self._programs, self._general = first + last, len(last)
        return program

    def remove(self, is_gone: Callable[[P], bool]) -> None:
        """Let go of some programs."""
        with self._lock:
            stays = [not is_gone(program) for program in self._programs]
            self._general = sum(stays[len(stays) - self._general :])
            self._programs = [program for program, is_kept in zip(self._programs, stays, strict=True) if is_kept]

    def used(self, program: P) -> None:
        """A program that is not the first one was used."""
        with self._lock:
            programs = self._programs
            if any([p is program for p in programs[1 : len(programs) - self._general]]):
                self._programs = [program, *[p for p in programs if p is not program]]

    @contextmanager
    def with_also(self, programs: list[P], is_kept_elsewhere: Callable[[P], bool]) -> Iterator[None]:
        """Within the block there are more programs, which are tried first. Behind it, they are taken away again, and so
        are those that have come for which `is_kept_elsewhere` holds: these are added to the list."""
        with self._lock:
            before = self._programs
            within = self._programs = [*programs, *before]
        try:
            yield
        finally:
            with self._lock:
                if self._programs is within:
                    self._programs = before
                else:
                    own = set(map(id, before))
                    ids = {id(program) for program in programs}
                    more = [p for p in self._programs if id(p) in ids or (id(p) not in own and is_kept_elsewhere(p))]
                    ids |= set(map(id, more))
                    self.remove(lambda program: id(program) in ids)
                    programs[:] = more

    @property
    def own(self) -> list[P]:
        """The programs that are kept here."""
        return self._programs

    @property
    def is_full(self) -> bool:
        """Whether there are as many programs as are kept."""
        return len(self._programs) >= self.limit

    def __len__(self) -> int:
        return len(self._programs)

    def __iter__(self) -> Iterator[P]:
        return iter(self._programs)

    def __getitem__(self, index: int) -> P:
        return self._programs[index]


class ProgramStore(Generic[K, P]):
    """The programs of several keys. refused: keys that no program can be made for, and why. keys, variants: how many
    are kept, of keys and under each; where there are more keys all are forgotten, unless the front end asks before."""

    def __init__(self, keys: int, variants: int) -> None:
        self._limit = variants
        self._variants: Memo[K, Variants[P]] = Memo(keys)
        self.refused: Memo[K, BaseException | str] = Memo(limits.REFUSED_KEYS)

    def find(self, key: K, inputs: Any, numbers: Any = None) -> tuple[P, Any] | None:
        """The first program under a key that fits a call, and what it makes of it."""
        variants = self._variants.get(key)
        return None if variants is None else variants.find(inputs, numbers)

    def variants(self, key: K) -> Variants[P]:
        """Those under a key."""
        variants = self._variants.get(key)
        return self._variants.setdefault(key, Variants(self._limit)) if variants is None else variants

    def refuse(self, key: K, error: BaseException) -> None:
        """No program can be made for a key."""
        error.__traceback__ = error.__context__ = None  # whose frames hold a caller's tensors
        self.refused[key] = error
        if not len(self._variants.get(key, ())):
            self._variants.pop(key, None)

    def has_room(self, key: K) -> bool:
        """Whether the key is there, or may join without others being forgotten."""
        return key in self._variants or len(self._variants) < self._variants.limit

    def may_add(self, key: K) -> bool:
        """Whether a program can be made for a key, as far as is known, and may join it without others going."""
        variants = self._variants.get(key)
        return key not in self.refused and (self.has_room(key) if variants is None else not variants.is_full)

    def forget(self) -> None:
        """Keep nothing."""
        self._variants.clear()
        self.refused.clear()

    @property
    def latest(self) -> P | None:
        """The program that was used last under the latest key that has one."""
        return next((variants[0] for variants in reversed(self._variants.values()) if len(variants)), None)

    def __iter__(self) -> Iterator[Variants[P]]:
        return iter(self._variants.values())
