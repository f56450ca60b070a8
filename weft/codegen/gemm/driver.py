"""The blocked driver of the matrix product: which block of B, which rows of A, which kernel.

    for columns jc of B, `plan.columns` at a time          (all of them at once where B was packed ahead)
      for k, in equal steps of at most `plan.depth`        (the steps hang on K alone: that fixes the order of the sums)
        find the block of B: in place, packed now, or packed ahead
        a narrow block stays in the second-level cache, and strips of A pass over it:
          for strips of rows: read in place or packed
            every panel of the block: one call of a strip kernel
        of a wide one, panel after panel stays in the first-level cache, while a packed block of A in the second-level
        cache passes over it:
          for blocks of rows, `plan.block_strips` strips each
            pack the strips
            for panels: for strips: one call of a strip kernel

Strides are in bytes from here on. Nothing depends on where a range of rows or columns begins or ends except which
kernel computes a row, and all kernels add in the same order: results are equal bit by bit for every split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.codegen.emit import I1, I8, I64, PTR, VOID, Function, Module, Signature, Value, const

from .kernel import BY_COLUMNS, BY_ROWS, Epilogue, emit_strip, store_tile
from .pack import emit_pack
from .tiles import GemmPlan

IN_PLACE_ROWS = 48  # below as many rows of A, packing a block of B costs more than it saves
IN_PLACE_COLLIDING, COLLIDING_BYTES = 16, 1024  # the same where rows of B lie a multiple of so many bytes apart
PACKED_ROWS = 16  # rows of B that are packed at a time, where they follow each other in memory
REMAINDER_ROWS = 7  # the kernels: one for each number of rows up to this, and the full tile
FEWEST_ROWS = 4  # a strip of fewer rows has too few independent sums to hide the latency of one
NEAR_BYTES = 1024  # columns of A no farther apart are read in place
FEW_COLUMNS = 64  # as many columns of A are, however far apart
IN_PLACE, PACKED, AHEAD = 0, 1, 2


@dataclass(frozen=True)
class Block:
    """A block of B as strip kernels see it."""

    start: Value
    stride: Value
    panel: Value
    edge: Value


@dataclass(frozen=True)
class Part:
    """The part of B at (pc, jc) as it lies: where, its sizes, its whole panels, bytes from panel to panel and from row
    to row of a panel when it is packed."""

    source: Value
    jc: Value
    columns: Value
    pc: Value
    depth: Value
    whole: Value
    panel: Value
    stride: Value


class Driver:
    """Writes the driver `core`: (A, rsA, csA, B, rsB, csB, C, rsC, N, K, adds, workspace, m0, m1, mode),
    strides in bytes. B and C begin at the first of N columns.

    In mode AHEAD B is packed: in steps of k, in them panels; see `_block_ahead` for what its strides are then.
    """

    NAMES: ClassVar[list[str]] = [
        "A",
        "rsA",
        "csA",
        "B",
        "rsB",
        "csB",
        "C",
        "rsC",
        "N",
        "K",
        "adds",
        "workspace",
        "m0",
        "m1",
        "mode",
    ]
    TYPES = (PTR, I64, I64, PTR, I64, I64, PTR, I64, I64, I64, I1, PTR, I64, I64, I64)

    def __init__(self, module: Module, plan: GemmPlan, epilogue: Epilogue = store_tile) -> None:
        self.plan = plan
        heights = sorted({*range(1, min(REMAINDER_ROWS, plan.rows) + 1), plan.rows})
        self.pack = emit_pack(module, plan)
        self.strips = {
            (kind, rows): emit_strip(module, plan, f"{plan.prefix}_{kind}_{rows}_{plan.suffix}", kind, rows, epilogue)
            for kind in (BY_ROWS, BY_COLUMNS)
            for rows in heights
        }
        self.f = f = module.function(
            f"{plan.prefix}_core_{plan.suffix}", VOID, list(zip(self.TYPES, self.NAMES, strict=True)), internal=True
        )
        self.arg = dict(zip(self.NAMES, f.params, strict=True))
        self.size = plan.elem.bytes
        self._write()

    @property
    def signature(self) -> Signature:
        """For callers."""
        return self.f.signature

    def _write(self) -> None:
        f, arg, plan = self.f, self.arg, self.plan
        with f.if_(f.icmp("eq", arg["K"], 0), "empty"):
            with f.if_(f.not_(arg["adds"]), "zero"):
                self._clear_rows()
            f.ret()
        self.depth = equal_steps(f, arg["K"], plan.depth)
        self.strip_bytes = const(I64, plan.strip * self.size)
        self.by_rows, self.by_columns = self._kinds()
        is_ahead = f.icmp("eq", arg["mode"], AHEAD)
        # B packed ahead needs no room here, strips of A do; with a block of B there is one strip at a time.
        self.is_wide = f.and_(is_ahead, f.icmp("sgt", arg["N"], plan.columns), "is_wide")
        self.b_space = f.gep(I8, arg["workspace"], f.mul(f.smin(arg["K"], self.depth), self.strip_bytes))
        span = f.select(is_ahead, arg["N"], const(I64, plan.columns), "span")
        with f.loop(0, arg["N"], span, "jc") as outer:
            columns = f.smin(f.sub(arg["N"], outer.index), span, "columns")
            with f.loop(0, arg["K"], self.depth, "pc") as inner:
                self._block(outer.index, columns, inner.index)
        f.ret()

    def _kinds(self) -> tuple[Value, Value]:
        """How A is read: in place by rows, in place by columns, or (neither) through a packed strip."""
        f, arg, plan = self.f, self.arg, self.plan
        # Columns far apart touch a page or two of their own for each k, for every panel again:
        # packing them once is cheaper.
        is_near = f.or_(f.icmp("sle", arg["csA"], NEAR_BYTES), f.icmp("sle", arg["N"], plan.panel))
        is_near = f.or_(is_near, f.icmp("sle", arg["K"], FEW_COLUMNS))
        has_columns = f.icmp("eq", arg["rsA"], self.size)
        by_columns = f.and_(has_columns, is_near)
        # Rows a multiple of 4096 bytes apart share the sets of the first-level cache and push one another out.
        collides = f.and_(f.icmp("eq", f.and_(arg["rsA"], 4095), 0), f.icmp("ne", arg["rsA"], 0))
        by_rows = f.and_(f.icmp("eq", arg["csA"], self.size), f.not_(f.or_(has_columns, collides)))
        return by_rows, by_columns

    def _clear_rows(self) -> None:
        f, arg = self.f, self.arg
        with f.loop(arg["m0"], arg["m1"], 1, "row") as loop:
            f.memset(f.gep(I8, arg["C"], f.mul(loop.index, arg["rsC"])), 0, f.mul(arg["N"], self.size))

    def _block(self, jc: Value, columns: Value, pc: Value) -> None:
        f, arg, plan = self.f, self.arg, self.plan
        depth = f.smin(f.sub(arg["K"], pc), self.depth, "depth")
        block = self._find_block(jc, columns, pc, depth)
        self.adds = f.or_(arg["adds"], f.icmp("sgt", pc, 0), "adds")
        self.a = f.gep(I8, arg["A"], f.mul(pc, arg["csA"]))
        self.c = f.gep(plan.elem, arg["C"], jc)
        with f.if_else(self.is_wide, "wide") as order:
            with order.then:
                self._panel_by_panel(block, depth, columns)
            with order.otherwise:
                self._strip_by_strip(block, depth, columns, jc)

    def _strip_by_strip(self, block: Block, depth: Value, columns: Value, jc: Value) -> None:
        f, arg = self.f, self.arg
        with f.while_loop([(arg["m0"], "row")], "strips") as loop:
            row = loop.carried[0]
            loop.test(f.icmp("slt", row, arg["m1"]))
            rows = self._height(f.sub(arg["m1"], row))
            strip = f.gep(I8, self.a, f.mul(row, arg["rsA"]))
            corner = f.gep(I8, self.c, f.mul(row, arg["rsC"]))
            panels = [block.start, block.stride, block.panel, block.edge]
            place = [corner, arg["rsC"], depth, columns, row, jc, self.adds]
            self._strip(rows, strip, depth, [*panels, *place])
            loop.next(f.add(row, rows))

    def _panel_by_panel(self, block: Block, depth: Value, columns: Value) -> None:
        """All columns of B, packed ahead: blocks of rows of A are packed, and each panel meets the whole block."""
        f, arg, plan = self.f, self.arg, self.plan
        most = plan.rows * plan.block_strips
        strip_size = f.mul(depth, self.strip_bytes, "strip_size")
        with f.while_loop([(arg["m0"], "first")], "rows") as blocks:
            first = blocks.carried[0]
            left = f.sub(arg["m1"], first)
            blocks.test(f.icmp("sgt", left, 0))
            last = f.add(first, f.select(f.icmp("sle", left, most + plan.rows), left, const(I64, most)), "last")
            with f.while_loop([(first, "row"), (arg["workspace"], "space")], "pack") as strips:
                row, space = strips.carried
                strips.test(f.icmp("slt", row, last))
                rows = self._height(f.sub(last, row))
                source = f.gep(I8, self.a, f.mul(row, arg["rsA"]))
                f.call(self.pack, [source, arg["rsA"], arg["csA"], rows, depth, space, self.strip_bytes])
                strips.next(f.add(row, rows), f.gep(I8, space, strip_size))
            with f.loop(0, columns, plan.panel, "column", [(block.start, "panel")]) as panels:
                width = f.smin(f.sub(columns, panels.index), plan.panel)
                at = panels.carried[0]
                with f.while_loop([(first, "row"), (arg["workspace"], "space")], "strips") as strips:
                    row, space = strips.carried
                    strips.test(f.icmp("slt", row, last))
                    rows = self._height(f.sub(last, row))
                    corner = f.gep(plan.elem, f.gep(I8, self.c, f.mul(row, arg["rsC"])), panels.index)
                    b = [at, block.stride, block.panel, at]
                    place = [corner, arg["rsC"], depth, width, row, panels.index, self.adds]
                    self._call_kernel(BY_COLUMNS, rows, [space, self.strip_bytes, *b, *place])
                    strips.next(f.add(row, rows), f.gep(I8, space, strip_size))
                panels.next(f.gep(I8, at, block.panel))
            blocks.next(last)

    def _height(self, left: Value) -> Value:
        """Rows of the next strip: a full tile, or equal parts of what is left where a full tile would leave
        too few rows over."""
        f, plan = self.f, self.plan
        is_full = f.or_(f.icmp("eq", left, plan.rows), f.icmp("sge", left, plan.rows + FEWEST_ROWS))
        with f.if_else(is_full, "full") as height:
            with height.then:
                height.give(const(I64, plan.rows))
            with height.otherwise:
                most = min(REMAINDER_ROWS, plan.rows)
                parts = f.udiv(f.add(left, most - 1), most)
                height.give(f.udiv(f.add(left, f.sub(parts, 1)), parts))
        return height.results[0]

    def _strip(self, rows: Value, strip: Value, depth: Value, rest: list[Value]) -> None:
        f, arg = self.f, self.arg
        with f.if_else(self.by_rows, "in_rows") as how:
            with how.then:
                self._call_kernel(BY_ROWS, rows, [strip, arg["rsA"], *rest])
            with how.otherwise:
                with f.if_else(self.by_columns, "in_columns") as where:
                    with where.then:
                        where.give(strip, arg["csA"])
                    with where.otherwise:
                        space = arg["workspace"]
                        f.call(self.pack, [strip, arg["rsA"], arg["csA"], rows, depth, space, self.strip_bytes])
                        where.give(space, self.strip_bytes)
                self._call_kernel(BY_COLUMNS, rows, [*where.results, *rest])

    def _call_kernel(self, kind: str, rows: Value, args: list[Value]) -> None:
        f = self.f
        heights = [height for of_kind, height in self.strips if of_kind == kind]
        labels, done = [f.block(f"{kind}_{height}") for height in heights], f.block("strip_done")
        f.switch(rows, labels[-1], list(zip(heights, labels, strict=True))[:-1])
        for height, label in zip(heights, labels, strict=True):
            f.place(label)
            f.call(self.strips[kind, height], args)
            f.br(done)
        f.place(done)

    def _find_block(self, jc: Value, columns: Value, pc: Value, depth: Value) -> Block:
        """The block of B at (pc, jc): in place but for its edge, packed now, or packed ahead."""
        f, arg, plan = self.f, self.arg, self.plan
        source = f.gep(I8, f.gep(I8, arg["B"], f.mul(pc, arg["rsB"])), f.mul(jc, arg["csB"]))
        stride = const(I64, plan.panel * self.size)
        panel = f.mul(depth, stride, "panel")
        part = Part(source, jc, columns, pc, depth, f.udiv(columns, plan.panel), panel, stride)
        labels = [f.block(word) for word in ("b_in_place", "b_packed", "b_ahead")]
        done = f.block("b_done")
        f.switch(arg["mode"], labels[PACKED], [(IN_PLACE, labels[IN_PLACE]), (AHEAD, labels[AHEAD])])
        ends = []
        for label, find in zip(labels, (self._block_in_place, self._block_packed, self._block_ahead), strict=True):
            f.place(label)
            values = find(part)
            ends.append((values, f.current))
            f.br(done)
        f.place(done)
        phis = [f.phi(v.type, [(values[at], end) for values, end in ends], f"b{at}") for at, v in enumerate(ends[0][0])]
        return Block(phis[0], phis[1], phis[2], phis[3])

    def _pack_panels(self, source: Value, first: Value, columns: Value, depth: Value, to: Value, panel: Value) -> None:
        """Panels `first`, first + 1, ... of the block to consecutive places."""
        f, arg = self.f, self.arg
        begin = f.mul(first, self.plan.panel)
        pack_panels(f, self.plan, self.pack, source, arg["csB"], arg["rsB"], begin, columns, depth, to, panel)

    def _block_in_place(self, part: Part) -> list[Value]:
        self._pack_panels(part.source, part.whole, part.columns, part.depth, self.b_space, part.panel)
        return [part.source, self.arg["rsB"], part.stride, self.b_space]

    def _block_packed(self, part: Part) -> list[Value]:
        self._pack_panels(part.source, const(I64, 0), part.columns, part.depth, self.b_space, part.panel)
        return [self.b_space, part.stride, part.panel, self.f.gep(I8, self.b_space, self.f.mul(part.whole, part.panel))]

    def _block_ahead(self, part: Part) -> list[Value]:
        """B packed ahead: `rsB` is the bytes of a row, `csB` the first column of this call."""
        f, arg = self.f, self.arg
        first = f.mul(f.mul(f.add(part.jc, arg["csB"]), part.depth), self.size)
        start = f.gep(I8, arg["B"], f.add(f.mul(part.pc, arg["rsB"]), first))
        return [start, part.stride, part.panel, f.gep(I8, start, f.mul(part.whole, part.panel))]


def pack_panels(
    f: Function, plan: GemmPlan, pack: Signature, source: Value, across: Value, along: Value, begin: Value,
    end: Value, depth: Value, to: Value, panel: Value,
) -> None:
    """Columns [begin, end) of B, `across` bytes apart, as panels: `to` is the first one's place, `panel` the bytes from
    one to the next. Rows that are wide lie on pages of their own: where columns follow each other, a few rows are read
    from end to end before the next."""
    size = plan.elem.bytes
    row_bytes = const(I64, plan.panel * size)
    few = f.select(f.icmp("eq", across, size), const(I64, PACKED_ROWS), depth, "few")
    with f.loop(0, depth, few, "k") as rows:
        count = f.smin(f.sub(depth, rows.index), few)
        first, place = f.gep(I8, source, f.mul(rows.index, along)), f.gep(I8, to, f.mul(rows.index, row_bytes))
        with f.loop(begin, end, plan.panel, "column", [(place, "place")]) as columns:
            width = f.smin(f.sub(end, columns.index), plan.panel)
            at = f.gep(I8, first, f.mul(columns.index, across))
            f.call(pack, [at, across, along, width, count, columns.carried[0], row_bytes])
            columns.next(f.gep(I8, columns.carried[0], panel))


def equal_steps(f: Function, total: Value, most: int) -> Value:
    """The step that cuts total (> 0) into the fewest steps of at most `most`, all but the last equal,
    a multiple of 8."""
    count = f.udiv(f.add(total, most - 1), most)
    step = f.udiv(f.add(total, f.sub(count, 1)), count)
    return f.and_(f.add(step, 7), -8, "step")
