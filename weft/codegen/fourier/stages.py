"""Stages of a Fourier transform: for a factor r of the length, butterflies of r elements.

Source: the self-sorting form of Stockham (Van Loan, "Computational frameworks for the fast Fourier transform", 1992).
With `length` elements left to transform in `side` sequences that lie side by side, and m = length / r:

    y[side * (r p + j) + q] = w**(j p) sum_k x[side * (p + k m) + q] u**(j k),    w, u = exp(-2 pi i / length), (.../ r)

for p < m, j < r, q < side. Then length is m, side is side * r, and x and y change places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.codegen.emit import I64, PTR, Function, LType, Module, Signature, Value, const, iota, vec
from weft.codegen.math.core import FloatMath
from weft.codegen.target import Target

FACTORS = (4, 2, 3, 5, 7)  # in the order in which they are taken out
Pair = tuple[Value, Value]  # real and imaginary part
_PARAMETERS = (
    (PTR, "x_real"), (PTR, "x_imag"), (PTR, "y_real"), (PTR, "y_imag"), (PTR, "roots"), (I64, "whole"), (I64, "m"),
    (I64, "side"), (I64, "step"),
)


class Lanes:
    """Vectors of one part in a function: of all lanes, of four, and single elements for what is left. (Masked stores
    are slow on some machines.)"""

    def __init__(self, f: Function, elem: LType, target: Target) -> None:
        self.f, self.elem, self.lanes = f, elem, target.lanes(elem.bytes)
        self.type = vec(elem, self.lanes)
        self.math = FloatMath(f, target.has_fma, target.has_scale)

    def over(self, count: Value, body: Callable[[Value, int], None], has_fours: bool = True) -> None:
        """body(index, lanes) until so many elements are done."""
        f, done = self.f, const(I64, 0)
        for lanes in (self.lanes, *((4,) if has_fours and self.lanes > 4 else ()), 1):
            end = f.and_(count, -lanes, "end") if lanes > 1 else count
            with f.loop(done, end, lanes, "q") as loop:
                body(loop.index, lanes)
            done = end

    def at(self, base: Value, index: Value) -> Value:
        """The address of an element."""
        return self.f.gep(self.elem, base, index)

    def load(self, base: Value, index: Value, lanes: int) -> Value:
        """So many elements."""
        return self.f.load(vec(self.elem, lanes) if lanes > 1 else self.elem, self.at(base, index))

    def store(self, x: Value, base: Value, index: Value) -> None:
        """Write elements."""
        self.f.store(x, self.at(base, index))

    def element(self, base: Value, index: Value) -> Value:
        """One element."""
        return self.f.load(self.elem, self.at(base, index))

    def everywhere(self, x: Value, lanes: int) -> Value:
        """One element in all lanes."""
        return self.f.splat(x, lanes) if lanes > 1 else x

    def times(self, x: Pair, y: Pair) -> Pair:
        """The product."""
        m = self.math
        return m.mad(x[0], y[0], m.neg(m.mul(x[1], y[1]))), m.mad(x[0], y[1], m.mul(x[1], y[0]))


@dataclass(frozen=True)
class Writer:
    """Enters functions into a module, each key once: `enter(key, hint, write)` gives the name, and calls write(name) if
    there is none yet."""

    module: Module
    elem: LType
    target: Target
    enter: Callable[[object, str, Callable[[str], None]], str]

    def function(
        self, what: str, parameters: Sequence[tuple[LType, str]], write: Callable[[Function], None]
    ) -> Signature:
        """The function of a name for this type of elements; `write` ends with its return."""
        hint = f"fourier_{what}_{self.elem.text}"
        name = self.enter(
            ("fourier", what, self.elem.text), hint, lambda name: write(self.module.function(name, I64, parameters)))
        return self.module.functions[name].signature


def stage(writer: Writer, factor: int) -> Signature:
    """The function of a stage. roots: cosines and, `whole` elements behind, sines of exp(-2 pi i k / whole);
    step: whole / length."""
    return writer.function(f"by_{factor}", _PARAMETERS, lambda f: _write_stage(writer, factor, f))


def _write_stage(writer: Writer, factor: int, f: Function) -> None:
    v = Lanes(f, writer.elem, writer.target)
    x_real, x_imag, y_real, y_imag, roots, whole, m, side, step = f.params
    sines = v.at(roots, whole)
    first_stage = None
    if factor == 4:
        is_alone = f.icmp("eq", side, 1)
        first_stage = f.select(is_alone, f.and_(m, -v.lanes), const(I64, 0))
        _alone(v, f.params, first_stage)
    with f.loop(first_stage or const(I64, 0), m, name="p") as p:
        exponent = f.mul(p.index, step)
        places = [f.mul(exponent, j) for j in range(1, factor)]
        factors = [(v.element(roots, at), v.element(sines, at)) for at in places]
        first = f.mul(p.index, side)
        sources = [f.add(first, f.mul(f.mul(m, side), k)) for k in range(factor)]
        targets = [f.mul(side, f.add(f.mul(p.index, factor), j)) for j in range(factor)]

        def butterflies(q: Value, lanes: int) -> None:
            elements = [(v.load(x_real, f.add(at, q), lanes), v.load(x_imag, f.add(at, q), lanes)) for at in sources]
            by = [(v.everywhere(a, lanes), v.everywhere(b, lanes)) for a, b in factors]
            for (real, imag), at in zip(_turned(v, elements, by), targets, strict=True):
                v.store(real, y_real, f.add(at, q))
                v.store(imag, y_imag, f.add(at, q))

        v.over(side, butterflies, has_fours=factor in (2, 4))
    f.ret(const(I64, 0))


def _alone(v: Lanes, params: Sequence[Value], end: Value) -> None:
    """Butterflies of four where one signal stands alone: those of elements that follow each other, as vectors, and
    their results in turn."""
    f, (x_real, x_imag, y_real, y_imag, roots, whole, m, _, step) = v.f, params
    with f.loop(0, end, v.lanes, "p") as p:
        exponents = f.mul(f.add(f.splat(p.index, v.lanes), iota(I64, v.lanes)), f.splat(step, v.lanes))
        sines, by = v.at(roots, whole), []
        for j in range(1, 4):
            places = f.mul(exponents, j)
            by.append((f.gather(v.type, v.at(roots, places)), f.gather(v.type, v.at(sines, places))))
        starts = [f.add(p.index, f.mul(m, k)) for k in range(4)]
        elements = [(v.load(x_real, at, v.lanes), v.load(x_imag, at, v.lanes)) for at in starts]
        results = _turned(v, elements, by)
        for part, base in enumerate((y_real, y_imag)):
            for i, line in enumerate(_interleaved(f, [r[part] for r in results])):
                v.store(line, base, f.add(f.mul(p.index, 4), i * v.lanes))


def _interleaved(f: Function, x: list[Value]) -> list[Value]:
    """One lane of each of four vectors, then the next."""
    n = x[0].type.lanes
    low, high = ([i // 2 + i % 2 * n + start for i in range(n)] for start in (0, n // 2))
    evens = [f.shufflevector(x[0], x[2], pick) for pick in (low, high)]
    odds = [f.shufflevector(x[1], x[3], pick) for pick in (low, high)]
    return [f.shufflevector(a, b, pick) for a, b in zip(evens, odds, strict=True) for pick in (low, high)]


def _turned(v: Lanes, elements: Sequence[Pair], by: Sequence[Pair]) -> list[Pair]:
    """A butterfly and its factors."""
    first, *rest = _butterfly(v, elements)
    return [first, *(v.times(x, w) for x, w in zip(rest, by, strict=True))]


def _butterfly(v: Lanes, x: Sequence[Pair]) -> list[Pair]:
    """The transform of a few elements."""
    if len(x) == 2:
        return [_add(v, *x), _sub(v, *x)]
    if len(x) == 4:
        even, odd = (_add(v, x[0], x[2]), _sub(v, x[0], x[2])), (_add(v, x[1], x[3]), _sub(v, x[1], x[3]))
        turned = (odd[1][1], v.math.neg(odd[1][0]))  # by -i
        return [_add(v, even[0], odd[0]), _add(v, even[1], turned), _sub(v, even[0], odd[0]), _sub(v, even[1], turned)]
    return _odd_butterfly(v, x)


def _odd_butterfly(v: Lanes, x: Sequence[Pair]) -> list[Pair]:
    """Elements k and r - k together: their sums go with cosines, their differences with sines."""
    m, r = v.math, len(x)
    half = range(1, (r + 1) // 2)
    sums, differences = [_add(v, x[k], x[r - k]) for k in half], [_sub(v, x[k], x[r - k]) for k in half]
    total = x[0]
    for s in sums:
        total = _add(v, total, s)
    results = [total] * r
    for j in half:
        even, odd = x[0], None
        for k, s, d in zip(half, sums, differences, strict=True):
            angle = 2 * math.pi * (j * k % r) / r
            cosine, sine = math.cos(angle), math.sin(angle)
            even = (m.mad(s[0], cosine, even[0]), m.mad(s[1], cosine, even[1]))
            odd = (
                (m.mul(d[0], sine), m.mul(d[1], sine)) if odd is None
                else (m.mad(d[0], sine, odd[0]), m.mad(d[1], sine, odd[1]))
            )
        assert odd is not None
        turned = (odd[1], m.neg(odd[0]))  # by -i
        results[j], results[r - j] = _add(v, even, turned), _sub(v, even, turned)
    return results


def _add(v: Lanes, a: Pair, b: Pair) -> Pair:
    return v.math.add(a[0], b[0]), v.math.add(a[1], b[1])


def _sub(v: Lanes, a: Pair, b: Pair) -> Pair:
    return v.math.sub(a[0], b[0]), v.math.sub(a[1], b[1])
