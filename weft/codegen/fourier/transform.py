"""Transforms of any length, of signals side by side in private memory."""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.emit import I64, PTR, Function, Signature, Value, const
from weft.codegen.fourier.stages import FACTORS, Lanes, Writer, stage
from weft.types.dims import Dim

MOST_OF_BOUND = 4  # what `size_of` exceeds no length by, as a factor


def size_of(length: int) -> int:
    """How many elements are transformed by factors: the length, or where it has another prime factor, a power of two
    that is at least twice as long. Source: Bluestein (1970)."""
    rest = length
    for factor in (2, 3, 5, 7):
        while rest > 1 and rest % factor == 0:
            rest //= factor
    return length if rest <= 1 else 1 << (2 * length - 2).bit_length()


def greatest_size(length: Dim) -> Dim:
    """A bound of `size_of`, its value where the length is known."""
    return size_of(length) if type(length) is int else length * MOST_OF_BOUND


@dataclass(frozen=True)
class Tables:
    """Where the parts of the table of a transform of a length lie, in elements.

    roots     cosines, then sines of exp(-2 pi i k / size)
    halves    the same of exp(-2 pi i k / (2 length)), k up to length: for real signals of twice the length
    chirp     the same of exp(-pi i k**2 / length)
    kernel    the transform of the chirp's conjugate, divided by the size; with the chirp only if size is not length
    """

    roots: Value
    halves: Value
    chirp: Value
    kernel: Value


def table_elements(length: Dim) -> Dim:
    """How many elements all parts have."""
    size = greatest_size(length)
    chirps = 0 if type(length) is int and size == length else 2 * length + 2 * size
    return 2 * size + 2 * (length + 1) + chirps


def tables_at(v: Lanes, base: Value, length: Value, size: Value) -> Tables:
    """The parts of a table."""
    f = v.f
    halves = f.mul(size, 2)
    chirp = f.add(halves, f.add(f.mul(length, 2), 2))
    kernel = f.add(chirp, f.mul(length, 2))
    return Tables(base, *(v.at(base, start) for start in (halves, chirp, kernel)))


def emit_size(f: Function, length: Value) -> Value:
    """`size_of` of a length, as it runs."""
    rest = length
    for factor in (2, 3, 5, 7):
        with f.while_loop([(rest, "rest")], f"by_{factor}") as loop:
            (left,) = loop.carried
            loop.test(f.and_(f.icmp("sgt", left, 1), f.icmp("eq", f.urem(left, factor), 0)))
            loop.next(f.udiv(left, factor))
        rest = loop.carried[0]
    with f.while_loop([(const(I64, 1), "power")], "power") as loop:
        (power,) = loop.carried
        loop.test(f.icmp("slt", power, f.sub(f.mul(length, 2), 1)))
        loop.next(f.mul(power, 2))
    return f.select(f.icmp("sle", rest, 1), length, loop.carried[0], "size")


_PARAMETERS = (
    (PTR, "x_real"), (PTR, "x_imag"), (PTR, "y_real"), (PTR, "y_imag"), (PTR, "roots"), (I64, "size"), (I64, "side"),
)


def by_factors(writer: Writer) -> Signature:
    """The function that transforms `size` elements of `side` signals from x by way of y; gives 1 where the result is
    in y."""
    stages = {factor: stage(writer, factor) for factor in FACTORS}
    return writer.function("by_factors", _PARAMETERS, lambda f: _write_by_factors(f, stages))


def _write_by_factors(f: Function, stages: dict[int, Signature]) -> None:
    x_real, x_imag, y_real, y_imag, roots, size, side = f.params
    names = ("x_real", "x_imag", "y_real", "y_imag", "length", "side", "is_in_y")
    start = zip((x_real, x_imag, y_real, y_imag, size, side, const(I64, 0)), names, strict=True)
    with f.while_loop(list(start), "stage") as loop:
        *places, length, side_now, is_in_y = loop.carried
        loop.test(f.icmp("sgt", length, 1))
        step, factor = f.udiv(size, length), const(I64, FACTORS[-1])
        for candidate in reversed(FACTORS[:-1]):
            factor = f.select(f.icmp("eq", f.urem(length, candidate), 0), const(I64, candidate), factor)
        m = f.udiv(length, factor)
        for candidate, callee in stages.items():
            with f.if_(f.icmp("eq", factor, candidate), f"by_{candidate}"):
                f.call(callee, [*places, roots, size, m, side_now, step])
        loop.next(*places[2:], *places[:2], m, f.mul(side_now, factor), f.xor(is_in_y, 1))
    f.ret(loop.carried[-1])


class Transform:
    """Writes transforms into a function."""

    def __init__(self, v: Lanes, factors: Signature, tables: Tables, length: Value, size: Value) -> None:
        self.v, self.f, self.tables, self.length, self.size = v, v.f, tables, length, size
        self.factors = factors

    def run(self, x: tuple[Value, Value], y: tuple[Value, Value], side: Value) -> tuple[Value, Value, Value, Value]:
        """The forward transform of `length` elements of x: where the result's parts are, and where they are not.
        The inverse one, but for a factor, is that of exchanged parts."""
        f = self.f
        with f.if_else(f.icmp("eq", self.length, self.size), "plain") as how:
            with how.then:
                how.give(*self._placed(x, y, self._by_factors(x, y, side)))
            with how.otherwise:
                how.give(*self._convolved(x, y, side))
        real, imag, other_real, other_imag = how.results
        return real, imag, other_real, other_imag

    def _by_factors(self, x: tuple[Value, Value], y: tuple[Value, Value], side: Value) -> Value:
        return self.f.call(self.factors, [*x, *y, self.tables.roots, self.size, side])

    def _placed(
        self, x: tuple[Value, Value], y: tuple[Value, Value], is_in_y: Value
    ) -> tuple[Value, Value, Value, Value]:
        f = self.f
        is_there = f.icmp("ne", is_in_y, 0)
        picked = [f.select(is_there, b, a) for a, b in zip((*x, *y), (*y, *x), strict=True)]
        return picked[0], picked[1], picked[2], picked[3]

    def _convolved(
        self, x: tuple[Value, Value], y: tuple[Value, Value], side: Value
    ) -> tuple[Value, Value, Value, Value]:
        f, v, tables = self.f, self.v, self.tables
        self.multiply(x, tables.chirp, self.length, side)
        filled, rest = f.mul(self.length, side), f.mul(f.sub(self.size, self.length), side)
        for part in x:
            f.memset(v.at(part, filled), 0, f.mul(rest, v.elem.bytes))
        real, imag, *free = self._placed(x, y, self._by_factors(x, y, side))
        self.multiply((real, imag), tables.kernel, self.size, side)
        back, other = (imag, real), (free[1], free[0])
        imag, real, *free = self._placed(back, other, self._by_factors(back, other, side))
        self.multiply((real, imag), tables.chirp, self.length, side)
        return real, imag, free[1], free[0]

    def multiply(self, x: tuple[Value, Value], factors: Value, count: Value, side: Value) -> None:
        """Element k of each signal times a factor; factors: real parts, and imaginary ones `count` elements behind."""
        f, v = self.f, self.v
        imaginary = v.at(factors, count)
        with f.loop(0, count, name="k") as k:
            by = v.element(factors, k.index), v.element(imaginary, k.index)
            start = f.mul(k.index, side)

            def multiplied(q: Value, lanes: int) -> None:
                at, (real, imag) = f.add(start, q), (v.everywhere(b, lanes) for b in by)
                product = v.times((v.load(x[0], at, lanes), v.load(x[1], at, lanes)), (real, imag))
                for part, base in zip(product, x, strict=True):
                    v.store(part, base, at)

            v.over(side, multiplied)
