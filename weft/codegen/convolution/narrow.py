"""The gradient of a weight with one or two channels out of each group, of depthwise convolutions above all: a product
would have next to nothing to share. Each element is one sum over rows of the image times rows of the cotangent."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.emit import I64, Function, Value, const
from weft.codegen.gemm.kernel import multiply_add
from weft.codegen.gemm.tiles import GemmPlan

from .lines import RowReader, read_by, row_of
from .prototypes import Fields, product_of
from .window import Axis, following, split

SUM_BYTES = 64  # of the lanes that a sum over places is kept in, on every machine


class RowSums:
    """Sums over rows of all samples, inside of the function of `weight_sums`."""

    def __init__(self, f: Function, plan: GemmPlan, fields: Fields, axes: Sequence[Axis]) -> None:
        self.f, self.plan, self.fields, self.axes = f, plan, fields, axes
        self.width = max(SUM_BYTES // (plan.lanes * plan.elem.bytes), 1)
        self.slot = f.alloca(plan.elem, self.width * plan.lanes, 64)

    def write(
        self, image: Value, grads: Value, chunk: Value, first: Value, last: Value, target: Value, width: Value
    ) -> None:
        """Lines first to last, for the rows of a chunk: target[(line - first) * width + channel]."""
        f, fields, plan = self.f, self.fields, self.plan
        rows = product_of(f, [fields["samples"], *fields.axes("size")[:2]])
        low, high = (f.udiv(f.mul(c, rows), fields["chunks"]) for c in (chunk, f.add(chunk, 1)))

        def lines(reader: RowReader) -> None:
            with f.loop(0, fields["outputs"], 1, "output") as output:
                grad = f.gep(plan.elem, grads, f.mul(output.index, fields["grad_channel"]))
                with f.loop(first, last, 1, "line") as line:
                    at = split(f, line.index, [const(I64, 0), *fields.axes("kernel")])
                    total = self._sum(reader, image, grad, at, low, high)
                    place = f.add(f.mul(f.sub(line.index, first), width), output.index)
                    f.store(total, f.gep(plan.elem, target, place))

        read_by(f, plan, self.axes[2], lines)

    def _sum(
        self, reader: RowReader, image: Value, grad: Value, at: Sequence[Value], low: Value, high: Value
    ) -> Value:
        """One element of the gradient, from rows low to high."""
        f, fields, plan, axes = self.f, self.fields, self.plan, self.axes
        plane = f.gep(plan.elem, image, f.mul(at[0], fields["image_channel"]))
        shifts = [f.add(a.begin, f.mul(t, a.dilation)) for a, t in zip(axes, at[1:], strict=True)]
        sizes = [fields["samples"], axes[0].places, axes[1].places]
        columns = axes[2].places
        dense = RowReader(f, plan, axes[2], 1)
        grad_until = dense.whole_until(columns, self.width)
        carried = [(i, "at") for i in split(f, low, sizes)] + [(const(plan.vector, 0.0), "sum")] * self.width
        with f.loop(low, high, 1, "row", carried) as row:
            place = list(row.carried[:3])
            sample = f.gep(plan.elem, plane, f.mul(place[0], fields["image_sample"]))
            source, limit = row_of(f, plan, sample, axes, shifts, place[1:])
            until = reader.whole_until(limit, self.width)
            number = f.add(f.mul(place[1], axes[1].places), place[2])
            from_ = f.gep(plan.elem, grad, f.add(f.mul(place[0], fields["grad_sample"]), f.mul(number, columns)))
            sums = [(s, "sum") for s in row.carried[3:]]
            with f.loop(0, columns, self.width * plan.lanes, "column", sums) as column:
                position = f.add(f.mul(column.index, axes[2].step), shifts[2])
                gs = dense.read_wide(from_, column.index, columns, grad_until, self.width)
                xs = reader.read_wide(source, position, limit, until, self.width)
                column.next(*[
                    multiply_add(f, plan, g, x, s) for g, x, s in zip(gs, xs, column.carried, strict=True)
                ])
            row.next(*following(f, place, sizes), *column.results)
        for i, total in enumerate(row.results[3:]):
            f.store(total, f.gep(plan.elem, self.slot, i * plan.lanes))
        with f.loop(0, const(I64, self.width * plan.lanes), 1, "lane", [(const(plan.elem, 0.0), "sum")]) as lane:
            lane.next(f.fadd(lane.carried[0], f.load(plan.elem, f.gep(plan.elem, self.slot, lane.index))))
        element: Value = lane.results[0]
        return element
