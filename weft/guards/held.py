"""What objects of weft's hold, which no code of the user's reads: a compiled function its function, a distribution its
parameters, and a scripted Module the lists, dicts and objects that its program reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.guards.kinds import CONTAINERS, Kind, Kinds
from weft.guards.origin import INTERNAL, USER
from weft.guards.slots import AttributeSlot, instance_dict
from weft.guards.values import key_text
from weft.support.locations import Location

if TYPE_CHECKING:
    from weft.guards.reads import Reads

HOLDING: Final = frozenset({*CONTAINERS, Kind.INSTANCE})
CALLED: Final = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.PARTIAL, Kind.MODULE, Kind.INSTANCE})

_SETTINGS: Final = frozenset({
    Kind.SCALAR, Kind.TUPLE, Kind.SYMBOL, Kind.ARRAY, Kind.ITERATOR, Kind.LIST, Kind.LEAF, Kind.INSTANCE,
})


def called_by(kinds: Kinds, value: Any) -> list[Any]:
    """What an object of weft's that is called calls in turn: a compiled function its function, a scripted method its
    Module."""
    if kinds.of(value) is not Kind.INSTANCE or not callable(value):
        return []
    if kinds.origins.of_class(type(value)) != INTERNAL:
        return []
    return [v for v in instance_dict(value).values() if callable(v) and kinds.of(v) in CALLED]


def is_own(kinds: Kinds, value: Any) -> bool:
    """Whether a value is an object of weft's or of NumPy's that computes by its attributes: none that calls another."""
    is_of_machinery = kinds.of(value) is Kind.INSTANCE and kinds.origins.of_class(type(value)) == INTERNAL
    return is_of_machinery and not called_by(kinds, value)


def note_settings(reads: Reads, owner: Any, text: str, where: Location) -> None:
    """What an object of weft's (a scheduler, a distribution) or of NumPy's goes by in its methods, and the objects
    of weft's that it holds."""
    pending, seen = [(owner, text)], set()
    while pending:
        each, path = pending.pop()
        seen.add(id(each))
        for name, value in list(instance_dict(each).items()):
            kind, inner = reads.kinds.of(value), f"{path}.{name}"
            if kind not in _SETTINGS:
                continue
            reads.entry(AttributeSlot(each, name, inner), where)
            reads.draws_from(value, where)
            if kind is Kind.LIST:
                reads.structure(value, inner, where)
            parts = [*enumerate(value)] if kind in (Kind.LIST, Kind.TUPLE) else []
            held = [(value, inner), *((part, f"{inner}[{i}]") for i, part in parts)]
            pending += [pair for pair in held if id(pair[0]) not in seen and is_own(reads.kinds, pair[0])]


def note_settings_in(reads: Reads, container: Any, text: str, where: Location) -> None:
    """The settings of objects of weft's in a container that code of weft's may be called with."""
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        if is_own(reads.kinds, value):
            note_settings(reads, value, f"{text}[{key_text(key)}]", where)


def note_attribute(reads: Reads, owner: Any, name: str, text: str, where: Location, seen: set[int]) -> None:
    """Guard an attribute, and what it holds. seen: what has been, by identity."""
    reads.entry(AttributeSlot(owner, name, f"{text}.{name}"), where)
    _note_held(reads, instance_dict(owner)[name], f"{text}.{name}", where, seen)


def _note_held(reads: Reads, value: Any, text: str, where: Location, seen: set[int]) -> None:
    kind = reads.kinds.of(value)
    if kind not in HOLDING or id(value) in seen:
        return
    if kind is Kind.INSTANCE and reads.kinds.origins.of_module(type(value).__module__) != USER:
        return
    seen.add(id(value))
    if kind is Kind.INSTANCE:
        for name in list(instance_dict(value)):
            note_attribute(reads, value, name, text, where, seen)
        return
    reads.structure(value, text, where)
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        _note_held(reads, item, f"{text}[{key_text(key)}]", where, seen)
