"""Whole rows in order."""

from __future__ import annotations

from weft.codegen.orderings.records import Records, counters_bytes, memory_after, records_bytes
from weft.codegen.orderings.rows import Row, RowKernel
from weft.types.dims import Dim
from weft.types.dtype import DType


def sort_bytes(dtype: DType, count: Dim) -> Dim:
    """Private memory of emit_sort, and of what sorts a row beside."""
    return counters_bytes(dtype) + 2 * records_bytes(dtype, count)


def emit_sort(kernel: RowKernel) -> None:
    """Buffers: rows; elements in order, their places."""
    f, keys, count = kernel.f, kernel.keys, kernel.count
    records = Records(f, keys, kernel.memory)
    source, rest = records.memory(memory_after(f, kernel.memory, counters_bytes(keys.dtype)), count)
    spare, _ = records.memory(rest, count)

    def body(row: Row) -> None:
        kernel.read(row, count, records, source)
        ordered, _ = records.sort(source, spare, count)
        kernel.write(row, lambda i: records.place(ordered, i), count, (1, 2))

    kernel.emit(body)
