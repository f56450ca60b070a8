"""Keys with the places that they came from: how they lie in memory, and how they are sorted. All of it is stable.
A row has at most 2**32 elements."""

from __future__ import annotations

from weft.codegen.emit import I8, I32, I64, Function, const, iota, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.orderings.keys import BUCKETS, Keys
from weft.types import dims as dm
from weft.types.dims import Dim
from weft.types.dtype import DType

FEW = 64  # up to so many records each one's place is counted, which is the number of those that come before it
LANES = 8  # records that are compared at a time
_PLACE_BITS = 32
_GREATEST = (1 << 63) - 1
Memory = tuple[Scalar, ...]  # addresses of one array, or of two


def _arrays(dtype: DType) -> int:
    """Keys of 32 bits lie in one word with their place; others in an array beside that of the places."""
    return 2 if dtype.itemsize == 8 else 1


def records_bytes(dtype: DType, capacity: Dim) -> Dim:
    """Bytes of memory for so many records."""
    return _arrays(dtype) * 8 * _whole(capacity)


def counters_bytes(dtype: DType) -> int:
    """Bytes of the counters that sorting needs."""
    return BUCKETS * dtype.itemsize * 4


def _whole(capacity: Dim) -> Dim:
    return LANES * dm.floordiv(capacity + LANES - 1, LANES)


class Records:
    """Reads, writes and sorts records. counters: memory of `counters_bytes`."""

    def __init__(self, f: Function, keys: Keys, counters: Scalar) -> None:
        self.f, self.keys, self.counters = f, keys, counters
        self.is_one_word = _arrays(keys.dtype) == 1

    def memory(self, start: Scalar, capacity: Scalar) -> tuple[Memory, Scalar]:
        """Memory for so many records, and what follows it."""
        f = self.f
        size = f.and_(f.add(capacity, LANES - 1), -LANES)
        first = f.gep(I64, start, size)
        return ((start,), first) if self.is_one_word else ((start, first), f.gep(I64, first, size))

    def put(self, memory: Memory, at: Scalar, key: Scalar, place: Scalar) -> None:
        """Write one record."""
        f = self.f
        if self.is_one_word:
            f.store(self.word(key, place), f.gep(I64, memory[0], at))
            return
        f.store(key, f.gep(I64, memory[0], at))
        f.store(place, f.gep(I64, memory[1], at))

    def put_all(self, memory: Memory, at: Scalar, keys: Scalar, first: Scalar) -> None:
        """Write a vector of keys whose places follow each other, from `first` on."""
        f, lanes = self.f, keys.type.lanes
        places = f.add(iota(I64, lanes), f.splat(first, lanes))
        self.put(memory, at, keys, places)

    def word(self, key: Scalar, place: Scalar) -> Scalar:
        """A key of 32 bits and a place, one or a vector."""
        f = self.f
        return f.or_(f.shl(f.sext(key, place.type), _PLACE_BITS), place)

    def place(self, memory: Memory, at: Scalar) -> Scalar:
        """Where a record came from."""
        f = self.f
        place = f.load(I64, f.gep(I64, memory[-1], at))
        return f.and_(place, (1 << _PLACE_BITS) - 1, "place") if self.is_one_word else place

    def key(self, memory: Memory, at: Scalar) -> Scalar:
        """A record's key."""
        f = self.f
        word = f.load(I64, f.gep(I64, memory[0], at))
        return f.trunc(f.ashr(word, _PLACE_BITS), I32) if self.is_one_word else word

    # ---- sorting
    def sort(self, source: Memory, spare: Memory, count: Scalar) -> tuple[Memory, Memory]:
        """Records in order; (where they are, the other memory)."""
        f = self.f
        with f.if_else(f.icmp("sle", count, FEW), "few") as size:
            with size.then:
                self._sort_by_rank(source, spare, count)
                size.give(*spare, *source)
            with size.otherwise:
                ordered, other = self._sort_by_digits(source, spare, count)
                size.give(*ordered, *other)
        return size.results[: len(source)], size.results[len(source) :]

    def _sort_by_rank(self, source: Memory, target: Memory, count: Scalar) -> None:
        """Each record goes to the place whose number is that of the records before it."""
        f, type = self.f, vec(I64, LANES)
        padded = f.and_(f.add(count, LANES - 1), -LANES)
        with f.loop(count, padded, name="pad") as pad:
            f.store(const(I64, _GREATEST), f.gep(I64, source[0], pad.index))
        with f.loop(0, count, name="record") as record:
            word = f.load(I64, f.gep(I64, source[0], record.index))
            mine, own = f.splat(word, LANES), f.and_(record.index, -LANES, "own")

            def compared(start: Scalar | int, end: Scalar, order: str, before: Scalar, mine: Scalar = mine) -> Scalar:
                with f.loop(start, end, LANES, "other", [(before, "before")]) as other:
                    is_before = f.icmp(order, f.load(type, f.gep(I64, source[0], other.index)), mine)
                    other.next(f.sub(other.carried[0], f.sext(is_before, type)))
                return other.results[0]

            if self.is_one_word:
                before = compared(0, padded, "slt", const(type, 0))
            else:  # equal ones come before it where their place is lower
                before = compared(0, own, "sle", const(type, 0))
                words = f.load(type, f.gep(I64, source[0], own))
                lower = f.icmp("slt", iota(I64, LANES), f.splat(f.sub(record.index, own), LANES))
                is_before = f.or_(f.icmp("slt", words, mine), f.and_(f.icmp("eq", words, mine), lower))
                before = f.sub(before, f.sext(is_before, type))
                before = compared(f.add(own, LANES), padded, "slt", before)
            self._move(source, record.index, target, f.reduce("add", before))

    def _move(self, source: Memory, i: Scalar, target: Memory, j: Scalar) -> None:
        f = self.f
        for a, b in zip(source, target, strict=True):
            f.store(f.load(I64, f.gep(I64, a, i)), f.gep(I64, b, j))

    def _sort_by_digits(self, source: Memory, target: Memory, count: Scalar) -> tuple[Memory, Memory]:
        """By one digit after the other, from the lowest; a digit that all keys share moves nothing."""
        f, keys = self.f, self.keys
        f.memset(self.counters, 0, const(I64, counters_bytes(keys.dtype)))
        with f.loop(0, count, name="count") as loop:
            word = f.load(I64, f.gep(I64, source[0], loop.index))
            for number in range(keys.digits):
                counter = f.gep(I32, self.counters, f.add(self._digit(word, number), BUCKETS * number))
                f.store(f.add(f.load(I32, counter), 1), counter)
        first = f.load(I64, source[0])
        for number in range(keys.digits):
            counters = f.gep(I32, self.counters, BUCKETS * number)
            shared = f.load(I32, f.gep(I32, counters, self._digit(first, number)))
            with f.if_else(f.icmp("eq", f.zext(shared, I64), count), "shared") as digit:
                with digit.then:
                    digit.give(*source, *target)
                with digit.otherwise:
                    self._deal(source, target, count, counters, number)
                    digit.give(*target, *source)
            source, target = digit.results[: len(source)], digit.results[len(source) :]
        return source, target

    def _deal(self, source: Memory, target: Memory, count: Scalar, counters: Scalar, number: int) -> None:
        """Each record to the next place of its digit."""
        f = self.f
        with f.loop(
            0, const(I64, BUCKETS), 2, "bucket", [(const(I32, 0), "start")], trip_at_least_one=True
        ) as bucket:
            cells = [f.gep(I32, counters, f.add(bucket.index, k)) for k in range(2)]
            sizes = [f.load(I32, cell) for cell in cells]
            start = bucket.carried[0]
            f.store(start, cells[0])
            f.store(f.add(start, sizes[0]), cells[1])
            bucket.next(f.add(start, f.add(sizes[0], sizes[1])))
        with f.loop(0, count, name="record") as record:
            words = [f.load(I64, f.gep(I64, a, record.index)) for a in source]
            cell = f.gep(I32, counters, self._digit(words[0], number))
            at = f.load(I32, cell)
            for word, b in zip(words, target, strict=True):
                f.store(word, f.gep(I64, b, f.zext(at, I64)))
            f.store(f.add(at, 1), cell)

    def _digit(self, word: Scalar, number: int) -> Scalar:
        return self.keys.digit(word, number, _PLACE_BITS if self.is_one_word else 0)


def memory_after(f: Function, start: Scalar, size: int) -> Scalar:
    """The memory that follows so many bytes."""
    return f.gep(I8, start, size)
