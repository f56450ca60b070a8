"""Guards on what is inside: containers by their keys and items, NumPy arrays by their bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from weft.guards.guard import Guard, Miss, Names, SlotGuard, remedy_of
from weft.guards.kinds import Kind, Kinds
from weft.guards.slots import ItemSlot, Key, Slot
from weft.guards.values import key_text, number_kind, same
from weft.support.locations import Location


class ContainerGuard(Guard):
    """A list, dict or set still has the same length, keys and items."""

    def remedy_for(self, miss: Miss) -> str:
        if miss.path.startswith(("len(", "keys of ")) or self.kind is Kind.SET:
            return (
                "each length and each set of keys has a program of its own: fill a tensor of fixed size, or let it "
                "grow outside of the compiled function"
            )
        return remedy_of(miss.old, miss.new)

    def __init__(self, obj: Any, before: Any, where: Location, text: str, kinds: Kinds, lifted: dict[Key, Any]) -> None:
        self.holder, self.where, self.text, self.equal, self.kinds = obj, where, text, kinds.equal, kinds
        self.kind = kinds.of(obj)
        self.keys = list(before) if self.kind is Kind.DICT else list(range(len(before)))
        self.items: list[Any] = list(before.values()) if self.kind is Kind.DICT else list(before)
        self.lifted = {i for i, key in enumerate(self.keys) if self.slot(key).key in lifted}
        self.ignored: set[int] = set()
        self.is_module_dict = False  # a Module's own dict, from names to objects: few, and identical
        for i in self.lifted:
            self.items[i] = lifted[self.slot(self.keys[i]).key]

    @property
    def content(self) -> Any:
        """What it holds, as a list or a dict."""
        return dict(zip(self.keys, self.items, strict=True)) if self.kind is Kind.DICT else list(self.items)

    def ignoring(self, keys: set[Key]) -> ContainerGuard:
        """The same guard, but the items in these slots may be anything."""
        other = copy.copy(self)
        other.items = list(self.items)
        other.ignored = self.ignored | {i for i, key in enumerate(self.keys) if self.slot(key).key in keys}
        return other

    def slot(self, key: Any) -> Slot:
        """The place of one item."""
        return ItemSlot(self.holder, key, f"{self.text}[{key_text(key)}]")

    def source(self, names: Names) -> str:
        place = names.bind(self.holder)
        if not self.items:
            return f"not {place}"
        if self.is_module_dict and len(self.items) <= 8 and not self.lifted:
            parts = [
                f"{place}[{k!r}] is {names.bind(v)}"
                for i, (k, v) in enumerate(zip(self.keys, self.items, strict=True)) if i not in self.ignored
            ]
            order = (
                f"len({place}) == 1" if len(self.keys) == len(parts) == 1
                else f"[*{place}] == {names.variable(self.keys)}"
            )
            return " and ".join([order, *parts])
        return f"{names.variable(self.holds)}()"

    def holds(self) -> bool:
        """Identity first, at C speed; then values."""
        now: Any = self.holder
        if len(now) != len(self.items):
            return False
        if self.kind is Kind.SET:
            return all(map(same, self.items, now))  # in this order, which is what loops go by
        if self.kind is Kind.DICT:
            if all(map(is_, now.values(), self.items)) and all(map(is_, now, self.keys)):
                return True
        elif all(map(is_, now, self.items)):
            return True
        return next(self.changes(), None) is None

    def changes(self) -> Iterator[tuple[Any, Any, Any]]:
        """(key, old, new) of every item that changed, or (None, old, new) where the keys are others;
        equal values are adopted."""
        now: Any = self.holder
        if self.kind is Kind.DICT and not all(map(same, self.keys, now)):
            yield (None, self.keys, list(now))
            return
        for i, new in enumerate(list(now.values()) if self.kind is Kind.DICT else now):
            if i in self.ignored:
                continue
            old = self.items[i]
            if (number_kind(old) != number_kind(new)) if i in self.lifted else not same(old, new, self.equal):
                yield (self.keys[i], old, new)
            else:
                self.items[i] = new

    def holds_on_to(self) -> Iterator[Any]:
        return (item for i, item in enumerate(self.items) if i not in self.ignored and i not in self.lifted)

    def miss(self) -> Miss | None:
        return next(iter(self.misses()), None)

    def misses(self) -> list[Miss]:
        if self.holds():
            return []
        now: Any = self.holder
        if len(now) != len(self.items):
            return [Miss(self.where, f"len({self.text})", len(self.items), len(now))]
        if self.kind is Kind.SET:
            return [Miss(self.where, self.text, set(self.items), set(now))]
        return [self._missed(*change) for change in self.changes()]

    def _missed(self, key: Any, old: Any, new: Any) -> Miss:
        if key is None:
            return Miss(self.where, f"keys of {self.text}", old, new)
        slot = self.slot(key)
        is_number = bool(number_kind(old) and number_kind(new))
        return Miss(self.where, slot.text, old, new, is_number, slot if self.kinds.can_lift(old, new) else None)


class TupleIdentityGuard(Guard):
    """The tuples and frozensets in some places are the same objects as each other where they were: by themselves, equal
    ones do for those that were read, and code that compares by `is` has another answer."""

    remedy = "compare with ==, or keep the objects that are compared"

    def __init__(self, slots: Sequence[SlotGuard], containers: Sequence[ContainerGuard]) -> None:
        self.slots, self.holders = [g.slot for g in slots], [g.holder for g in containers]
        self.where, self.text = (*slots, *containers)[0].where, "which tuples are the same object"
        self.pattern = _pattern([*[g.expected for g in slots], *[g.items for g in containers]])

    @classmethod
    def over(cls, guards: Sequence[Guard]) -> list[Guard]:
        """The guard over the places of others, if there is more than one such object in them."""
        slots = [g for g in guards if type(g) is SlotGuard and not g.lifted and isinstance(g.expected, _COMPARED)]
        containers = [g for g in guards if type(g) is ContainerGuard and any(isinstance(v, _COMPARED) for v in g.items)]
        if not slots and not containers:
            return []
        guard = cls(slots, containers)
        return [guard] if len(guard.pattern) > 1 else []

    def source(self, names: Names) -> str:
        return f"{names.variable(self._now)}() == {names.variable(self.pattern)}"

    def miss(self) -> Miss | None:
        now = self._now()
        return None if now == self.pattern else Miss(self.where, self.text, self.pattern, now)

    def _now(self) -> tuple[int, ...]:
        held: list[Any] = self.holders
        contents = [list(c.values()) if isinstance(c, dict) else list(c) for c in held]
        return _pattern([*[slot.get() for slot in self.slots], *contents])


_COMPARED = (tuple, frozenset)


def _pattern(values: Sequence[Any]) -> tuple[int, ...]:
    """For each tuple or frozenset in the values and within those, the first place of the same object. Empty ones are
    shared by Python."""
    first: dict[int, int] = {}
    pattern: list[int] = []
    pending = [v for value in values for v in (value if type(value) is list else (value,))][::-1]
    while pending:
        value = pending.pop()
        if isinstance(value, _COMPARED) and value:
            pattern.append(first.setdefault(id(value), len(pattern)))
            pending.extend(value if isinstance(value, tuple) else ())
    return tuple(pattern)


class KeysGuard(Guard):
    """An object or class still has attributes of the same names."""

    remedy = "set all attributes before the first call (in __init__)"

    def __init__(self, obj: Any, keys: frozenset[str], where: Location, text: str) -> None:
        self.holder, self.keys, self.where, self.owner, self.text = obj, keys, where, text, f"names of {text}"

    def source(self, names: Names) -> str:
        held = (
            names.bind_class_dict(self.holder) if isinstance(self.holder, type)
            else f"{names.bind(self.holder)}.__dict__"
        )
        return f"{held}.keys() == {names.variable(self.keys)}"

    def miss(self) -> Miss | None:
        now = set(vars(self.holder))
        return (
            None if now == self.keys else Miss(self.where, self.text, sorted(self.keys - now), sorted(now - self.keys))
        )


class ArrayGuard(Guard):
    """A NumPy array outside the program still has the same content, which may have been copied into the program."""

    remedy = "its numbers are constants of the program: make it a tensor (weft.from_numpy), or give it as an argument"

    def __init__(self, array: Any, before: Any, where: Location, text: str) -> None:
        self.holder, self.before, self.where, self.text = array, before, where, f"content of {text}"

    def source(self, names: Names) -> str:
        return f"{names.variable(self.holds)}()"

    def holds(self) -> bool:
        """Same dtype, shape and bytes."""
        return same_array(self.holder, self.before)

    def miss(self) -> Miss | None:
        return None if self.holds() else Miss(self.where, self.text, self.before, self.holder)


class BufferGuard(ArrayGuard):
    """The same for a bytearray, array.array or memoryview."""

    remedy = "its bytes are constants of the program: make it a tensor (weft.frombuffer), or give it as an argument"

    def holds(self) -> bool:
        holder: Any = self.holder
        return bool(memoryview(holder).tobytes() == self.before)


def same_array(a: Any, b: Any) -> bool:
    """Equality of arrays bit for bit, so that NaN equals itself."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        return all(map(is_, a.ravel(), b.ravel()))
    return np.array_equal(_bytes(a), _bytes(b))


def _bytes(array: Any) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8) if flat.dtype.itemsize else flat
