"""Images as lines of a matrix product: line k = (channel, tap) holds what that tap reads at each of some places.

Lines are packed from the image as it lies, `unit` places at a time, into memory that stays in the second-level cache:
no copy of the image is made for its taps. A place outside of the image is zero. Whole vectors are written; what they
write beyond the end of a line is written again by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.codegen.emit import I8, I32, I64, Function, Value, const, iota
from weft.codegen.gemm.tiles import GemmPlan

from .prototypes import AXES, UNIT
from .window import Axis, Runs, following, segments, split


@dataclass(frozen=True)
class Image:
    """Where a group's channels of an image begin, and elements from one sample or channel to the next."""

    start: Value
    sample: Value
    channel: Value


class RowReader:
    """Vectors of what one tap reads along a row of an image: by whole loads in its inside, by masks at its rim.
    `dense_step`: elements between neighbours: 1, 2, or None if they have to be gathered."""

    def __init__(self, f: Function, plan: GemmPlan, axis: Axis, dense_step: int | None) -> None:
        self.f, self.plan, self.axis, self.dense_step = f, plan, axis, dense_step

    def whole_until(self, limit: Value, width: int = 1) -> Value:
        """Positions below this one (and not below 0) are those of `width` vectors that lie in a row of `limit`
        elements."""
        reach = width * self.plan.lanes * (self.dense_step or 1)
        return self.f.smax(self.f.sub(limit, reach - 1), 0)

    def read(self, row: Value, position: Value, limit: Value, whole_until: Value) -> Value:
        """The vector whose first lane is the row's element number `position`; zero where none is below `limit`."""
        return self.read_wide(row, position, limit, whole_until, 1)[0]

    def read_wide(
        self, row: Value, position: Value, limit: Value, whole_until: Value, width: int, outside: Value | None = None
    ) -> list[Value]:
        """`width` vectors, one after another. whole_until: what the method of that name says of them. outside: what
        lanes outside of the row are, instead of zero."""
        f, plan = self.f, self.plan
        starts = [f.add(position, f.mul(self.axis_step, i * plan.lanes)) for i in range(width)]
        if self.dense_step is None:
            return [self._instead(self._gathered(row, at, limit), at, limit, outside) for at in starts]
        with f.if_else(f.icmp("ult", position, whole_until), "inside") as how:
            with how.then:
                how.give(*(self._joined([f.load(plan.vector, p) for p in self._parts(row, at)]) for at in starts))
            with how.otherwise:
                how.give(*(self._instead(self.at_rim(row, at, limit), at, limit, outside) for at in starts))
        return list(how.results)

    @property
    def axis_step(self) -> Value:
        """Elements of the row from one place to the next, if the row is dense; else the axis' step."""
        return self.axis.step if self.dense_step is None else const(I64, self.dense_step)

    def _instead(self, vector: Value, position: Value, limit: Value, outside: Value | None) -> Value:
        if outside is None:
            return vector
        return self.f.select(self._mask(position, limit, self.axis.step), vector, outside)

    def at_rim(self, row: Value, position: Value, limit: Value) -> Value:
        """A vector that may not lie in the row."""
        masks = [self._mask(at, limit, 1) for at in self._positions(position)]
        parts = zip(self._parts(row, position), masks, strict=True)
        return self._joined([self.f.masked_load(self.plan.vector, p, mask) for p, mask in parts])

    def _positions(self, position: Value) -> list[Value]:
        return [self.f.add(position, part * self.plan.lanes) for part in range(self.dense_step or 1)]

    def _parts(self, row: Value, position: Value) -> list[Value]:
        return [self.f.gep(self.plan.elem, row, at, inbounds=False) for at in self._positions(position)]

    def _joined(self, parts: Sequence[Value]) -> Value:
        if len(parts) == 1:
            return parts[0]
        return self.f.shufflevector(parts[0], parts[1], range(0, 2 * self.plan.lanes, 2), "even")

    def _mask(self, position: Value, limit: Value, step: Value | int) -> Value:
        f, lanes = self.f, self.plan.lanes
        steps = iota(I32, lanes)
        if isinstance(step, Value):
            steps = f.mul(steps, f.splat(f.trunc(step, I32), lanes))
        places = f.add(f.splat(f.trunc(position, I32), lanes), steps)
        return f.icmp("ult", places, f.splat(f.trunc(limit, I32), lanes))

    def _gathered(self, row: Value, position: Value, limit: Value) -> Value:
        f, lanes, axis = self.f, self.plan.lanes, self.axis
        mask = self._mask(position, limit, axis.step)
        places = f.add(f.splat(position, lanes), f.mul(iota(I64, lanes), f.splat(axis.step, lanes)))
        at = f.gep(self.plan.elem, row, f.mul(places, f.splat(axis.stride, lanes)), inbounds=False)
        return f.gather(self.plan.vector, at, mask, const(self.plan.vector, 0.0))


def read_by(f: Function, plan: GemmPlan, axis: Axis, write: Callable[[RowReader], None]) -> None:
    """Have `write` write code for each way to read a row, of which one runs."""
    is_dense = f.icmp("eq", axis.stride, 1)
    with f.if_else(f.and_(is_dense, f.icmp("eq", axis.step, 1)), "rows") as how:
        with how.then:
            write(RowReader(f, plan, axis, 1))
        with how.otherwise, f.if_else(f.and_(is_dense, f.icmp("eq", axis.step, 2)), "rows") as other:
            with other.then:
                write(RowReader(f, plan, axis, 2))
            with other.otherwise:
                write(RowReader(f, plan, axis, None))


@dataclass(frozen=True)
class Block:
    """Places begin, begin + 1, ... (`count` of them) of all samples, row-major: columns of a block of lines.
    target: where the first line goes; stride: bytes from line to line."""

    begin: Value
    count: Value
    target: Value
    stride: Value


class LinePacker:
    """Writes code that packs lines of blocks of at most `UNIT` places."""

    def __init__(self, f: Function, plan: GemmPlan) -> None:
        self.f, self.plan = f, plan
        self.runs = Runs(f, UNIT, 2 + AXES - 1)

    def pack(
        self, image: Image, axes: Sequence[Axis], samples: Value, first: Value, last: Value, block: Block
    ) -> None:
        """Write lines first, first + 1, ..., last - 1 of a block."""
        f, plan = self.f, self.plan
        with segments(f, block.begin, block.count, [samples, *(a.places for a in axes)]) as run:
            indices = [f.mul(at, axis.step) for at, axis in zip(run.at[1:], axes, strict=True)]
            offset = f.mul(run.at[0], image.sample)
            for index, axis in zip(indices, axes, strict=True):
                offset = f.add(offset, f.mul(index, axis.stride))
            self.runs.write(run, offset, *indices)
        taps = [axis.taps for axis in axes]

        def write(reader: RowReader) -> None:
            channel, *tap = split(f, first, [const(I64, 0), *taps])
            carried = [(block.target, "to"), (channel, "channel"), *((t, "tap") for t in tap)]
            with f.loop(first, last, 1, "line", carried) as line:
                to, at, tap = line.carried[0], line.carried[1], list(line.carried[2:])
                shifts = [f.add(a.begin, f.mul(t, a.dilation)) for a, t in zip(axes, tap, strict=True)]
                offset = f.mul(at, image.channel)
                for shift, axis in zip(shifts, axes, strict=True):
                    offset = f.add(offset, f.mul(shift, axis.stride))
                source = f.gep(plan.elem, image.start, offset, inbounds=False)
                with self.runs.read(block.count) as (done, length, values):
                    self._write_run(reader, source, axes, shifts, values, length, f.gep(plan.elem, to, done))
                line.next(f.gep(I8, to, block.stride), *following(f, [at, *tap], [const(I64, 0), *taps]))

        read_by(f, plan, axes[-1], write)

    def _write_run(
        self, reader: RowReader, source: Value, axes: Sequence[Axis], shifts: Sequence[Value], values: Sequence[Value],
        length: Value, to: Value,
    ) -> None:
        """What a tap reads at the places of a run. values: the run's offset, and its indices without the tap's."""
        f, plan, last = self.f, self.plan, axes[-1]
        limit = last.image
        for axis, shift, index in zip(axes[:-1], shifts[:-1], values[1:], strict=False):
            limit = f.select(f.icmp("ult", f.add(index, shift), axis.image), limit, 0)
        position = f.add(values[AXES], shifts[-1])
        # a row's start, so that its elements are counted from there
        row = f.gep(plan.elem, source, f.sub(values[0], f.mul(position, last.stride)), inbounds=False)
        whole_until = reader.whole_until(limit)
        with f.loop(0, length, plan.lanes, "column", [(position, "position")]) as column:
            f.store(reader.read(row, column.carried[0], limit, whole_until), f.gep(plan.elem, to, column.index))
            column.next(f.add(column.carried[0], f.mul(last.step, plan.lanes)))


def row_of(
    f: Function, plan: GemmPlan, plane: Value, axes: Sequence[Axis], shifts: Sequence[Value], at: Sequence[Value]
) -> tuple[Value, Value]:
    """The image's row that a tap reads for the places [at[0], at[1], :], and how many elements it has: none outside of
    the image."""
    is_inside: Value | None = None
    for axis, shift, place in zip(axes[:-1], shifts[:-1], at, strict=True):
        index = f.add(f.mul(place, axis.step), shift)
        inside = f.icmp("ult", index, axis.image)
        is_inside = inside if is_inside is None else f.and_(is_inside, inside)
        plane = f.gep(plan.elem, plane, f.mul(index, axis.stride), inbounds=False)
    assert is_inside is not None
    return plane, f.select(is_inside, axes[-1].image, 0)
