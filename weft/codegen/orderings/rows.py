"""The kernel that goes over rows: what its table of integers holds, and how a row is read and its results are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.codegen.emit import I8, I64, PTR, Function, LType, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.orderings.keys import Keys
from weft.codegen.orderings.records import Memory, Records
from weft.codegen.target import Target
from weft.plan.arena import aligned
from weft.types.dims import Dim
from weft.types.dtype import DType


def copy_bytes(dtype: DType, count: Dim) -> Dim:
    """Private memory for the copy of a row whose elements do not follow each other."""
    return aligned(count * dtype.itemsize)


@dataclass(frozen=True)
class Row:
    """One row: its first element, which its others follow, and its number."""

    start: Scalar
    number: Scalar


class RowKernel:
    """Writes the function of a kernel (loops/kernel.py says what it is given) whose parts are rows. Integers: how far
    apart the elements of a row are, how many it has, then `sizes` more. The row is the first buffer, contiguous but for
    that distance; `widths` says how many elements of it each result has (None: as many as the row).

    A row whose elements do not follow each other is copied to the first of the private memory.
    """

    def __init__(self, function: Function, target: Target, keys: Keys, is_adjacent: bool, sizes: int = 0) -> None:
        self.f, self.keys, self.target, self.is_adjacent = function, keys, target, is_adjacent
        f = function
        bufs, table, _, memory, self._begin, self._end = f.params
        self.inner, self.count, *self.sizes = (
            f.load(I64, f.gep(I64, table, i), name="size") for i in range(2 + sizes)
        )
        self.bufs, self.lanes = bufs, max(8, target.lanes(max(4, keys.dtype.itemsize)) * 2)
        self._copy = memory
        room = f.and_(f.add(f.mul(self.count, keys.dtype.itemsize), 63), -64)
        self.memory = memory if is_adjacent else f.gep(I8, memory, room)

    def buffer(self, number: int) -> Scalar:
        """A buffer's address."""
        return self.f.load(PTR, self.f.gep(PTR, self.bufs, number))

    def emit(self, body: Callable[[Row], None]) -> None:
        """The whole function."""
        f = self.f
        source = self.buffer(0)
        with f.loop(self._begin, self._end, name="row") as part:
            start = f.gep(self.keys.elem, source, self.first(part.index, self.count))
            if not self.is_adjacent:
                with f.loop(0, self.count, name="copy") as loop:
                    bits = f.load(self.keys.elem, f.gep(self.keys.elem, start, f.mul(loop.index, self.inner)))
                    f.store(bits, f.gep(self.keys.elem, self._copy, loop.index))
                start = self._copy
            body(Row(start, part.index))
        f.ret(const(I64, 0))

    def first(self, row: Scalar, count: Scalar) -> Scalar:
        """The number of a row's first element in a buffer whose rows have `count` elements."""
        f = self.f
        if self.is_adjacent:
            return f.mul(row, count)
        outer = f.udiv(row, self.inner)
        rest = f.sub(row, f.mul(outer, self.inner))
        return f.add(f.mul(outer, f.mul(count, self.inner)), rest)

    def step(self, index: Scalar) -> Scalar:
        """How far a row's element is from its first one, in a buffer."""
        return index if self.is_adjacent else self.f.mul(index, self.inner)

    def bits(self, row: Row, place: Scalar, lanes: int = 0) -> Scalar:
        """An element of a row, or so many that follow each other."""
        elem = self.keys.elem
        return self.f.load(vec(elem, lanes), self.f.gep(elem, row.start, place))

    def read(self, row: Row, count: Scalar, records: Records, memory: Memory) -> None:
        """The records of the first `count` elements."""
        f, keys, lanes = self.f, self.keys, self.lanes
        whole = f.and_(count, -lanes)
        with f.loop(0, whole, lanes, "keys") as loop:
            records.put_all(memory, loop.index, keys.of(self.bits(row, loop.index, lanes)), loop.index)
        with f.loop(whole, count, name="key") as loop:
            records.put(memory, loop.index, keys.of(self.bits(row, loop.index)), loop.index)

    def write(self, row: Row, places: Callable[[Scalar], Scalar], count: Scalar, buffers: Sequence[int]) -> None:
        """Elements and their places, to a row of each of two buffers. places: of the elements, by their order."""
        f, elem = self.f, self.keys.elem
        start = self.first(row.number, count)
        kinds: tuple[LType, ...] = (elem, I64)
        values, indices = (f.gep(k, self.buffer(b), start) for k, b in zip(kinds, buffers, strict=True))
        with f.loop(0, count, name="element") as loop:
            place = places(loop.index)
            at = self.step(loop.index)
            f.store(self.bits(row, place), f.gep(elem, values, at))
            f.store(place, f.gep(I64, indices, at))
