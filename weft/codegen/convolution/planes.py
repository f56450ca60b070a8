"""Padded planes: what the taps of a convolution read for a block of rows of its result, laid out so that every tap
reads a run of memory.

A block is `rows` x `columns` places. Each channel has, for each tap of the first axis and each phase (tap * dilation
modulo step) of the other two, a plane of rows of `width` elements; what is outside of the image is zero there. A tap
of place (row, column) is element `offset of the tap` + row * width + column: places are counted with the width of
planes, and the few columns between the rows are computed and left. The image is written once per block, not once per
tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.codegen.emit import I64, Function, Value, const
from weft.codegen.gemm.tiles import GemmPlan

from .lines import Image, RowReader, read_by
from .prototypes import Fields, product_of
from .window import Axis, count_of_phases, equal, following, most_places, most_taps, split, up

FEWEST = 112  # places of a block at least, where there are as many
PLANES = 16 * 1024  # bytes of a range's planes: half of a first-level cache
RESULTS = 64 * 1024  # bytes of a block's results: they stay in a second-level cache
PARTS = const(I64, 16)  # of a kernel, where sizes allow


@dataclass(frozen=True)
class Reach:
    """Taps of one axis, in steps: from `least` on, `span` more than places; `phases`: how many phases they have."""

    least: Value
    span: Value
    phases: Value


def reach_of(f: Function, axis: Axis) -> Reach:
    """How far the taps of an axis reach."""
    last = f.sdiv(f.mul(f.sub(axis.taps, 1), axis.dilation), axis.step)
    zero = const(I64, 0)
    least = f.smin(zero, last)
    is_one = f.or_(f.icmp("sle", axis.taps, 1), f.icmp("eq", f.srem(axis.dilation, axis.step), 0))
    return Reach(least, f.sub(f.smax(zero, last), least), f.select(is_one, 1, axis.step))


class Planes:
    """The planes of a block of rows x columns places, from place [outer, row, column] of a sample on."""

    def __init__(self, f: Function, plan: GemmPlan, axes: Sequence[Axis], rows: Value, columns: Value) -> None:
        self.f, self.plan, self.axes = f, plan, axes
        self.row_reach, self.column_reach = reach_of(f, axes[1]), reach_of(f, axes[2])
        self.lines = f.add(rows, self.row_reach.span)
        self.width = f.add(columns, self.column_reach.span, "width")
        self.plane = f.mul(self.lines, self.width)
        self.row_phase = f.mul(self.plane, self.column_reach.phases)
        self.outer = f.mul(self.row_phase, self.row_reach.phases)
        self.channel = f.mul(self.outer, axes[0].taps, "channel")

    def write_offsets(self, table: Value, channels: Value) -> None:
        """Write the offset of each (channel, tap), in bytes, to a table of i64."""
        f, axes = self.f, self.axes
        taps = [axis.taps for axis in axes]
        count = f.mul(f.mul(channels, taps[0]), f.mul(taps[1], taps[2]))
        with f.loop(0, count, 1, "k", [(const(I64, 0), "at")] * 4) as k:
            channel, *tap = k.carried
            offset = f.add(f.mul(channel, self.channel), f.mul(tap[0], self.outer))
            parts = (
                (axes[1], self.row_reach, tap[1], self.row_phase, self.width),
                (axes[2], self.column_reach, tap[2], self.plane, const(I64, 1)),
            )
            for axis, reach, t, phase, element in parts:
                at = f.mul(t, axis.dilation)
                offset = f.add(offset, f.mul(f.srem(at, axis.step), phase))
                offset = f.add(offset, f.mul(f.sub(f.sdiv(at, axis.step), reach.least), element))
            f.store(f.mul(offset, self.plan.elem.bytes), f.gep(I64, table, k.index))
            k.next(*following(f, [channel, *tap], [const(I64, 0), *taps]))

    def pack(self, image: Image, first: Value, count: Value, start: Sequence[Value], target: Value) -> None:
        """Write the planes of channels first, first + 1, ... (`count` of them). Whole vectors are written: up to one
        goes beyond the end. image: of one sample."""
        f, plan, axes = self.f, self.plan, self.axes
        zero = const(I64, 0)
        sizes = [zero, axes[0].taps, self.row_reach.phases, self.column_reach.phases]
        total = product_of(f, [count, *sizes[1:]])
        outer = f.add(f.mul(start[0], axes[0].step), axes[0].begin)
        row_begin = f.add(f.mul(f.add(start[1], self.row_reach.least), axes[1].step), axes[1].begin)
        column_begin = f.add(f.mul(f.add(start[2], self.column_reach.least), axes[2].step), axes[2].begin)
        down = f.mul(axes[1].step, axes[1].stride)

        def write(reader: RowReader) -> None:
            with f.loop(0, total, 1, "plane", [(target, "to"), *[(zero, "at")] * 4]) as plane:
                to, channel, tap, row_phase, column_phase = plane.carried
                index = f.add(outer, f.mul(tap, axes[0].dilation))
                limit = f.select(f.icmp("ult", index, axes[0].image), axes[2].image, 0)
                number = f.add(row_begin, row_phase)
                at = f.add(f.mul(f.add(first, channel), image.channel), f.mul(index, axes[0].stride))
                row = f.gep(plan.elem, image.start, f.add(at, f.mul(number, axes[1].stride)), inbounds=False)
                position = f.add(column_begin, column_phase)
                with f.loop(0, self.lines, 1, "line", [(to, "to"), (number, "number"), (row, "row")]) as line:
                    self._write_line(reader, line.carried[2], position, f.select(
                        f.icmp("ult", line.carried[1], axes[1].image), limit, 0
                    ), line.carried[0])
                    line.next(
                        f.gep(plan.elem, line.carried[0], self.width), f.add(line.carried[1], axes[1].step),
                        f.gep(plan.elem, line.carried[2], down, inbounds=False),
                    )
                plane.next(line.results[0], *following(f, list(plane.carried[1:]), sizes))

        read_by(f, plan, axes[2], write)

    def _write_line(self, reader: RowReader, row: Value, position: Value, limit: Value, to: Value) -> None:
        f, plan = self.f, self.plan
        until = reader.whole_until(limit)
        with f.loop(0, self.width, plan.lanes, "column", [(position, "position")]) as column:
            f.store(reader.read(row, column.carried[0], limit, until), f.gep(plan.elem, to, column.index))
            column.next(f.add(column.carried[0], f.mul(self.axes[2].step, plan.lanes)))


class BlockSizes:
    """How many rows and columns a block has, and how many channels a range: planes of a range fit the first-level
    cache, results the second-level one. `count`: blocks of a phase. Ranges hang on the numbers of channels and taps
    alone, and so do the results' bits."""

    def __init__(self, f: Function, plan: GemmPlan, fields: Fields, is_spread: bool) -> None:
        self.f, size = f, plan.elem.bytes
        taps, places = most_taps(f, fields, is_spread), most_places(f, fields, is_spread)
        depth = const(I64, plan.depth)
        window = f.smax(product_of(f, taps), 1)
        self.range = equal(f, fields["channels"], f.smax(f.sdiv(depth, window), 1))
        dilation, step = fields["dilation2"], fields["step2"]
        if is_spread:
            dilation, step = f.sdiv(f.mul(dilation, fields["period2"]), step), const(I64, 1)
        reach = f.smax(f.sdiv(f.mul(f.sub(taps[2], 1), dilation), step), 0)
        room = f.smin(
            f.sdiv(const(I64, PLANES // size), self.range),
            f.sdiv(const(I64, RESULTS // size), f.smax(fields["outputs"], 1)),
        )
        target = f.smax(room, FEWEST)
        self.columns = equal(f, places[2], target)
        self.across = up(f, places[2], self.columns)
        # beside the parts along rows
        others = product_of(f, [
            fields["samples"], fields["groups"], count_of_phases(f, fields, is_spread), places[0], self.across
        ])
        most = f.smin(f.sdiv(f.add(target, reach), f.add(self.columns, reach)), up(f, f.mul(places[1], others), PARTS))
        self.rows = equal(f, places[1], f.smax(most, 1))
        self.count = product_of(f, [fields["samples"], places[0], up(f, places[1], self.rows), self.across])

    def start(self, number: Value, axes: Sequence[Axis]) -> list[Value]:
        """[sample, outer, row, column] of the first place of a block of a phase; blocks count row-major."""
        f = self.f
        down, across = (up(f, a.places, n) for a, n in zip(axes[1:], (self.rows, self.columns), strict=True))
        sample, outer, row, column = split(f, number, [const(I64, 0), axes[0].places, down, across])
        return [sample, outer, f.mul(row, self.rows), f.mul(column, self.columns)]
