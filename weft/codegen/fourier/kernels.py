"""Kernels of Fourier transforms: of complex signals both ways; of real signals of even length, whose pairs are a
complex signal of half the length; and back from their half spectra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.codegen.emit import F64, I64, PTR, Function, Value, const
from weft.codegen.fourier.memory import Moves, Signals
from weft.codegen.fourier.stages import Lanes, Writer
from weft.codegen.fourier.transform import Transform, by_factors, emit_size, greatest_size, tables_at
from weft.types import dims as dm
from weft.types.dims import Dim

# length      complex elements that are transformed
# side        signals that go side by side
# signals     in each of the `outer` groups: rows, or the columns of a dim that is not the last one
# blocks      parts of a group
# read, written   elements of a signal, as they lie
# inverse     1 for the inverse transform
# divisor     the scale is 1 over it, or over its root where `is_root` is 1
INTS = ("length", "side", "signals", "blocks", "read", "written", "inverse", "divisor", "is_root")
SIDE = 16  # signals side by side at most, on all machines
SQUARE = 4  # or a multiple of so many (memory.py turns squares), or one
SIDE_ELEMENTS = 1 << 15  # of all these signals: both arrays of float32 are half a megabyte


@dataclass(frozen=True)
class Kind:
    """reads, writes: "complex" or "real" memory. are_rows: whether signals lie along the last dim."""

    reads: str
    writes: str
    are_rows: bool


def side_of(length: Dim, signals: Dim) -> Dim:
    """How many signals go side by side."""
    fitting = SQUARE * dm.floordiv(SIDE_ELEMENTS // SQUARE, dm.maximum(1, length))
    return dm.maximum(1, dm.minimum(dm.minimum(SIDE, signals), fitting))


def private_elements(length: Dim, side: Dim) -> Dim:
    """Elements of private memory: two arrays of both parts, with a square's rows behind."""
    return 4 * _array(length, side)


def _array(length: Dim, side: Dim) -> Dim:
    return (greatest_size(length) + 1 + SIDE) * side


def emit_fourier(f: Function, writer: Writer, kind: Kind) -> None:
    """Write the kernel: buffers are the signals, the table, the results; integers INTS and the elements of an array. A
    part is a block of signals."""
    _Kernel(f, writer, kind).emit()


class _Kernel:
    def __init__(self, f: Function, writer: Writer, kind: Kind) -> None:
        factors = by_factors(writer)
        self.f, self.kind = f, kind
        self.v = Lanes(f, writer.elem, writer.target)
        self.moves = Moves(self.v)
        bufs, table, _, scratch, self.begin, self.end = f.params
        self.ints = {name: f.load(I64, f.gep(I64, table, i), name=name) for i, name in enumerate((*INTS, "array"))}
        self.source, roots, self.result = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(3))
        self.length = self.ints["length"]
        size = emit_size(f, self.length)
        self.tables = tables_at(self.v, roots, self.length, size)
        self.transform = Transform(self.v, factors, self.tables, self.length, size)
        arrays = [self.v.at(scratch, f.mul(self.ints["array"], k)) for k in range(4)]
        self.x, self.y = (arrays[0], arrays[1]), (arrays[2], arrays[3])
        self.scale = self._scale()

    def _scale(self) -> Value:
        f = self.f
        divisor = f.sitofp(self.ints["divisor"], F64)
        divisor = f.select(f.icmp("ne", self.ints["is_root"], 0), f.intrinsic("sqrt", divisor, result=F64), divisor)
        scale = f.fdiv(const(F64, 1.0), divisor)
        return scale if self.v.elem is F64 else f.fptrunc(scale, self.v.elem)

    def emit(self) -> None:
        """The whole function."""
        f, ints = self.f, self.ints
        with f.loop(self.begin, self.end, name="part") as part:
            group, block = f.udiv(part.index, ints["blocks"]), f.urem(part.index, ints["blocks"])
            first = f.mul(block, ints["side"])
            count = f.smin(ints["side"], f.sub(ints["signals"], first))
            self._read(group, first, count)
            if self.kind.writes == "real":
                self._from_half(count)
            is_inverse = f.icmp("ne", ints["inverse"], 0)
            x, y = (self._exchanged(is_inverse, pair) for pair in (self._now(), self._other()))
            real, imag, free, other = self.transform.run(x, y, count)
            result, rest = self._exchanged(is_inverse, (real, imag)), (free, other)
            if self.kind.reads == "real":
                self._to_half(result, rest, count)
                result = rest
            self._write(group, first, count, result)
        f.ret(const(I64, 0))

    def _now(self) -> tuple[Value, Value]:
        return self.y if self.kind.writes == "real" else self.x

    def _other(self) -> tuple[Value, Value]:
        return self.x if self.kind.writes == "real" else self.y

    def _exchanged(self, condition: Value, pair: tuple[Value, Value]) -> tuple[Value, Value]:
        a, b = pair
        return self.f.select(condition, b, a), self.f.select(condition, a, b)

    # ---- memory
    def _place(self, base: Value, elements: Value, is_complex: bool, group: Value, first: Value) -> Value:
        """Where a block's first signal begins; elements: of one signal."""
        f, signals = self.f, self.ints["signals"]
        before = f.mul(group, f.mul(elements, signals))
        at = f.add(before, f.mul(first, elements) if self.kind.are_rows else first)
        return self.v.at(base, f.mul(at, 2) if is_complex else at)

    def _read(self, group: Value, first: Value, count: Value) -> None:
        f, elements, is_complex = self.f, self.ints["read"], self.kind.reads == "complex"
        numbers = f.mul(elements, 2) if is_complex else elements
        pairs = f.add(self.length, 1) if self.kind.writes == "real" else self.length
        place = self._place(self.source, elements, is_complex, group, first)
        signals = Signals(place, count, numbers)
        moves = self.moves

        def as_column(inner: Value) -> None:
            moves.read_columns(signals, f.mul(inner, 2) if is_complex else inner, self.x, pairs, is_complex)

        self._moved(count, as_column, lambda: moves.read_rows(signals, numbers, self.x, pairs))

    def _write(self, group: Value, first: Value, count: Value, result: tuple[Value, Value]) -> None:
        f, elements, is_complex = self.f, self.ints["written"], self.kind.writes == "complex"
        numbers = f.mul(elements, 2) if is_complex else elements
        pairs = elements if is_complex else self.length
        signals = Signals(self._place(self.result, elements, is_complex, group, first), count, numbers)
        moves = self.moves

        def as_column(inner: Value) -> None:
            inner = f.mul(inner, 2) if is_complex else inner
            moves.write_columns(signals, inner, result, pairs, self.scale, is_complex)

        self._moved(count, as_column, lambda: moves.write_rows(signals, numbers, result, pairs, self.scale))

    def _moved(self, count: Value, as_column: Callable[[Value], None], as_rows: Callable[[], None]) -> None:
        """as_column(numbers from one element to the next), also of a row that is alone; else as_rows()."""
        if not self.kind.are_rows:
            as_column(self.ints["signals"])
            return
        with self.f.if_else(self.f.icmp("eq", count, 1), "alone") as how:
            with how.then:
                as_column(const(I64, 1))
            with how.otherwise:
                as_rows()

    # ---- real signals
    def _to_half(self, z: tuple[Value, Value], to: tuple[Value, Value], count: Value) -> None:
        """The spectrum of a real signal from that of its pairs: X_k = E_k + w**k O_k, where Z = E + i O and the spectra
        E and O of every second element are symmetric."""
        f, v, m = self.f, self.v, self.v.math
        with f.loop(0, f.add(self.length, 1), name="k") as k:
            here = f.mul(f.select(f.icmp("eq", k.index, self.length), f.sub(k.index, self.length), k.index), count)
            back = f.sub(self.length, k.index)
            there = f.mul(f.select(f.icmp("eq", k.index, 0), k.index, back), count)
            root = self._root(k.index)

            def join(q: Value, lanes: int) -> None:
                a, b = ([v.load(part, f.add(at, q), lanes) for part in z] for at in (here, there))
                even = m.mul(m.add(a[0], b[0]), 0.5), m.mul(m.sub(a[1], b[1]), 0.5)
                odd = m.mul(m.add(a[1], b[1]), 0.5), m.mul(m.sub(b[0], a[0]), 0.5)
                turned = v.times(odd, (v.everywhere(root[0], lanes), v.everywhere(root[1], lanes)))
                for e, t, base in zip(even, turned, to, strict=True):
                    v.store(m.add(e, t), base, f.add(f.mul(k.index, count), q))

            v.over(count, join)
        self._clear_ends(to, count)

    def _clear_ends(self, spectrum: tuple[Value, Value], count: Value) -> None:
        """The first and the last frequency of a real signal have no imaginary part, and no rounding of one."""
        f, v = self.f, self.v
        for k in (const(I64, 0), self.length):
            f.memset(v.at(spectrum[1], f.mul(k, count)), 0, f.mul(count, v.elem.bytes))

    def _from_half(self, count: Value) -> None:
        """The spectrum of the pairs of a real signal, from x into y: twice what `_to_half` begins with, as sums over
        half as many elements ask."""
        f, v, m = self.f, self.v, self.v.math
        self._clear_ends(self.x, count)
        with f.loop(0, self.length, name="k") as k:
            here, there = f.mul(k.index, count), f.mul(f.sub(self.length, k.index), count)
            cosine, sine = self._root(k.index)

            def part(q: Value, lanes: int) -> None:
                root = v.everywhere(cosine, lanes), m.neg(v.everywhere(sine, lanes))
                a, b = ([v.load(part, f.add(at, q), lanes) for part in self.x] for at in (here, there))
                even = m.add(a[0], b[0]), m.sub(a[1], b[1])
                odd = v.times((m.sub(a[0], b[0]), m.add(a[1], b[1])), root)
                v.store(m.sub(even[0], odd[1]), self.y[0], f.add(here, q))
                v.store(m.add(even[1], odd[0]), self.y[1], f.add(here, q))

            v.over(count, part)

    def _root(self, k: Value) -> tuple[Value, Value]:
        v, halves = self.v, self.tables.halves
        return v.element(halves, k), v.element(v.at(halves, self.f.add(self.length, 1)), k)
