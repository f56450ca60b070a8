"""Lists of numbers in machine code: a record of where the elements are, and how many. Python's own list is brought up
to date where the code ends or leaves, if it was written.

An element takes as many words as it has numbers; an element that is a list is the address of its record. Two names of
one list have one record.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.jit.native.kinds import built, flat, scalars, struct_format
from weft.types.tensor_type import BOOL, FLOAT, INT, ListType, Type

DATA, LENGTH, ROOM, WRITTEN, OWNED, WORDS = range(6)  # ROOM: elements; OWNED: whether the code has made the memory
LIST = WORDS  # of a record that the code has made: the one before it
TRACE_WORDS = 16  # of the frame: the steps of inner loops, the sites of open calls
COUNT, MADE = TRACE_WORDS - 2, TRACE_WORDS - 1  # the last two: how many records the code has made, and the last one
_PLAIN: dict[Type, tuple[str, type]] = {INT: ("q", int), FLOAT: ("d", float), BOOL: ("q", bool)}
_Record = ctypes.c_int64 * WORDS


@dataclass(eq=False)
class _Held:
    items: list[Any]
    kind: ListType
    record: Any
    memory: Any  # of the elements, as they came; None for a list that the code has made


class Lists:
    """The lists that machine code works on. let_go: frees memory that it has made; copied: elements that were handed
    over; steps: of inner loops.
    """

    def __init__(self, let_go: Callable[[int], int], let_go_made: Callable[[int], int]) -> None:
        self._let_go, self._let_go_made = let_go, let_go_made
        self.made = 0  # the last record that the code has made
        self._by_id: dict[int, _Held] = {}
        self._by_address: dict[int, _Held] = {}
        self.copied = self.steps = 0

    def address(self, items: list[Any], kind: ListType) -> int:
        """Where a list's record is. Raises TypeError for elements of another type, OverflowError beyond 64 bits."""
        held = self._by_id.get(id(items))
        if held is None:
            held = self._take(items, kind)
        elif held.kind is not kind:
            raise TypeError(f"expected {kind}")
        return ctypes.addressof(held.record)

    def list_at(self, address: int, kind: ListType) -> list[Any]:
        """The list whose record is there; one that the code has made gets its elements from bring_back."""
        held = self._by_address.get(address)
        if held is None:
            held = self._by_address[address] = _Held([], kind, _Record.from_address(address), None)
        return held.items

    def _take(self, items: list[Any], kind: ListType) -> _Held:
        if type(items) is not list:
            raise TypeError(f"expected {kind}")
        memory = self._words(items, kind)
        start = memory.buffer_info()[0] if isinstance(memory, array) else ctypes.addressof(memory)
        held = _Held(items, kind, _Record(start, len(items), len(items), 0, 0), memory)
        self.copied += len(items)
        self._by_id[id(items)] = self._by_address[ctypes.addressof(held.record)] = held
        return held

    def _words(self, items: list[Any], kind: ListType) -> Any:
        plain = _PLAIN.get(kind.element)
        if plain is not None:
            form, expected = plain
            if not set(map(type, items)) <= {expected}:
                raise TypeError(f"expected {kind}")
            return array(form, items)
        pack = struct.Struct(struct_format([kind.element]))
        memory = ctypes.create_string_buffer(max(8, pack.size * len(items)))
        for i, item in enumerate(items):
            pack.pack_into(memory, i * pack.size, *flat(item, kind.element, self))
        return memory

    # ---- back to Python
    def bring_back(self) -> list[tuple[list[Any], list[Any]]]:
        """Let Python's lists be what the code has made of them: those that were written, with what was in them."""
        before: list[tuple[list[Any], list[Any]]] = []
        while True:  # the elements may be lists that the code has made
            written = [held for held in self._by_address.values() if held.record[WRITTEN]]
            if not written:
                return before
            for held in written:
                before.append((held.items, held.items[:]))
                held.items[:] = self._elements(held)
                held.record[WRITTEN] = 0

    def _elements(self, held: _Held) -> list[Any]:
        count, element = held.record[LENGTH], held.kind.element
        data = ctypes.string_at(held.record[DATA], 8 * len(scalars(element)) * count)
        plain = _PLAIN.get(element)
        if plain is not None:
            numbers = array(plain[0], data).tolist()
            return list(map(bool, numbers)) if element is BOOL else numbers
        words = itertools.chain.from_iterable(struct.iter_unpack(struct_format([element]), data)) if data else iter(())
        return [built(words, element, self) for _ in range(count)]

    def close(self) -> None:
        """Free the memory."""
        for held in self._by_address.values():
            if held.memory is not None and held.record[OWNED]:
                self._let_go(held.record[DATA])
        if self.made:
            self._let_go_made(self.made)
            self.made = 0
        self._by_address.clear()
        self._by_id.clear()
