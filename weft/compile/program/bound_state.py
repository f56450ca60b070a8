"""Bound state: places in Python state (an attribute, an item, a global) whose tensors, lists of numbers, or objects
that have stand-ins, a program takes anew at every call, like arguments.

A call's leaves are those of its arguments and, behind them, those of what the bound places hold then.
So whatever holds for arguments (sizes as symbols, guards on dtype and layout, sharing of memory, writes in place,
gradients) holds for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from weft.compile.program.call_leaves import CallLeaves, memo_of, objects_of
from weft.guards.slots import Slot
from weft.guards.values import is_list_of_numbers
from weft.ops.overrides import override_classes
from weft.record.wrappers import desugar
from weft.support import pytree
from weft.support.pytree import LEAF, TreeSpec
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import wrapper_classes


@dataclass(frozen=True, eq=False)
class BoundPlace:
    """One place: the structure of what it held in the capture, and its leaves' range among those of a call."""

    slot: Slot
    spec: TreeSpec
    start: int
    stop: int


class BoundState:
    """The bound places of a program. given: how many leaves the arguments have."""

    def __init__(self, slots: Iterable[Slot], leaves: list[Any]) -> None:
        """The places among `slots` that hold tensors, lists of numbers, or objects that have stand-ins, now, and those
        of such objects that hold containers; what they hold is added to `leaves`, those of the arguments."""
        self.given = len(leaves)
        self.places: list[BoundPlace] = []
        for slot in slots:
            held, spec = pytree.flatten(value_of(slot, leaves))
            has_objects = stand_in_within(held, slot, leaves)
            is_inner = spec.kind is not None and id(slot.holder) in objects_of(leaves)  # (which the program writes)
            if (
                has_objects or is_inner or any(isinstance(leaf, Tensor) for leaf in held)
                or is_list_of_numbers(slot.get())
            ):
                self.places.append(BoundPlace(slot, spec, len(leaves), len(leaves) + len(held)))
                leaves += held

    def take(self, leaves: list[Any]) -> str | None:
        """Put what the places hold now behind the leaves of the arguments. Returns what is wrong if it is of another
        structure than in the capture."""
        del leaves[self.given :]
        for place in self.places:
            value = value_of(place.slot, leaves)
            if place.spec is LEAF and isinstance(value, Tensor):
                leaves.append(value)
                continue
            held, spec = pytree.flatten(value)
            if spec != place.spec:
                return (
                    f"{place.slot.text} was {_text(place.spec)}, "
                    f"is now {_text(spec) if spec is not LEAF else repr(held[0])}"
                )
            stand_in_within(held, place.slot, leaves)
            leaves += held
        return None

    def key_of(self, leaf: int) -> Any:
        """What a leaf goes by in every capture of a function: its number if it is an argument's, else its place."""
        if leaf < self.given:
            return leaf
        place = self._place(leaf)
        return (*place.slot.key, leaf - place.start)

    def place_of(self, leaf: int) -> Any:
        """Where a leaf stands: its number if it is an argument's, else its place and the number of its leaf there."""
        return leaf if leaf < self.given else (self.key_of(leaf)[:-1], self.key_of(leaf)[-1])

    def name_of(self, leaf: int) -> str | None:
        """How the user's source would say it; None for an argument."""
        if leaf < self.given:
            return None
        place = self._place(leaf)
        return place.slot.text if place.spec is LEAF else f"a part of {place.slot.text}"

    def _place(self, leaf: int) -> BoundPlace:
        return next(p for p in self.places if p.start <= leaf < p.stop)


def stand_in_within(held: list[Any], slot: Slot, leaves: list[Any]) -> bool:
    """Put the stand-ins of a call in the place of the objects that a place holds. Whether there are some."""
    if type(leaves) is not CallLeaves or not leaves.inner:
        return False
    stand_ins = [leaves.inner.get((slot.key, number)) for number in range(len(held))]
    for number, stand_in in enumerate(stand_ins):
        if stand_in is not None and leaves.objects.get(id(stand_in)) is held[number]:
            held[number] = stand_in
    return any(stand_in is not None for stand_in in stand_ins)


def value_of(slot: Slot, leaves: list[Any]) -> Any:
    """What a place holds, wrappers taken apart. leaves: of the call."""
    value = slot.get()
    return desugar(value, memo_of(leaves)) if wrapper_classes or override_classes else value


def _text(spec: TreeSpec) -> str:
    return "a tensor" if spec is LEAF else f"{spec!r}"
