"""Max pooling: the greatest element of each window and which of the window's elements it is, row by row of the
result; the elements at such places; and the adjoint of that, which adds each element of the cotangent where the
greatest was."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.emit import I32, I64, PTR, LType, Module, Value, const, vec
from weft.codegen.gemm.tiles import GemmPlan

from .lines import RowReader, read_by, row_of
from .prototypes import AXES, KERNEL, Fields, convolution_symbol, product_of
from .window import following, split, window_axes

WIDTHS = (2, 1)  # vectors of a row whose greatest are sought at once


class Maxima:
    """Writes `maxima`: image -> values, places. Parts are (sample, range of rows)."""

    def __init__(self, module: Module, plan: GemmPlan) -> None:
        self.plan = plan
        self.f = f = module.function(convolution_symbol("maxima", plan.dtype), I64, KERNEL)
        self.fields = fields = Fields(f, f.params[1])
        self.image, self.values, self.places = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in range(3))
        self.axes = axes = window_axes(f, fields)
        self.number: LType = I32 if plan.elem.bytes == 4 else I64  # what places are held in beside values
        self.slots = f.alloca(plan.elem, WIDTHS[0] * plan.lanes, 64), f.alloca(I64, WIDTHS[0] * plan.lanes, 64)
        rows = f.mul(axes[0].places, axes[1].places)
        ranges = f.sdiv(f.add(rows, f.sub(fields["rows"], 1)), fields["rows"])
        with f.loop(f.params[4], f.params[5], 1, "part") as part:
            sample, number = split(f, part.index, [const(I64, 0), ranges])
            low = f.mul(number, fields["rows"])
            high = f.smin(f.add(low, fields["rows"]), rows)
            plane = f.gep(plan.elem, self.image, f.mul(sample, product_of(f, fields.axes("image"))))

            def of_range(reader: RowReader, low: Value, high: Value, plane: Value, before: Value) -> None:
                start = split(f, low, [const(I64, 1), axes[0].places, axes[1].places])[1:]
                with f.loop(low, high, 1, "row", [(i, "at") for i in start]) as row:
                    at = f.mul(f.add(before, row.index), axes[2].places)
                    self._row(reader, plane, list(row.carried), at)
                    row.next(*following(f, list(row.carried), [axes[0].places, axes[1].places]))

            before = f.mul(sample, rows)
            read_by(f, plan, axes[2], lambda reader: of_range(reader, low, high, plane, before))
        f.ret(const(I64, 0))

    def _row(self, reader: RowReader, plane: Value, place: Sequence[Value], at: Value) -> None:
        f, lanes, count = self.f, self.plan.lanes, self.axes[2].places
        with f.while_loop([(const(I64, 0), "column")], "columns") as walk:
            column = walk.carried[0]
            walk.test(f.icmp("slt", column, count))
            left = f.sub(count, column)
            with f.if_else(f.icmp("sgt", left, lanes), "wide") as how:
                for arm, width in zip((how.then, how.otherwise), WIDTHS, strict=True):
                    with arm:
                        best, picked = self._greatest(reader, plane, place, column, width)
                        self._store(best, picked, f.add(at, column), left)
                        how.give(const(I64, width * lanes))
            walk.next(f.add(column, how.results[0]))

    def _greatest(
        self, reader: RowReader, plane: Value, place: Sequence[Value], column: Value, width: int
    ) -> tuple[list[Value], list[Value]]:
        """The greatest so far and its place, for each lane; the first of equals, and the last NaN."""
        f, plan, axes = self.f, self.plan, self.axes
        numbers, least = vec(self.number, plan.lanes), const(plan.vector, float("-inf"))
        origin = f.add(f.mul(column, axes[2].step), axes[2].begin)
        carried = [(const(I64, 0), "at"), (const(I64, 0), "at"), (const(self.number, 0), "number")]
        carried += [(least, "best")] * width + [(const(numbers, 0), "picked")] * width
        with f.loop(0, f.mul(axes[0].taps, axes[1].taps), 1, "tap", carried) as outer:
            tap, number = list(outer.carried[:2]), outer.carried[2]
            shifts = [f.add(a.begin, f.mul(t, a.dilation)) for a, t in zip(axes, tap, strict=False)]
            row, limit = row_of(f, plan, plane, axes, [*shifts, origin], place)
            until = reader.whole_until(limit, width)
            inside = [(number, "number"), (origin, "position"), *((v, "held") for v in outer.carried[3:])]
            with f.loop(0, axes[2].taps, 1, "t", inside) as inner:
                number, position, *held = inner.carried
                values = reader.read_wide(row, position, limit, until, width, outside=least)
                best, picked = held[:width], held[width:]
                here = f.splat(number, plan.lanes)
                for i, x in enumerate(values):
                    is_better = f.or_(f.fcmp("ogt", x, best[i]), f.fcmp("uno", x, x))
                    best[i], picked[i] = f.select(is_better, x, best[i]), f.select(is_better, here, picked[i])
                inner.next(f.add(number, 1), f.add(position, axes[2].dilation), *best, *picked)
            after = following(f, [const(I64, 0), *tap], [const(I64, 0), axes[0].taps, axes[1].taps])[1:]
            outer.next(*after, inner.results[0], *inner.results[2:])
        held = list(outer.results[3:])
        return held[:width], held[width:]

    def _store(self, best: Sequence[Value], picked: Sequence[Value], at: Value, left: Value) -> None:
        f, plan = self.f, self.plan
        width = len(best) * plan.lanes
        targets = f.gep(plan.elem, self.values, at), f.gep(I64, self.places, at)
        wide = [f.sext(p, I64) if self.number is not I64 else p for p in picked]

        def store(values: Value, places: Value) -> None:
            for i, (x, p) in enumerate(zip(best, wide, strict=True)):
                f.store(x, f.gep(plan.elem, values, i * plan.lanes))
                f.store(p, f.gep(I64, places, i * plan.lanes))

        with f.if_else(f.icmp("sge", left, width), "whole") as how:
            with how.then:
                store(*targets)
            with how.otherwise:
                store(*self.slots)
                with f.loop(0, f.smin(left, width), 1, "lane") as lane:
                    for type, slot, target in zip((plan.elem, I64), self.slots, targets, strict=True):
                        f.store(f.load(type, f.gep(type, slot, lane.index)), f.gep(type, target, lane.index))


def emit_picked(module: Module, plan: GemmPlan, is_back: bool) -> None:
    """Write `picked`: image, places -> out, or `maxima_back`: grad, places -> out. Parts are samples; scratch holds
    where each element of a window is."""
    f = module.function(convolution_symbol("maxima_back" if is_back else "picked", plan.dtype), I64, KERNEL)
    fields = Fields(f, f.params[1])
    first, places, last = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in range(3))
    windowed, whole = (first, last) if is_back else (last, first)
    axes, table = window_axes(f, fields), f.params[3]
    with f.loop(0, product_of(f, [a.taps for a in axes]), 1, "tap") as tap:
        entry = f.gep(I64, table, f.mul(tap.index, AXES))
        for i, (t, axis) in enumerate(zip(split(f, tap.index, [a.taps for a in axes]), axes, strict=True)):
            f.store(f.mul(t, axis.dilation), f.gep(I64, entry, i))
    sizes, counts = fields.axes("image"), [a.places for a in axes]
    elements, windows = product_of(f, sizes), product_of(f, counts)
    with f.loop(f.params[4], f.params[5], 1, "sample") as part:
        plane = f.gep(plan.elem, whole, f.mul(part.index, elements))
        if is_back:
            f.memset(plane, 0, f.mul(elements, plan.elem.bytes))
        start_of_part = f.mul(part.index, windows)
        rows = f.mul(counts[0], counts[1])
        with f.loop(0, rows, 1, "row", [(const(I64, 0), "at")] * 2) as row:
            starts = [f.add(f.mul(i, a.step), a.begin) for i, a in zip(row.carried, axes, strict=False)]
            begin = f.add(start_of_part, f.mul(row.index, counts[2]))
            with f.loop(0, counts[2], 1, "column", [(axes[2].begin, "start")]) as column:
                number = f.add(begin, column.index)
                entry = f.gep(I64, table, f.mul(f.load(I64, f.gep(I64, places, number)), AXES))
                at: Value = const(I64, 0)
                is_inside: Value | None = None  # a window without numbers but -inf may have picked its padding
                for i, (start, size) in enumerate(zip((*starts, column.carried[0]), sizes, strict=True)):
                    index = f.add(start, f.load(I64, f.gep(I64, entry, i)))
                    inside = f.icmp("ult", index, size)
                    is_inside = inside if is_inside is None else f.and_(is_inside, inside)
                    at = f.add(f.mul(at, size), index)
                assert is_inside is not None
                element, target = f.gep(plan.elem, windowed, number), f.gep(plan.elem, plane, at, inbounds=False)
                if not is_back:
                    f.store(const(plan.elem, 0.0), element)
                with f.if_(is_inside, "inside"):
                    if is_back:
                        f.store(f.fadd(f.load(plan.elem, target), f.load(plan.elem, element)), target)
                    else:
                        f.store(f.load(plan.elem, target), element)
                column.next(f.add(column.carried[0], axes[2].step))
            row.next(*following(f, list(row.carried), counts[:2]))
    f.ret(const(I64, 0))
