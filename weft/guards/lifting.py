"""Lifting: numbers and tensors that changed become runtime inputs. Stand-ins take their places while the function
is captured again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.guards.slots import Key, Slot
from weft.guards.values import number_kind
from weft.support.interrupts import to_the_end


class Substitution:
    """Context manager: inside, each slot holds its stand-in; afterwards the real number again, whatever happened.

    `real` maps slot keys to the values that were there on entry. `getters` read the current numbers on later calls,
    in the order of the slots.
    """

    def __init__(self, stand_ins: Iterable[tuple[Slot, Any]]) -> None:
        pairs = {slot.key: (slot, stand_in) for slot, stand_in in stand_ins}
        self.slots = [slot for slot, _ in pairs.values()]
        self.stand_ins = [stand_in for _, stand_in in pairs.values()]
        self._before: list[Any] = []
        self.getters: list[Callable[[], Any]] = [_getter(slot) for slot in self.slots]

    @property
    def real(self) -> Mapping[Key, Any]:
        """The numbers that the stand-ins replace, by slot key."""
        return {slot.key: value for slot, value in zip(self.slots, self._before, strict=True)}

    def __enter__(self) -> Substitution:
        self._before = [slot.get() for slot in self.slots]
        try:
            for slot, stand_in in zip(self.slots, self.stand_ins, strict=True):
                slot.put(stand_in)
        except BaseException:  # (an interrupt; nobody calls __exit__ then)
            to_the_end(self._put_back)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        to_the_end(self._put_back)

    def _put_back(self) -> None:
        for slot, value in zip(self.slots, self._before, strict=True):
            slot.put(value)


def _getter(slot: Slot) -> Callable[[], Any]:
    def get() -> Any:
        value = slot.get()
        return value if type(value) in (int, float) else _plain(value)

    return get


def _plain(value: Any) -> Any:
    kind = number_kind(value)
    if kind is None:
        return value
    return int(value) if kind == "int" else float(value)
