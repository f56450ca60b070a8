"""Which element of an image a tap of a window reads, along each axis:

    row = place * step + begin + tap * dilation        (outside of the image: zero)

The windows of a convolution are like that. So is its adjoint, one phase at a time: the elements at places r, r + s,
r + 2 s, ... of an axis with windows s apart are reached by the taps k of r + padding = k * dilation (mod s) only, and
read the cotangent with step 1 and those taps in turn. No zeros are inserted, and none are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from weft.codegen.emit import I64, Function, Value, const

from .prototypes import AXES, Fields, product_of


@dataclass(frozen=True)
class Axis:
    """One axis of a walk. places: how many; taps: how many, tap t being number first + t * every of the kernel;
    image, stride: size and stride (in elements) of the image; origin, spread: place j is element
    origin + j * spread of the result's axis."""

    places: Value
    step: Value
    begin: Value
    taps: Value
    dilation: Value
    first: Value
    every: Value
    image: Value
    stride: Value
    origin: Value
    spread: Value


def window_axes(f: Function, fields: Fields) -> list[Axis]:
    """The axes of a convolution."""
    zero, one = const(I64, 0), const(I64, 1)
    return [
        Axis(
            fields[f"size{d}"], fields[f"step{d}"], f.sub(0, fields[f"padding{d}"]), fields[f"kernel{d}"],
            fields[f"dilation{d}"], zero, one, fields[f"image{d}"], fields[f"image_stride{d}"], zero, one,
        )
        for d in range(AXES)
    ]


def phase_axes(f: Function, fields: Fields, phase: Value) -> list[Axis]:
    """The axes of one phase of the adjoint; phases count row-major, fewer along the last axis first."""
    axes: list[Axis] = []
    for d in reversed(range(AXES)):
        step = fields[f"step{d}"]
        axes.append(_phase_axis(f, fields, d, f.urem(phase, step, "phase")))
        phase = f.udiv(phase, step)
    return axes[::-1]


def _phase_axis(f: Function, fields: Fields, d: int, r: Value) -> Axis:
    step, kernel = fields[f"step{d}"], fields[f"kernel{d}"]
    dilation, every = fields[f"dilation{d}"], fields[f"period{d}"]
    place = f.add(r, fields[f"padding{d}"])
    with f.while_loop([(const(I64, 0), "tap")], "search") as search:
        tap = search.carried[0]
        is_off = f.icmp("ne", f.srem(f.sub(place, f.mul(tap, dilation)), step), 0)
        search.test(f.and_(is_off, f.icmp("slt", tap, every)))
        search.next(f.add(tap, 1))
    first = search.results[0]
    # a phase that no tap reaches ends its search at `every`; the count of its taps is 0 whatever the kernel is
    reaches = f.and_(f.icmp("slt", first, kernel), f.icmp("slt", first, every))
    taps = f.select(reaches, f.add(f.sdiv(f.sub(f.sub(kernel, 1), first), every), 1), 0)
    begin = f.sdiv(f.sub(place, f.mul(first, dilation)), step)
    between = f.sub(0, f.sdiv(f.mul(dilation, every), step))
    places = f.sdiv(f.add(f.sub(fields[f"size{d}"], r), f.sub(step, 1)), step)
    one, image, stride = const(I64, 1), fields[f"image{d}"], fields[f"image_stride{d}"]
    return Axis(places, one, begin, taps, between, first, every, image, stride, r, step)


def most_taps(f: Function, fields: Fields, is_spread: bool) -> list[Value]:
    """Taps of the largest phase, along each axis."""
    kernels, periods = fields.axes("kernel"), fields.axes("period")
    return [up(f, k, e) for k, e in zip(kernels, periods, strict=True)] if is_spread else kernels


def most_places(f: Function, fields: Fields, is_spread: bool) -> list[Value]:
    """Places of the largest phase, the first, along each axis."""
    sizes, steps = fields.axes("size"), fields.axes("step")
    return [up(f, n, s) for n, s in zip(sizes, steps, strict=True)] if is_spread else sizes


def up(f: Function, a: Value, b: Value) -> Value:
    """a / b, rounded up; b > 0."""
    return f.sdiv(f.add(a, f.sub(b, 1)), b)


def equal(f: Function, total: Value, most: Value) -> Value:
    """The size of parts that cut a total into as few parts of at most `most` (> 0) as there can be, all but the last
    equal; 1 for nothing."""
    return f.smax(up(f, total, f.smax(up(f, total, most), 1)), 1)


def count_of_phases(f: Function, fields: Fields, is_spread: bool) -> Value:
    """How many phases there are."""
    return product_of(f, fields.axes("step")) if is_spread else const(I64, 1)


def split(f: Function, number: Value, sizes: list[Value]) -> list[Value]:
    """A row-major number as one index for each size; the first takes what is left."""
    rest: list[Value] = []
    for size in reversed(sizes[1:]):
        by = f.smax(size, 1)
        rest.append(f.urem(number, by))
        number = f.udiv(number, by)
    return [number, *reversed(rest)]


def following(f: Function, indices: list[Value], sizes: list[Value]) -> list[Value]:
    """The indices after these, row-major; the first does not wrap."""
    step: Value = const(I64, 1)
    out: list[Value] = []
    for index, size in zip(reversed(indices[1:]), reversed(sizes[1:]), strict=True):
        after = f.add(index, step)
        wraps = f.icmp("sge", after, size)
        out.append(f.select(wraps, 0, after))
        step = f.zext(wraps, I64)
    return [f.add(indices[0], step), *reversed(out)]


@dataclass(frozen=True)
class Segment:
    """A run of places along the last axis: `done` places come before it in the walk, it has `length`, and begins at
    [sample, place0, place1, place2]."""

    number: Value
    done: Value
    length: Value
    at: list[Value]


@contextmanager
def segments(f: Function, begin: Value, count: Value, sizes: list[Value]) -> Iterator[Segment]:
    """The runs that `count` places from number `begin` on consist of; sizes: samples, and places of the axes."""
    zero = const(I64, 0)
    start = split(f, begin, sizes)
    with f.while_loop([(zero, "run"), (zero, "done"), *((i, "at") for i in start)], "segments") as walk:
        number, done, *at = walk.carried
        walk.test(f.icmp("slt", done, count))
        length = f.smin(f.sub(sizes[-1], at[-1]), f.sub(count, done), "length")
        yield Segment(number, done, length, list(at))
        outer = following(f, at[:-1], sizes[:-1])
        walk.next(f.add(number, 1), f.add(done, length), *outer, zero)


class Runs:
    """The runs of a block of places, written down once and read for each of many lines: a length, and what else is
    asked of them. A run has at least one place."""

    def __init__(self, f: Function, most: int, fields: int) -> None:
        self.f, self.fields = f, fields + 1
        self.table = f.alloca(I64, most * self.fields, 64)

    def write(self, run: Segment, *values: Value) -> None:
        """Write down the next run."""
        f = self.f
        entry = f.gep(I64, self.table, f.mul(run.number, self.fields))
        for i, value in enumerate((run.length, *values)):
            f.store(value, f.gep(I64, entry, i))

    @contextmanager
    def read(self, count: Value) -> Iterator[tuple[Value, Value, list[Value]]]:
        """For each run of `count` places: the places before it, its length, what was written beside it."""
        f = self.f
        with f.while_loop([(const(I64, 0), "done"), (self.table, "entry")], "runs") as walk:
            done, entry = walk.carried
            walk.test(f.icmp("slt", done, count))
            length, *values = (f.load(I64, f.gep(I64, entry, i)) for i in range(self.fields))
            yield done, length, values
            walk.next(f.add(done, length), f.gep(I64, entry, self.fields))
