"""Guards on what Python keeps where no attribute leads: answers to questions, caches, weak references, registrations of
abstract classes, what a tensor says of itself."""

from __future__ import annotations

import abc
import gc
from collections.abc import Callable
from typing import Any

from weft.guards.asked import same_answer
from weft.guards.guard import Guard, Miss, Names
from weft.guards.values import MISSING, same
from weft.support.locations import Location


class AnswerGuard(Guard):
    """A question to Python still has the same answer: what a function without arguments gives, an attribute that is
    written in C. is_steady: whether asking twice gives the same answer at all. quick: gives the same object as long as
    the answer is the same. before: the answer when the call began, where it may be another one on its way."""

    remedy = (
        "what Python is asked there has another answer at each call: ask outside, and give the answer as an argument; "
        "numbers at random: draw them with weft (weft.rand), which is an input of the program"
    )

    def __init__(
        self, ask: Callable[[], Any], holder: object, where: Location, text: str, equal: tuple[type, ...] = (),
        quick: Callable[[], Any] | None = None, before: Any = MISSING,
    ) -> None:
        self.quick, self._names, self._last = quick, Names(), ""
        self.ask, self.holder, self.where, self.text, self.equal = ask, holder, where, text, equal
        self.before, again = ask(), ask()
        # made anew each time: by what it holds, however deep; else its items have guards of their own
        self.is_deep = not (self.before is again or same(self.before, again, equal))
        if self.is_deep:
            self.before = _copied(self.before)
        self.is_steady = self.holds()
        if before is not MISSING:
            self.before = before

    def source(self, names: Names) -> str:
        if self.quick is None:
            return f"{names.variable(self.holds)}()"
        self._names, self._last = names, names.variable(self.quick())
        return f"({names.variable(self.quick)}() is {self._last} or {names.variable(self.holds)}())"

    def holds(self) -> bool:
        """Whether the answer is the same."""
        if not self._is_same(self._now()):
            return False
        if self.quick is not None and self._last:
            self._names.namespace[self._last] = self.quick()
        return True

    def _is_same(self, now: Any) -> bool:
        return same_answer(self.before, now, self.equal) if self.is_deep else same(self.before, now, self.equal)

    def _now(self) -> Any:
        try:
            return self.ask()
        except Exception:  # there is none any more: a reference is dead, a name is gone
            return MISSING

    def miss(self) -> Miss | None:
        now = self._now()
        return None if self._is_same(now) else Miss(self.where, self.text, self.before, now)


def _copied(answer: Any) -> Any:
    """An answer whose containers nobody else changes."""
    if type(answer) is dict:
        return {key: _copied(value) for key, value in answer.items()}
    if type(answer) in (list, tuple):
        return type(answer)(map(_copied, answer))
    return answer


def content_of_cache(cache: Any) -> dict[Any, Any]:
    """What a functools.lru_cache holds: results, or, where it may overflow, what leads to them, by key."""
    return next((d for d in gc.get_referents(cache) if type(d) is dict and d is not vars(cache)), {})


def results_in(cache: Any) -> list[Any]:
    """The results that a functools.lru_cache holds."""
    results = []
    for value in list(content_of_cache(cache).values()):
        results += gc.get_referents(value) if type(value).__name__ == "_lru_list_elem" else [value]
    return results


class CacheGuard(Guard):
    """What a functools.lru_cache held still is in it: a call that found a result there would find it again."""

    remedy = "do not clear or overflow the lru_cache between calls, or call what is behind it outside"

    def __init__(self, cache: Any, where: Location, text: str) -> None:
        self.holder, self.where, self.text = cache, where, f"the cache of {text}"
        self.held = content_of_cache(cache)
        self.before = dict(self.held)

    def source(self, names: Names) -> str:
        return f"{names.variable(self.holds)}()" if self.before else "True"

    def holds(self) -> bool:
        """Whether every key still leads to the same result."""
        now = self.held
        return all([now.get(key) is value for key, value in self.before.items()])

    def miss(self) -> Miss | None:
        return (
            None if self.holds()
            else Miss(self.where, self.text, f"one of {len(self.before)} results", f"another of {len(self.held)}")
        )


class ReferenceGuard(Guard):
    """What a weak reference refers to still lives, or is still dead."""

    remedy = "keep the object alive as long as the function is called"

    def __init__(self, reference: Any, was_alive: bool, where: Location, text: str) -> None:
        self.holder, self.was_alive, self.where, self.text = reference, was_alive, where, f"what {text} refers to"

    def source(self, names: Names) -> str:
        return f"{names.bind(self.holder)}() is {'not ' if self.was_alive else ''}None"

    def miss(self) -> Miss | None:
        reference: Any = self.holder
        is_alive = reference() is not None
        return (
            None if is_alive is self.was_alive
            else Miss(self.where, self.text, *(("alive", "dead") if self.was_alive else ("dead", "alive")))
        )


class LeafGuard(Guard):
    """What a tensor from outside says of itself is still true or still false: whether it requires grad,
    is a leaf, has a history."""

    remedy = "nothing, if it changes once (a layer is frozen): each answer has a program of its own"

    def __init__(self, leaf: Any, name: str, before: bool, where: Location, text: str) -> None:
        self.holder, self.name, self.where, self.text, self.before = leaf, name, where, text, before

    def source(self, names: Names) -> str:
        return f"{'' if self.before else 'not '}{names.bind(self.holder)}.{self.name}"

    def miss(self) -> Miss | None:
        now = bool(getattr(self.holder, self.name))
        return None if now is self.before else Miss(self.where, self.text, self.before, now)


class RegistrationGuard(Guard):
    """An abstract class, with those under it, still counts the same classes as its own.
    Asked only after any class was registered anywhere."""

    remedy = "register classes before the first call"

    def __init__(self, cls: Any, where: Location) -> None:
        self.holder: Any = cls
        self.where, self.text = where, f"what is registered with {cls.__name__}"
        self.token: object = abc.get_cache_token()
        self.before = registered(cls)

    def source(self, names: Names) -> str:
        return (
            f"({names.bind(abc.get_cache_token)}() == {names.variable(self.token)} or {names.variable(self.holds)}())"
        )

    def holds(self) -> bool:
        """Whether nothing was registered here."""
        return registered(self.holder) == self.before

    def miss(self) -> Miss | None:
        return None if self.holds() else Miss(self.where, self.text, len(self.before), len(registered(self.holder)))


def registered(cls: Any) -> set[Any]:
    """Weak references to the classes registered with an abstract class and with those under it."""
    references: set[Any] = set()
    pending, seen = [cls], set()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, abc.ABCMeta):
            references |= abc._get_dump(each)[0]  # type: ignore[attr-defined]
        pending += type.__subclasses__(each)
    return references
