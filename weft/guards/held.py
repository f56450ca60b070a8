"""What objects of weft's hold, which no code of the user's reads: a compiled function its function, and a scripted
Module the lists, dicts and objects that its program reads and writes."""

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


def called_by(kinds: Kinds, value: Any) -> list[Any]:
    """What an object of weft's that is called calls in turn: a compiled function its function, a scripted method its
    Module."""
    if kinds.of(value) is not Kind.INSTANCE or not callable(value):
        return []
    if kinds.origins.of_class(type(value)) != INTERNAL:
        return []
    return [v for v in instance_dict(value).values() if callable(v) and kinds.of(v) in CALLED]


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
