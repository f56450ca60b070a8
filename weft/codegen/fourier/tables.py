"""The tables of a transform: roots of unity, each from an angle of at most an eighth turn, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.codegen.emit import F64, I64, PTR, Function, Value, const, iota
from weft.codegen.fourier.stages import Lanes, Writer
from weft.codegen.fourier.transform import by_factors, emit_size, tables_at
from weft.codegen.math import trigonometry
from weft.codegen.math.core import FloatMath

INTS = ("length", "is_halved")  # is_halved: whether real signals of twice the length are transformed

def emit_tables(f: Function, writer: Writer) -> None:
    """Write the kernel: one buffer, the table; integers INTS; private memory of four times the size."""
    factors = by_factors(writer)
    bufs, ints, _, scratch, _, _ = f.params
    length, is_halved = (f.load(I64, f.gep(I64, ints, i), name=name) for i, name in enumerate(INTS))
    table = f.load(PTR, bufs)
    v = Lanes(f, writer.elem, writer.target)
    size = emit_size(f, length)
    tables = tables_at(v, table, length, size)
    roots = _Roots(v, writer)
    roots.write(tables.roots, size, size, lambda k: k)
    with f.if_(f.icmp("ne", is_halved, 0), "halves"):
        roots.write(tables.halves, f.add(length, 1), f.mul(length, 2), lambda k: k)
    with f.if_(f.icmp("ne", size, length), "chirps"):
        roots.write(tables.chirp, length, f.mul(length, 2), roots.squared)
        _conjugates(v, tables.chirp, scratch, length, size)
        x = [v.at(scratch, f.mul(size, k)) for k in range(4)]
        is_in_y = f.call(factors, [*x, tables.roots, size, const(I64, 1)])
        result = f.select(f.icmp("ne", is_in_y, 0), x[2], x[0])  # (the parts follow each other)
        f.memcpy(tables.kernel, result, f.mul(size, 2 * writer.elem.bytes))
    f.ret(const(I64, 0))

class _Roots:
    """Writes roots of unity, eight at a time on the widest machine."""

    def __init__(self, v: Lanes, writer: Writer) -> None:
        self.v, self.f, self.lanes = v, v.f, writer.target.lanes(F64.bytes)
        self.math = FloatMath(v.f, writer.target.has_fma, writer.target.has_scale)

    def squared(self, k: Value) -> Value:
        """k**2 less whole multiples of `period`, which change nothing."""
        m = self.math
        square = m.mul(k, k)
        return m.sub(square, m.mul(m.floor(m.div(square, self.period)), self.period))

    def write(self, to: Value, count: Value, period: Value, number: Callable[[Value], Value]) -> None:
        """exp(-2 pi i number(k) / period) for k below count: cosines, then sines."""
        f, v, m, lanes = self.f, self.v, self.math, self.lanes
        self.period = f.splat(f.sitofp(period, F64), lanes)
        sines = v.at(to, count)
        with f.loop(0, count, lanes, "root") as loop:
            k = f.sitofp(f.add(f.splat(loop.index, lanes), iota(I64, lanes)), F64)
            quarters = m.mul(number(k), 4.0)
            quadrants = m.floor(m.add(m.div(quarters, self.period), 0.5))
            rest = m.sub(quarters, m.mul(quadrants, self.period))  # exact, as all these are whole numbers
            angle = m.mul(m.div(rest, self.period), math.pi / 2)
            cosine, sine = trigonometry.near_zero(m, angle)
            quadrant = f.fptosi(quadrants, I64)
            is_odd = f.icmp("ne", f.and_(quadrant, 1), 0)
            cosine, sine = f.select(is_odd, m.neg(sine), cosine), f.select(is_odd, cosine, sine)
            is_back = f.icmp("ne", f.and_(quadrant, 2), 0)
            mask = f.first_lanes(f.sub(count, loop.index), lanes)
            for x, base in ((cosine, to), (m.neg(sine), sines)):
                x = f.select(is_back, m.neg(x), x)
                x = x if v.elem is F64 else f.fptrunc(x, v.elem)
                f.masked_store(x, v.at(base, loop.index), mask)

def _conjugates(v: Lanes, chirp: Value, to: Value, length: Value, size: Value) -> None:
    """The conjugate of the chirp forwards and backwards from 0, divided by the size, and zeros in between."""
    f, m = v.f, v.math
    f.memset(to, 0, f.mul(size, 2 * v.elem.bytes))
    share = f.fdiv(const(v.elem, 1.0), f.sitofp(size, v.elem))
    imaginary, sines = v.at(to, size), v.at(chirp, length)
    with f.loop(0, length, name="k") as k:
        real = m.mul(f.load(v.elem, v.at(chirp, k.index)), share)
        imag = m.neg(m.mul(f.load(v.elem, v.at(sines, k.index)), share))
        back = f.select(f.icmp("eq", k.index, 0), const(I64, 0), f.sub(size, k.index))
        for at in (k.index, back):
            f.store(real, v.at(to, at))
            f.store(imag, v.at(imaginary, at))
