"""The gradient of a convolution's weight: lines of the image times the cotangent, summed over all places.

    item = (chunk of the blocks of places, group, range of lines)
      for blocks of `UNIT` places of the chunk
        pack the item's lines
        for panels of channels of the cotangent    (transposed as they are packed: [place][channel])
          for strips of lines: one register tile, added to the sums

The chunks are summed up in order at the end. How many there are, and what a block is, hangs on sizes alone.
"""

from __future__ import annotations

from weft.codegen.emit import I8, I64, PTR, Function, Module, Signature, Value, const
from weft.codegen.gemm.pack import emit_pack
from weft.codegen.gemm.tiles import GemmPlan

from .lines import Block, Image, LinePacker
from .narrow import RowSums
from .prototypes import KERNEL, SHARES, UNIT, Fields, convolution_symbol, line_bytes, padded, product_of
from .tiles import LineTiles, Strips
from .window import equal, segments, split, up, window_axes

MOST_LINES, FEWEST_LINES = 288, 24  # of an item: the packed lines of a block fill a quarter of a second-level cache
SUMS = 32 * 1024  # elements of an item's sums, which stay there too
NARROW = 2  # channels out of a group, at most, for which a product has next to nothing to share


class WeightSums:
    """Writes `weight_sums`. Sums are [chunk][group][line][channel], channels padded to whole vectors."""

    def __init__(self, module: Module, plan: GemmPlan, tiles: LineTiles) -> None:
        self.plan, self.tiles, self.pack = plan, tiles, emit_pack(module, plan)
        self.f = f = module.function(convolution_symbol("weight_sums", plan.dtype), I64, KERNEL)
        self.fields = fields = Fields(f, f.params[1])
        image, grad, self.sums = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in range(3))
        self.image = f.gep(plan.elem, image, fields["image_offset"])
        self.grad = f.gep(plan.elem, grad, fields["grad_offset"])
        self.axes = window_axes(f, fields)
        self.depth = f.mul(fields["channels"], product_of(f, fields.axes("kernel")), "depth")
        self.width = padded(f, plan, fields["outputs"])
        self.packer, self.rows = LinePacker(f, plan), RowSums(f, plan, fields, self.axes)
        most = f.smax(f.sdiv(const(I64, SUMS), f.smax(fields["outputs"], 1)), FEWEST_LINES)
        self.lines = equal(f, self.depth, f.smin(most, MOST_LINES))
        ranges = up(f, self.depth, self.lines)
        total = product_of(f, [fields["chunks"], fields["groups"], ranges])
        low, high = (f.udiv(f.mul(total, share), SHARES) for share in f.params[4:6])
        with f.loop(low, high, 1, "item") as part:
            chunk, group, number = split(f, part.index, [const(I64, 0), fields["groups"], ranges])
            first = f.mul(number, self.lines)
            last = f.smin(f.add(first, self.lines), self.depth)
            channels = f.mul(group, f.mul(fields["channels"], fields["image_channel"]))
            source = Image(f.gep(plan.elem, self.image, channels), fields["image_sample"], fields["image_channel"])
            grads = f.gep(plan.elem, self.grad, f.mul(group, f.mul(fields["outputs"], fields["grad_channel"])))
            row = f.add(f.mul(f.add(f.mul(chunk, fields["groups"]), group), self.depth), first)
            target = f.gep(plan.elem, self.sums, f.mul(row, self.width), "target")
            with f.if_else(f.icmp("sle", fields["outputs"], NARROW), "narrow") as how:
                with how.then:
                    self.rows.write(source.start, grads, chunk, first, last, target, self.width)
                with how.otherwise:
                    self._products(source, grads, chunk, first, last, target)
        f.ret(const(I64, 0))

    def _products(
        self, source: Image, grads: Value, chunk: Value, first: Value, last: Value, target: Value
    ) -> None:
        """Lines first to last of the chunk's blocks times the cotangent."""
        f, fields, plan, width = self.f, self.fields, self.plan, self.width
        size, lines, stride = plan.elem.bytes, f.params[3], const(I64, line_bytes(UNIT, plan.elem.bytes))
        panel = f.gep(I8, lines, f.add(f.mul(f.smin(self.lines, self.depth), stride), 64), "panel")
        places = product_of(f, fields.axes("size"))
        total = f.mul(fields["samples"], places)
        blocks = f.udiv(f.add(total, UNIT - 1), UNIT, "blocks")
        low, high = (f.udiv(f.mul(c, blocks), fields["chunks"]) for c in (chunk, f.add(chunk, 1)))
        with f.if_(f.icmp("sge", low, high), "nothing"):
            f.memset(target, 0, f.mul(f.mul(f.sub(last, first), width), size))
        with f.loop(low, high, 1, "block") as number:
            begin = f.mul(number.index, UNIT)
            count = f.smin(f.sub(total, begin), UNIT, "count")
            block = Block(begin, count, lines, stride)
            self.packer.pack(source, self.axes, fields["samples"], first, last, block)
            adds = f.icmp("sgt", number.index, low)
            strips = Strips(f, plan, f.sub(last, first))
            with f.loop(0, fields["outputs"], plan.panel, "column") as column:
                left = f.sub(fields["outputs"], column.index)
                from_ = f.gep(plan.elem, grads, f.mul(column.index, fields["grad_channel"]))
                _pack_panel(f, plan, self.pack, fields, from_, f.smin(left, plan.panel), places, block, panel)
                vectors = self.tiles.vectors_for(f, left)
                to = f.gep(plan.elem, target, column.index)
                with f.loop(0, strips.count, 1, "strip") as strip:
                    at, rows = strips.start(strip.index), strips.rows(strip.index)
                    a = f.gep(I8, lines, f.mul(at, stride))
                    c = f.gep(plan.elem, to, f.mul(at, width))
                    ldb = const(I64, plan.panel * size)
                    self.tiles.call(f, rows, vectors, [a, stride, panel, ldb, c, f.mul(width, size), count, adds])


def _pack_panel(
    f: Function, plan: GemmPlan, pack: Signature, fields: Fields, source: Value, count: Value, places: Value,
    block: Block, panel: Value,
) -> None:
    """`count` channels of the cotangent at the places of a block: [place][channel]."""
    size = plan.elem.bytes
    one, ldb = const(I64, 1), const(I64, plan.panel * size)
    with segments(f, block.begin, block.count, [fields["samples"], one, one, places]) as run:
        at = f.add(f.mul(run.at[0], fields["grad_sample"]), run.at[3])
        from_ = f.gep(plan.elem, source, at)
        to = f.gep(I8, panel, f.mul(run.done, ldb))
        f.call(pack, [from_, f.mul(fields["grad_channel"], size), const(I64, size), count, run.length, to, ldb])


def emit_weight_total(module: Module, plan: GemmPlan) -> None:
    """Write `weight_total`: parts are rows (group, channel) of the weight."""
    f = module.function(convolution_symbol("weight_total", plan.dtype), I64, KERNEL)
    fields = Fields(f, f.params[1])
    sums, weight = (f.load(PTR, f.gep(PTR, f.params[0], i)) for i in range(2))
    depth = f.mul(fields["channels"], product_of(f, fields.axes("kernel")), "depth")
    width = padded(f, plan, fields["outputs"])
    of_group = f.mul(depth, width)
    of_chunk = f.mul(of_group, fields["groups"])
    with f.loop(f.params[4], f.params[5], 1, "row") as row:
        group = f.udiv(row.index, f.smax(fields["outputs"], 1))
        channel = f.sub(row.index, f.mul(group, fields["outputs"]))
        start = f.gep(plan.elem, sums, f.add(f.mul(group, of_group), channel))
        target = f.gep(plan.elem, weight, f.mul(row.index, depth))
        with f.loop(0, depth, 1, "line", [(start, "from")]) as line:
            carried = [(f.load(plan.elem, line.carried[0]), "sum"), (line.carried[0], "at")]
            with f.loop(1, fields["chunks"], 1, "chunk", carried) as chunk:
                at = f.gep(plan.elem, chunk.carried[1], of_chunk)
                chunk.next(f.fadd(chunk.carried[0], f.load(plan.elem, at)), at)
            f.store(chunk.results[0], f.gep(plan.elem, target, line.index))
            line.next(f.gep(plan.elem, line.carried[0], width))
    f.ret(const(I64, 0))
