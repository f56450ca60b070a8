"""The first elements of rows in order. What may be among them is gathered; where that becomes much, it is sorted, and
the last element that may still be among them is a bound for those to come."""

from __future__ import annotations

from weft.codegen.emit import I1, I8, I16, I32, I64, LType, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.orderings.records import Memory, Records, counters_bytes, memory_after, records_bytes
from weft.codegen.orderings.rows import Row, RowKernel
from weft.types import dims as dm
from weft.types.dims import Dim
from weft.types.dtype import DType

LANES = 32  # that a vector has at most
_MASKS: dict[int, LType] = {8: I8, 16: I16, 32: I32}


def top_bytes(dtype: DType, wanted: Dim) -> Dim:
    """Private memory of emit_top."""
    return counters_bytes(dtype) + 2 * records_bytes(dtype, wanted + dm.maximum(2 * wanted, LANES))


def emit_top(kernel: RowKernel) -> None:
    """Buffers: rows; the first elements in order, their places. Sizes: how many are asked for."""
    _Top(kernel).emit()


class _Top:
    """State of the loop over a row: the records so far and how many they are, spare memory, the bound's key."""

    def __init__(self, kernel: RowKernel) -> None:
        self.kernel, self.f, self.keys = kernel, kernel.f, kernel.keys
        f = self.f
        (self.wanted,) = kernel.sizes
        self.records = Records(f, self.keys, kernel.memory)
        self.capacity = f.add(self.wanted, f.smax(f.mul(self.wanted, 2), kernel.lanes), "capacity")
        start = memory_after(f, kernel.memory, counters_bytes(self.keys.dtype))
        self.first, rest = self.records.memory(start, self.capacity)
        self.second, _ = self.records.memory(rest, self.capacity)

    def emit(self) -> None:
        f = self.f
        with f.if_(f.icmp("sgt", self.wanted, 0), "any"):
            self.kernel.emit(self._row)
        f.ret(const(I64, 0))

    def _row(self, row: Row) -> None:
        f, kernel, records = self.f, self.kernel, self.records
        head = f.smin(kernel.count, self.capacity)
        kernel.read(row, head, records, self.first)
        with f.if_else(f.icmp("sgt", kernel.count, head), "more") as more:
            with more.then:
                more.give(*self._rest(row, head))
            with more.otherwise:
                more.give(*self.first, *self.second, head)
        memory, spare, count = self._state(more.results)
        ordered, _ = records.sort(memory, spare, count)
        kernel.write(row, lambda i: records.place(ordered, i), self.wanted, (1, 2))

    def _state(self, values: tuple[Scalar, ...]) -> tuple[Memory, Memory, Scalar]:
        width = len(self.first)
        return values[:width], values[width : 2 * width], values[2 * width]

    def _shrunk(self, memory: Memory, spare: Memory, count: Scalar) -> tuple[Scalar, ...]:
        """The state with the records in order, cut to those that are asked for."""
        ordered, other = self.records.sort(memory, spare, count)
        return (*ordered, *other, self.wanted, self.records.key(ordered, self.f.sub(self.wanted, 1)))

    def _rest(self, row: Row, head: Scalar) -> tuple[Scalar, ...]:
        """The records among which the first ones are, after the elements from `head` on: whole vectors, then others."""
        f, kernel, lanes = self.f, self.kernel, self.kernel.lanes
        state = self._shrunk(self.first, self.second, head)
        whole = f.add(head, f.and_(f.sub(kernel.count, head), -lanes), "whole")
        for start, end, width in ((head, whole, lanes), (whole, kernel.count, 1)):
            with f.loop(start, end, width, "vector", [(v, "state") for v in state]) as loop:
                loop.next(*self._vector(row, loop.index, width, loop.carried))
            state = loop.results
        return state[:-1]

    def _vector(self, row: Row, index: Scalar, lanes: int, state: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        f = self.f
        keys = self.keys.of(self.kernel.bits(row, index, lanes))
        is_before = f.icmp("slt", keys, f.splat(state[-1], lanes))
        bits = is_before if lanes == 1 else f.bitcast(is_before, _MASKS[lanes])
        with f.if_else(f.icmp("ne", bits, 0), "candidates") as some:
            with some.then:
                memory, spare, count = self._state(state)
                count = self._gather(row, index, bits, memory, count)
                is_full = f.icmp("sgt", f.add(count, self.kernel.lanes), self.capacity)
                with f.if_else(is_full, "full") as full:
                    with full.then:
                        full.give(*self._shrunk(memory, spare, count))
                    with full.otherwise:
                        full.give(*memory, *spare, count, state[-1])
                some.give(*full.results)
            with some.otherwise:
                some.give(*state)
        return some.results

    def _gather(self, row: Row, index: Scalar, bits: Scalar, memory: Memory, count: Scalar) -> Scalar:
        """Records of the lanes whose bits are set, after the `count` there are; how many there are then."""
        f = self.f
        if bits.type is I1:
            self._put(row, index, memory, count)
            return f.add(count, 1)
        with f.while_loop([(bits, "bits"), (count, "count")], "candidate") as loop:
            bits, count = loop.carried
            loop.test(f.icmp("ne", bits, 0))
            lane = f.intrinsic("cttz", bits, const(I1, 1), overloads=[bits.type])
            self._put(row, f.add(index, f.zext(lane, I64)), memory, count)
            loop.next(f.and_(bits, f.sub(bits, 1)), f.add(count, 1))
        return loop.results[1]

    def _put(self, row: Row, place: Scalar, memory: Memory, count: Scalar) -> None:
        self.records.put(memory, count, self.keys.of(self.kernel.bits(row, place)), place)
