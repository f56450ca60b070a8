"""Signals on their way between memory and a transform's private arrays, where element k of signal q is at
k * side + q: real and imaginary parts apart.

Pairs are what memory holds: complex numbers, or two real numbers that follow each other in a signal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.codegen.emit import I64, LType, Value, const, vec
from weft.codegen.fourier.stages import Lanes

Parts = tuple[Value, Value]
RUN = 32  # pairs: some cache lines


@dataclass(frozen=True)
class Signals:
    """Some signals in memory: where the first begins, how many, and how many numbers (real and imaginary parts count
    one each) of them there are to read or to write."""

    start: Value
    count: Value
    numbers: Value


class Moves:
    """Writes loops that move signals."""

    def __init__(self, v: Lanes) -> None:
        self.v, self.f = v, v.f
        self.square = v.lanes // 2  # signals and pairs that are turned at a time
        self.whole, self.half = v.type, vec(v.elem, self.square)

    # ---- signals as rows: a square at a time, turned
    def read_rows(self, rows: Signals, stride: Value, to: Parts, pairs: Value) -> None:
        """So many pairs of signals that are `stride` numbers apart; zeros where memory has no more."""
        f, v, n = self.f, self.v, self.square

        def square(first: Value, k: Value, is_whole: bool) -> None:
            mask = None if is_whole else f.first_lanes(f.sub(rows.numbers, f.mul(k, 2)), 2 * n)
            present = None if is_whole else f.first_lanes(f.sub(rows.count, first), n)
            last = f.sub(rows.count, 1)
            lines = []
            for i in range(n):
                row = f.add(first, i) if is_whole else f.smin(f.add(first, i), last)
                lines.append(self._load(self.whole, v.at(rows.start, f.add(f.mul(row, stride), f.mul(k, 2))), mask))
            for i, line in enumerate(self._turned(lines)):
                at = f.add(f.mul(f.add(k, i), rows.count), first)
                for part, base in enumerate(to):
                    self._store(self._half(line, part), v.at(base, at), present)

        self._squares(rows, pairs, square)

    def write_rows(self, rows: Signals, stride: Value, source: Parts, pairs: Value, scale: Value) -> None:
        """So many pairs of signals, times a number."""
        f, v, n = self.f, self.v, self.square
        factor = f.splat(scale, n)

        def square(first: Value, k: Value, is_whole: bool) -> None:
            present = None if is_whole else f.first_lanes(f.sub(rows.count, first), n)
            lines = []
            for i in range(n):
                at = f.add(f.mul(f.add(k, i), rows.count), first)
                real, imag = (f.fmul(self._load(self.half, v.at(s, at), present), factor) for s in source)
                lines.append(f.shufflevector(real, imag, [j // 2 + j % 2 * n for j in range(2 * n)]))
            for i, line in enumerate(self._turned(lines)):
                row = f.add(first, i)
                at = f.add(f.mul(row, stride), f.mul(k, 2))
                left = f.select(f.icmp("slt", row, rows.count), f.sub(rows.numbers, f.mul(k, 2)), 0)
                self._store(line, v.at(rows.start, at), None if is_whole else f.first_lanes(left, 2 * n))

        self._squares(rows, pairs, square)

    def _load(self, type: LType, at: Value, mask: Value | None) -> Value:
        return self.f.load(type, at) if mask is None else self.f.masked_load(type, at, mask)

    def _store(self, x: Value, at: Value, mask: Value | None) -> None:
        if mask is None:
            self.f.store(x, at)
        else:
            self.f.masked_store(x, at, mask)

    def _squares(self, rows: Signals, pairs: Value, body: Callable[[Value, Value, bool], None]) -> None:
        """body(first signal, pair, is_whole) for each square; is_whole: whether all of it exists. (Masked stores are
        slow on some machines.) A run of pairs of some signals before the next ones: signals whose length is a power of
        two share the same few places of the first-level cache."""
        f, n = self.f, self.square
        with f.loop(0, pairs, RUN, "run") as run, f.loop(0, rows.count, n, "signal") as first:
            has_rows = f.icmp("sle", f.add(first.index, n), rows.count)
            with f.loop(run.index, f.smin(f.add(run.index, RUN), pairs), n, "pair") as k:
                has_pairs = f.icmp("sle", f.mul(f.add(k.index, n), 2), rows.numbers)
                with f.if_else(f.and_(has_pairs, has_rows), "square") as how:
                    with how.then:
                        body(first.index, k.index, True)
                    with how.otherwise:
                        body(first.index, k.index, False)

    def _half(self, line: Value, part: int) -> Value:
        """The real or the imaginary parts of pairs."""
        return self.f.shufflevector(line, None, range(part, 2 * self.square, 2))

    def _turned(self, lines: list[Value]) -> list[Value]:
        """The columns of a square of pairs (see lower/scan.py, where elements are single)."""
        side = len(lines)
        half = side // 2
        low = [i // 2 + i % 2 * side for i in range(side)]
        high = [i + half for i in low]
        picks = [[2 * i + j for i in pairs for j in range(2)] for pairs in (low, high)]
        for _ in range(side.bit_length() - 1):
            pairs = [(lines[i], lines[i + half]) for i in range(half)]
            lines = [self.f.shufflevector(a, b, pick) for a, b in pairs for pick in picks]
        return lines

    # ---- signals as columns
    def read_columns(self, columns: Signals, inner: Value, to: Parts, pairs: Value, is_complex: bool) -> None:
        """Pairs are complex numbers `inner` numbers apart, or real numbers below each other; zeros where memory has no
        more."""
        f, v = self.f, self.v
        present = f.smin(f.udiv(columns.numbers, 2), pairs)

        def read(k: Value, has_both: bool) -> None:
            row = f.mul(k, f.mul(inner, 1 if is_complex else 2))
            start = f.mul(k, columns.count)

            def move(q: Value, lanes: int) -> None:
                parts = self._pair(columns.start, row, inner, q, lanes, is_complex, has_both)
                for part, base in zip(parts, to, strict=True):
                    v.store(part, base, f.add(start, q))

            v.over(columns.count, move)

        with f.loop(0, present, name="k") as k:
            read(k.index, True)
        if not is_complex:  # a last number that stands alone
            is_single = f.and_(f.icmp("slt", present, pairs), f.icmp("ne", f.and_(columns.numbers, 1), 0))
            with f.if_(is_single, "single"):
                read(present, False)
            present = f.add(present, f.zext(is_single, I64))
        size = f.mul(f.mul(f.sub(pairs, present), columns.count), v.elem.bytes)
        for base in to:
            f.memset(v.at(base, f.mul(present, columns.count)), 0, size)

    def _pair(
        self, start: Value, row: Value, inner: Value, q: Value, n: int, is_complex: bool, has_both: bool
    ) -> Parts:
        f, v = self.f, self.v
        if not is_complex:
            real = v.load(start, f.add(row, q), n)
            return real, v.load(start, f.add(f.add(row, inner), q), n) if has_both else const(real.type, 0.0)
        at = f.add(row, f.mul(q, 2))
        low, high = v.load(start, at, n), v.load(start, f.add(at, n), n)
        if n == 1:
            return low, high
        return f.shufflevector(low, high, range(0, 2 * n, 2)), f.shufflevector(low, high, range(1, 2 * n, 2))

    def write_columns(
        self, columns: Signals, inner: Value, source: Parts, pairs: Value, scale: Value, is_complex: bool
    ) -> None:
        """The same the other way, times a number."""
        f, v = self.f, self.v
        with f.loop(0, pairs, name="k") as k:
            row = f.mul(k.index, f.mul(inner, 1 if is_complex else 2))
            start = f.mul(k.index, columns.count)

            def move(q: Value, n: int) -> None:
                factor = v.everywhere(scale, n)
                real, imag = (f.fmul(v.load(s, f.add(start, q), n), factor) for s in source)
                parts = [real, imag]
                if is_complex and n > 1:
                    picks = [[(i + j * n) // 2 + i % 2 * n for i in range(n)] for j in range(2)]
                    parts = [f.shufflevector(real, imag, pick) for pick in picks]
                for j, part in enumerate(parts):
                    step, width = (2, j * n) if is_complex else (1, f.mul(inner, j))
                    v.store(part, columns.start, f.add(f.add(row, f.mul(q, step)), width))

            v.over(columns.count, move)
