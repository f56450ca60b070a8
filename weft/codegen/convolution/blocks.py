"""Windows of an image times a weight: block by block of places, planes of the image times strips of the weight.

    item = (phase, group, block of places)
      for ranges of channels, as equal as can be
        write the planes of the range              (most of them stay in the first-level cache)
        for panels of places
          for strips of the weight's rows          (packed ahead, once for all parts)
            one register tile, added to the block's results
      write the block's results where their places are

The adjoint for the image is the same for each phase of its result (window.py). Results are gathered in scratch memory
first: so a tile never asks where a place lies, and phases may lie apart. Scratch memory holds the offsets of taps, the
planes of a range, the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from weft.codegen.emit import I8, I64, PTR, Function, Loop, Module, Value, const
from weft.codegen.emit.flow import Carried
from weft.codegen.gemm.tiles import GemmPlan

from .lines import Image
from .planes import BlockSizes, Planes
from .prototypes import AXES, KERNEL, SHARES, Fields, convolution_symbol, product_of
from .tiles import Strips, WindowTiles
from .window import Axis, count_of_phases, following, most_taps, phase_axes, split, window_axes

SLACK = 128  # bytes behind planes and rows of results: what their last vectors and tiles go beyond them


class WindowKernels:
    """Writes `pack_windows` and `windows`, or `pack_spread` and `spread`."""

    def __init__(self, module: Module, plan: GemmPlan, tiles: WindowTiles, is_spread: bool) -> None:
        self.module, self.plan, self.tiles, self.is_spread = module, plan, tiles, is_spread
        self._pack()
        self._multiply()

    def _begin(self, prefix: str) -> tuple[Function, Fields]:
        name = prefix + ("spread" if self.is_spread else "windows")
        f = self.module.function(convolution_symbol(name, self.plan.dtype), I64, KERNEL)
        return f, Fields(f, f.params[1])

    def _axes(self, f: Function, fields: Fields, phase: Value) -> list[Axis]:
        return phase_axes(f, fields, phase) if self.is_spread else window_axes(f, fields)

    def _slot(self, f: Function, fields: Fields, phase: Value, group: Value) -> Value:
        """Where the packed weight of a phase and group begins, in elements."""
        size = product_of(f, [fields["outputs"], fields["channels"], *most_taps(f, fields, self.is_spread)])
        return f.mul(f.add(f.mul(phase, fields["groups"]), group), size)

    # ---- the weight
    def _pack(self) -> None:
        """Items are (phase, group, strip). A range's strips lie one after another, each [k][row]."""
        f, fields = self._begin("pack_")
        plan = self.plan
        weight, packed = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in range(2))
        weight = f.gep(plan.elem, weight, fields["weight_offset"])
        strips, sizes = Strips(f, plan, fields["outputs"]), BlockSizes(f, plan, fields, self.is_spread)
        slots = f.mul(count_of_phases(f, fields, self.is_spread), fields["groups"])
        with self._items(f, f.mul(slots, strips.count)) as part:
            phase, group, strip = split(f, part.index, [const(I64, 0), fields["groups"], strips.count])
            axes = self._axes(f, fields, phase)
            taps = [axis.taps for axis in axes]
            window = product_of(f, taps)
            row, rows = strips.start(strip), strips.rows(strip)
            source = f.gep(plan.elem, weight, f.add(
                f.mul(group, fields["weight_group"]), f.mul(row, fields["weight_output"])
            ))
            target = f.gep(plan.elem, packed, self._slot(f, fields, phase, group))
            with f.loop(0, fields["channels"], sizes.range, "low") as low:
                count = f.smin(f.sub(fields["channels"], low.index), sizes.range)
                place = f.mul(f.mul(low.index, window), fields["outputs"])
                place = f.add(place, f.mul(row, f.mul(count, window)))
                to = f.gep(plan.elem, target, place)
                carried = [(to, "to"), (low.index, "channel"), *[(const(I64, 0), "tap")] * AXES]
                with f.loop(0, f.mul(count, window), 1, "k", carried) as k:
                    at = f.mul(k.carried[1], fields["weight_channel"])
                    for axis, tap, stride in zip(axes, k.carried[2:], fields.axes("weight_stride"), strict=True):
                        at = f.add(at, f.mul(f.add(axis.first, f.mul(tap, axis.every)), stride))
                    with f.loop(0, rows, 1, "row", [(f.gep(plan.elem, source, at), "from")]) as i:
                        f.store(f.load(plan.elem, i.carried[0]), f.gep(plan.elem, k.carried[0], i.index))
                        i.next(f.gep(plan.elem, i.carried[0], fields["weight_output"]))
                    after = following(f, list(k.carried[1:]), [const(I64, 0), *taps])
                    k.next(f.gep(plan.elem, k.carried[0], rows), *after)
        f.ret(const(I64, 0))

    # ---- the product
    def _multiply(self) -> None:
        f, fields = self._begin("")
        plan, size = self.plan, self.plan.elem.bytes
        image, packed, out = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in range(3))
        image = f.gep(plan.elem, image, fields["image_offset"])
        strips, offsets = Strips(f, plan, fields["outputs"]), f.params[3]
        sizes = BlockSizes(f, plan, fields, self.is_spread)
        slots = f.mul(count_of_phases(f, fields, self.is_spread), fields["groups"])
        of_group = f.mul(fields["channels"], fields["image_channel"])
        with self._items(f, f.mul(slots, sizes.count), [(const(I64, -1), "written")]) as part:
            phase, group, number = split(f, part.index, [const(I64, 0), fields["groups"], sizes.count])
            axes = self._axes(f, fields, phase)
            sample, *start = sizes.start(number, axes)
            left = [f.sub(axis.places, at) for axis, at in zip(axes[1:], start[1:], strict=True)]
            rows, columns = f.smin(left[0], sizes.rows, "rows"), f.smin(left[1], sizes.columns, "columns")
            is_there = f.and_(f.icmp("slt", sample, fields["samples"]), f.icmp("sgt", f.mul(rows, columns), 0))
            is_there = f.and_(is_there, f.icmp("sgt", axes[0].places, 0))
            with f.if_(is_there, "block"):
                planes = Planes(f, plan, axes, sizes.rows, sizes.columns)
                window = product_of(f, [a.taps for a in axes])
                with f.if_(f.icmp("ne", part.carried[0], phase), "phase"):
                    planes.write_offsets(offsets, f.smin(sizes.range, fields["channels"]))
                table = f.mul(f.mul(f.smin(sizes.range, fields["channels"]), window), 8)
                target = f.gep(I8, offsets, f.and_(f.add(table, 63), -64))
                held = f.mul(f.mul(f.smin(sizes.range, fields["channels"]), planes.channel), size)
                results = f.gep(I8, target, f.and_(f.add(held, SLACK + 63), -64), "results")
                covered = f.add(f.mul(f.sub(rows, 1), planes.width), columns, "covered")
                # whole tiles are written: an odd number of cache lines spreads rows over the cache's sets
                ldc = f.mul(f.or_(f.udiv(f.add(f.mul(covered, size), SLACK + 63), 64), 1), 64)
                depth = f.mul(fields["channels"], window)
                with f.if_(f.icmp("eq", depth, 0), "no_taps"):
                    f.memset(results, 0, f.mul(fields["outputs"], ldc))
                with f.if_(f.icmp("ne", depth, 0), "taps"):
                    at = f.add(f.mul(sample, fields["image_sample"]), f.mul(group, of_group))
                    source = Image(f.gep(plan.elem, image, at), fields["image_sample"], fields["image_channel"])
                    weight = f.gep(plan.elem, packed, self._slot(f, fields, phase, group))
                    with f.loop(0, fields["channels"], sizes.range, "low") as low:
                        count = f.smin(f.sub(fields["channels"], low.index), sizes.range)
                        planes.pack(source, low.index, count, start, target)
                        k = f.mul(count, window)
                        a = f.gep(plan.elem, weight, f.mul(f.mul(low.index, window), fields["outputs"]))
                        adds = f.icmp("sgt", low.index, 0)
                        self.tiles.multiply(f, strips, covered, a, target, offsets, results, [ldc, k, adds])
                first = f.add(f.mul(sample, fields["groups"]), group)
                to = f.gep(plan.elem, out, f.mul(f.mul(first, fields["outputs"]), product_of(f, fields.axes("size"))))
                self._write(f, fields, axes, start, (rows, columns), (results, ldc, planes.width), to)
            part.next(f.select(is_there, phase, part.carried[0]))
        f.ret(const(I64, 0))

    @staticmethod
    @contextmanager
    def _items(f: Function, total: Value, carried: Carried = ()) -> Iterator[Loop]:
        """The items of this call: `total` of them are dealt out to `SHARES` parts."""
        low, high = (f.udiv(f.mul(total, share), SHARES) for share in f.params[4:6])
        with f.loop(low, high, 1, "item", carried) as loop:
            yield loop

    # ---- the results
    def _write(
        self, f: Function, fields: Fields, axes: Sequence[Axis], start: Sequence[Value], extent: tuple[Value, Value],
        held: tuple[Value, Value, Value], out: Value,
    ) -> None:
        """Each channel's results to where the block's places lie. held: the results, bytes from channel to channel,
        elements from row to row."""
        plan, sizes = self.plan, fields.axes("size")
        (rows, columns), (results, ldc, width) = extent, held
        at: Value = const(I64, 0)
        for axis, index, size in zip(axes, start, sizes, strict=True):
            at = f.add(f.mul(at, size), f.add(axis.origin, f.mul(index, axis.spread)))
        plane, line = product_of(f, sizes), f.mul(axes[1].spread, sizes[2])
        with f.loop(0, fields["outputs"], 1, "channel", [(f.gep(plan.elem, out, at), "to"), (results, "from")]) as m:
            to, source = m.carried
            with f.loop(0, rows, 1, "row", [(to, "to"), (source, "from")]) as row:
                self._copy_row(f, row.carried[1], row.carried[0], columns, axes[2].spread)
                row.next(f.gep(plan.elem, row.carried[0], line), f.gep(plan.elem, row.carried[1], width))
            m.next(f.gep(plan.elem, to, plane), f.gep(I8, source, ldc))

    def _copy_row(self, f: Function, source: Value, to: Value, length: Value, spread: Value) -> None:
        plan, lanes = self.plan, self.plan.lanes
        is_whole = f.and_(f.icmp("sge", length, lanes), f.icmp("eq", spread, 1))
        with f.if_else(is_whole, "vectors") as how:
            with how.then:
                last = f.sub(length, lanes)
                with f.loop(0, length, lanes, "at") as loop:
                    at = f.smin(loop.index, last)  # the last vector overlaps the one before it
                    f.store(f.load(plan.vector, f.gep(plan.elem, source, at)), f.gep(plan.elem, to, at))
            with how.otherwise, f.loop(0, length, 1, "at", [(to, "to")]) as loop:
                f.store(f.load(plan.elem, f.gep(plan.elem, source, loop.index)), loop.carried[0])
                loop.next(f.gep(plan.elem, loop.carried[0], spread))
