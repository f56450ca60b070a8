"""The most frequent element of each row: the longest run of equal elements once the row is in order."""

from __future__ import annotations

from weft.codegen.emit import I64, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.orderings.records import Memory, Records, counters_bytes, memory_after
from weft.codegen.orderings.rows import Row, RowKernel


def emit_mode(kernel: RowKernel) -> None:
    """Buffers: rows; the element of each, the place of its last occurrence. Of several the least; NaN are no run."""
    f, keys, count = kernel.f, kernel.keys, kernel.count
    records = Records(f, keys, kernel.memory)
    source, rest = records.memory(memory_after(f, kernel.memory, counters_bytes(keys.dtype)), count)
    spare, _ = records.memory(rest, count)

    def body(row: Row) -> None:
        kernel.read(row, count, records, source)
        ordered, _ = records.sort(source, spare, count)
        last = _end_of_longest(kernel, records, ordered)
        place = records.place(ordered, last)
        kernel.write(row, lambda i: place, const(I64, 1), (1, 2))

    kernel.emit(body)


def _end_of_longest(kernel: RowKernel, records: Records, ordered: Memory) -> Scalar:
    """The number of the last record of the longest run, the first of several."""
    f, zero = kernel.f, const(I64, 0)
    first = records.key(ordered, zero)
    with f.loop(1, kernel.count, name="record", carried=[
        (first, "before"), (zero, "length"), (zero, "longest"), (zero, "last")
    ]) as loop:
        before, length, longest, last = loop.carried
        key = records.key(ordered, loop.index)
        goes_on, is_nan = f.icmp("eq", key, before), kernel.keys.is_nan(key)
        if is_nan is not None:
            goes_on = f.and_(goes_on, f.not_(is_nan))
        length = f.select(goes_on, f.add(length, 1), 0)
        is_longer = f.icmp("sgt", length, longest)
        loop.next(key, length, f.select(is_longer, length, longest), f.select(is_longer, loop.index, last))
    return loop.results[3]
