"""The element of each row at one place of its order: its key digit by digit from the highest, of which only the keys
that share the digits so far are looked at."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.emit import I32, I64, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.orderings.keys import BUCKETS
from weft.codegen.orderings.records import FEW, Records, counters_bytes, memory_after, records_bytes
from weft.codegen.orderings.rows import Row, RowKernel
from weft.types.dims import Dim
from weft.types.dtype import DType

Which = Callable[[RowKernel, Scalar], Scalar]


def select_bytes(dtype: DType, count: Dim) -> Dim:
    """Private memory of emit_select."""
    return counters_bytes(dtype) + 2 * records_bytes(dtype, count)


def kth(kernel: RowKernel, nans: Scalar) -> Scalar:
    """The place that is asked for, which is the last size and counts from 1."""
    return kernel.f.sub(kernel.sizes[-1], 1)


def median(kernel: RowKernel, nans: Scalar) -> Scalar:
    """The lower of the two middle places; the first NaN's where there are any."""
    f = kernel.f
    middle = f.ashr(f.sub(kernel.count, 1), 1)
    return f.select(f.icmp("sgt", nans, 0), f.sub(kernel.count, nans), middle)


def middle_number(kernel: RowKernel, nans: Scalar) -> Scalar:
    """The lower of the two middle places of what is no NaN; the first where nothing else is there."""
    f = kernel.f
    return f.smax(f.ashr(f.sub(f.sub(kernel.count, nans), 1), 1), 0)


def emit_select(kernel: RowKernel, which: Which) -> None:
    """Buffers: rows; an element of each, its place. which: the place in the order, by how many NaN the row has."""
    _Select(kernel, which).emit()


class _Select:
    def __init__(self, kernel: RowKernel, which: Which) -> None:
        self.kernel, self.which, self.f, self.keys = kernel, which, kernel.f, kernel.keys
        self.records = Records(self.f, self.keys, kernel.memory)
        start = memory_after(self.f, kernel.memory, counters_bytes(self.keys.dtype))
        self.source, rest = self.records.memory(start, kernel.count)
        self.spare, _ = self.records.memory(rest, kernel.count)

    def emit(self) -> None:
        self.kernel.emit(self._row)

    def _row(self, row: Row) -> None:
        f, kernel = self.f, self.kernel
        with f.if_else(f.icmp("sle", kernel.count, FEW), "few") as few:
            with few.then:
                kernel.read(row, kernel.count, self.records, self.source)
                at = self.which(kernel, self._count_nan(row))
                ordered, _ = self.records.sort(self.source, self.spare, kernel.count)
                few.give(self.records.place(ordered, at))
            with few.otherwise:
                few.give(self._place_of(row, *self._search(row, self.which(kernel, self._count_nan(row)))))
        kernel.write(row, lambda i: few.results[0], const(I64, 1), (1, 2))

    def _count_nan(self, row: Row) -> Scalar:
        f, kernel, keys = self.f, self.kernel, self.keys
        if not keys.dtype.is_floating_point:
            return const(I64, 0)
        count = const(I64, 0)
        whole = f.and_(kernel.count, -kernel.lanes)
        for start, end, lanes in ((const(I64, 0), whole, kernel.lanes), (whole, kernel.count, 1)):
            with f.loop(start, end, lanes, "nan", [(const(vec(keys.type, lanes), 0), "nans")]) as loop:
                is_nan = keys.is_nan(keys.of(kernel.bits(row, loop.index, lanes)))
                assert is_nan is not None
                loop.next(f.sub(loop.carried[0], f.sext(is_nan, vec(keys.type, lanes))))
            nans = f.reduce("add", loop.results[0]) if lanes > 1 else loop.results[0]
            count = f.add(count, nans if nans.type is I64 else f.zext(nans, I64))
        return count

    def _search(self, row: Row, place: Scalar) -> tuple[Scalar, Scalar]:
        """The key at a place, and the place among those that are equal."""
        f, keys, kernel = self.f, self.keys, self.kernel
        array, lanes = self.source[0], kernel.lanes
        whole = f.and_(kernel.count, -lanes)
        for start, end, width in ((const(I64, 0), whole, lanes), (whole, kernel.count, 1)):
            with f.loop(start, end, width, "key") as loop:
                f.store(keys.of(kernel.bits(row, loop.index, width)), f.gep(keys.type, array, loop.index))
        count = kernel.count
        for number in reversed(range(keys.digits)):
            with f.if_else(f.icmp("sgt", count, 1), "several") as several:
                with several.then:
                    several.give(*self._narrow(array, count, place, number))
                with several.otherwise:
                    several.give(count, place)
            count, place = several.results
        return f.load(keys.type, array), place

    def _narrow(self, array: Scalar, count: Scalar, place: Scalar, number: int) -> tuple[Scalar, Scalar]:
        """Keep the keys that have the digit of the one at a place; how many they are, and the place among them."""
        f, keys, counters = self.f, self.keys, self.records.counters
        f.memset(counters, 0, const(I64, 4 * BUCKETS))
        with f.loop(0, count, name="count") as loop:
            counter = f.gep(I32, counters, keys.digit(f.load(keys.type, f.gep(keys.type, array, loop.index)), number))
            f.store(f.add(f.load(I32, counter), 1), counter)
        with f.while_loop([(const(I64, 0), "bucket"), (place, "place")], "walk") as walk:
            bucket, before = walk.carried
            size = f.zext(f.load(I32, f.gep(I32, counters, bucket)), I64)
            walk.test(f.icmp("sge", before, size))
            walk.next(f.add(bucket, 1), f.sub(before, size))
        bucket, before = walk.results
        with f.loop(0, count, name="keep", carried=[(const(I64, 0), "kept")]) as loop:
            key = f.load(keys.type, f.gep(keys.type, array, loop.index))
            f.store(key, f.gep(keys.type, array, loop.carried[0]))
            is_kept = f.icmp("eq", keys.digit(key, number), bucket)
            loop.next(f.add(loop.carried[0], f.zext(is_kept, I64)))
        return loop.results[0], before

    def _place_of(self, row: Row, key: Scalar, number: Scalar) -> Scalar:
        """Where the element with a key is that has so many equal ones before it."""
        f, keys, kernel = self.f, self.keys, self.kernel
        with f.while_loop([(const(I64, 0), "at"), (number, "left")], "find") as loop:
            at, left = loop.carried
            is_equal = f.icmp("eq", keys.of(kernel.bits(row, at)), key)
            loop.test(f.not_(f.and_(is_equal, f.icmp("eq", left, 0))))
            loop.next(f.add(at, 1), f.sub(left, f.zext(is_equal, I64)))
        return loop.results[0]
