"""A frame: the table of words that native code works on, and the arrays that must stay alive while it does.
One for each concurrent call."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from itertools import compress
from operator import is_not
from typing import Any

import numpy as np

from weft.runtime.address import address_of
from weft.runtime.arena import Arena, borrow, give_back
from weft.runtime.segments import ARENA, HEADER, PARALLEL, POOL, TOTAL, Layout, NumberSlot, ObjectSlot, Slot, TensorSlot
from weft.support.errors import ValueProblem
from weft.types import dtype as dt

Array = np.ndarray[Any, Any]
_HALF = 1 << 63
Setter = Callable[[int, Any], None]


class Frame:
    """Words, arena and arrays of one call.

    words   native memory; `address` is where it starts, `floats` the same memory as doubles
    held    arrays by root, parameters first: what native code may point into
    """

    def __init__(
        self, layout: Layout, constants: Sequence[tuple[int, Array]] = (), pool: tuple[int, int] = (0, 0)
    ) -> None:
        self.layout = layout
        self.words = array("q", bytes(8 * layout.words))
        self.floats = memoryview(self.words).cast("B").cast("d")
        self.address = self.words.buffer_info()[0]
        self.arena = Arena()
        self.held: list[Any] = [None] * layout.roots
        self.watch: Any = None  # who is told of this call (support/observers.py)
        self.symbols: tuple[int, ...] | None = None
        self.values: dict[str, int] = {}
        # root, dims and dtype of arrays to make for a call with these symbols
        self.fresh: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []
        self._written = frozenset(layout.written)
        self._changed_twice = [0] * len(layout.params)
        self._passing: list[int] = []
        self._setters = tuple(self._setter(slot) for slot in layout.params)
        self._positions = range(len(layout.params))
        self._prepare(constants, pool)

    def _prepare(self, constants: Sequence[tuple[int, Array]], pool: tuple[int, int]) -> None:
        self.words[POOL], self.words[PARALLEL] = pool
        for word, content in self.layout.preset:
            self.words[word] = content
        for root, values in constants:
            self.hold(root, values)

    def _setter(self, slot: Slot) -> Setter:
        if isinstance(slot, NumberSlot):
            return self._set_float if slot.kind == "float" else self._set_int
        return self._set_object if isinstance(slot, ObjectSlot) else self._set_array

    # ---- what a call brings
    def fill(self, inputs: Sequence[Any]) -> None:
        """Take the inputs that are not the very objects of the call before. Raises ValueProblem for an array
        that is not row-major."""
        if len(inputs) != len(self._setters):
            raise ValueProblem(f"program: takes {len(self._setters)} inputs, got {len(inputs)}")
        for i in compress(self._positions, map(is_not, inputs, self.held)):
            self._setters[i](i, inputs[i])

    def _set_array(self, i: int, value: Array) -> None:
        if not value.flags.c_contiguous:
            raise ValueProblem(
                f"program: input {i} must be contiguous; its strides are {value.strides} for dims {value.shape}"
            )
        self.hold(i, value)
        if i not in self._written:
            self._watch(i)

    def _watch(self, i: int) -> None:
        """An input that comes as another array in call after call is passing through:
        it is let go when the call ends."""
        self._changed_twice[i] += 1
        if self._changed_twice[i] == 2:
            self._passing.append(i)

    def _set_float(self, i: int, value: float) -> None:
        self.floats[self.layout.params[i].word] = value  # type: ignore[union-attr]
        self.held[i] = value

    def _set_int(self, i: int, value: int) -> None:
        self.words[self.layout.params[i].word] = int(value) if value < _HALF else int(value) - 2 * _HALF  # type: ignore[union-attr]
        self.held[i] = value

    def _set_object(self, i: int, value: Any) -> None:
        self.held[i] = value

    def bind(self, symbols: tuple[int, ...]) -> None:
        """Set the symbols that are bound on entry. Sizes must then be computed anew."""
        if len(symbols) != self.layout.given:
            raise ValueProblem(f"program: takes {self.layout.given} symbols, got {len(symbols)}")
        start = self.layout.symbol_word
        for i, value in enumerate(symbols):
            self.words[start + i] = value if value < _HALF else value - 2 * _HALF  # a random key may use all 64 bits
        self.symbols = None
        self.values = dict(zip(self.layout.symbols, symbols, strict=False))

    def bind_late(self, word: int, value: int) -> None:
        """Set a symbol that the program itself determined."""
        self.words[word] = value
        self.values[self.layout.symbols[word - self.layout.symbol_word]] = value

    def reserve(self) -> None:
        """Give the arena the size that the plan asks for."""
        if self.arena.reserve(self.words[TOTAL]):
            self.words[ARENA] = self.arena.address

    def borrow_arena(self) -> None:
        """For a call whose sizes are computed: take an arena that programs take turns with."""
        if self.words[TOTAL]:
            self.arena = borrow()
            self.arena.reserve(self.words[TOTAL])
            self.words[ARENA] = self.arena.address

    def give_arena_back(self) -> None:
        """Let other programs use it."""
        if self.arena.size:
            give_back(self.arena)
            self.arena = Arena()

    # ---- arrays
    def hold(self, root: int, value: Array) -> None:
        """Keep an array alive and show native code where it is."""
        self.held[root] = value
        self.words[HEADER + root] = address_of(value)

    def dims(self, slot: TensorSlot) -> tuple[int, ...]:
        """The dims of a tensor, as the plan computed them."""
        return tuple(self.words[slot.dims : slot.dims + slot.ndim])

    def read(self, slot: Slot) -> Any:
        """What a slot holds, for Python to look at."""
        if isinstance(slot, TensorSlot):
            return self.tensor(slot)
        if isinstance(slot, ObjectSlot):
            return self.held[slot.root]
        if slot.kind == "float":
            return self.floats[slot.word]
        number = self.words[slot.word]
        return bool(number) if slot.kind == "bool" else number

    def tensor(self, slot: TensorSlot) -> Array:
        """The array of a slot: one that is held, or a part of the arena."""
        held = self.held[slot.root]
        if slot.dims < 0:
            return held  # type: ignore[no-any-return]
        dtype, dims = dt.by_name(slot.dtype).numpy, self.dims(slot)
        if 0 in dims:  # wherever it would begin
            return np.empty(dims, dtype)
        strides = self._strides(slot, dtype.itemsize)
        start = 0 if slot.offset < 0 else self.words[slot.offset] * dtype.itemsize
        if held is None:
            return self.arena.tensor(self.words[HEADER + slot.root] - self.arena.address + start, dtype, dims, strides)
        if strides is None and start == 0 and held.size == math.prod(dims):  # else its first rows only
            return held.reshape(dims)  # type: ignore[no-any-return]
        view: Array = np.ndarray(dims, dtype, buffer=held.reshape(-1), offset=start, strides=strides)
        return view

    def _strides(self, slot: TensorSlot, itemsize: int) -> tuple[int, ...] | None:
        if slot.strides < 0:
            return None
        return tuple(s * itemsize for s in self.words[slot.strides : slot.strides + slot.ndim])

    def write(self, slot: Slot, value: Any) -> None:
        """Put what Python computed where a slot says; tensors are held as they are."""
        if isinstance(slot, TensorSlot):
            self.hold(slot.root, value)
        elif isinstance(slot, ObjectSlot):
            self.held[slot.root] = value
        elif slot.kind == "float":
            self.floats[slot.word] = float(value)
        else:
            self.words[slot.word] = int(value)

    def release(self, roots: Sequence[int]) -> None:
        """End of a call: let go of `roots` and of inputs that only pass through."""
        held = self.held
        for root in roots:
            held[root] = None
        for i in self._passing:
            held[i] = None
