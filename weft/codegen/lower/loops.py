"""A nest's function: tables, loops over rows, passes over the inner axes. See loops/nest.py for what a nest says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.codegen.emit import F64, I64, PTR, Function, Module, Value, const
from weft.codegen.lower.nest import INDEX, SCRATCH, Layout
from weft.codegen.lower.nest_pass import Pass
from weft.codegen.lower.values import Pointers, Spot, Vectors, raw_type
from weft.codegen.scalar.handler import Element
from weft.codegen.target import Target
from weft.loops.nest import FLAT_BLOCK, ONCE, ROW, Instr, Store
from weft.loops.phases import is_inner_store, operands
from weft.types import dtype as dt
from weft.types.dtype import DType

PARAMETERS = ((PTR, "bufs"), (PTR, "ints"), (PTR, "numbers"), (PTR, "scratch"), (I64, "begin"), (I64, "end"))


def emit_nest(module: Module, layout: Layout, target: Target, name: str) -> None:
    """Write the function of a nest into the module."""
    NestEmitter(module.function(name, I64, PARAMETERS), layout, target).emit()


class NestEmitter:
    """Writes one nest. `once`, `row`: values by instruction number that hold everywhere, or within the current row."""

    def __init__(self, function: Function, layout: Layout, target: Target) -> None:
        self.f, self.layout, self.nest = function, layout, layout.nest
        self.v = Vectors(function, target)
        self.bufs, self.table, self.numbers, self.scratch, self.begin, self.end = function.params
        self.dims: dict[tuple[Any, ...], Value] = {}
        self.lookups: dict[tuple[int, int], tuple[Value, Value]] = {}  # (instruction, operand) -> stride, size
        self.bases: Pointers = {}
        self.once: dict[int, Element] = {}
        self.row: dict[int, Element] = {}
        self.row_lanes = layout.wide if self.nest.form == "columns" else 1
        self.row_mask: Value | None = None
        self.part_roots: Pointers = {}  # base addresses of partial results, before a chunk moves them
        self.access_number = {id(a): i for i, a in enumerate(self.nest.accesses)}

    # ---- prologue
    def emit(self) -> None:
        """The whole function."""
        self._load_tables()
        self._leave_if_nothing_is_looked_up()
        for i, instr in enumerate(self.nest.instrs):
            if instr.level == ONCE and instr.kind not in ("reduce", "total", "column"):
                self.once[i] = self._once(i, instr)
        if self.nest.form == "flat":
            self._flat()
        else:
            self._rows()
        self.f.ret(const(I64, 0))

    def _leave_if_nothing_is_looked_up(self) -> None:
        """No indices, no elements: what is the same everywhere would be looked up all the same."""
        for i, instr in enumerate(self.nest.instrs):
            if instr.kind != "offset":
                continue
            count = self.dim("count", i)
            if isinstance(count, Value) or count == 0:
                with self.f.if_(
                    self.f.icmp("eq", count if isinstance(count, Value) else const(I64, count), 0), "nothing"
                ):
                    self.f.ret(const(I64, 0))

    def _load_tables(self) -> None:
        f, nest, layout = self.f, self.nest, self.layout
        for key, slot in layout.slots.items():
            if slot is not None and key[0] == "looked up":
                self.lookups[key[1:]] = (
                    f.load(I64, f.gep(I64, self.table, slot)),
                    f.load(I64, f.gep(I64, self.table, slot + 1), name="size")
                )
            elif slot is not None:
                self.dims[key] = f.load(I64, f.gep(I64, self.table, slot), name="_".join(map(str, key)))
        roots = {
            b: f.load(PTR, f.gep(PTR, self.bufs, b), name=f"b{b}") for b in range(len(nest.reads) + len(nest.writes))
        }
        for number, access in enumerate(nest.accesses):
            offset = self.dim("offset", number)
            if access.buffer == INDEX:
                self.bases[number] = offset if isinstance(offset, Value) else const(I64, offset)
            elif access.buffer == SCRATCH:
                self.bases[number] = f.gep(raw_type(dt.uint8, 1), self.scratch, offset)
            else:
                self.bases[number] = f.gep(raw_type(access.dtype, 1), roots[access.buffer], offset)

    def dim(self, *key: Any) -> Value | int:
        """A size, stride or offset: a value from the table, or the constant that it is."""
        entry = self.dims.get(key)
        if entry is not None:
            return entry
        if key[0] == "size":
            return int(self.nest.axes[key[1]])
        if key[0] == "count":
            return int(self.nest.instrs[key[1]].what.count)
        access = self.nest.accesses[key[1]]
        return int(access.strides[key[2]] if key[0] == "stride" else access.offset)

    def size(self, axis: int) -> Value:
        """Size of an axis as a value."""
        size = self.dim("size", axis)
        return size if isinstance(size, Value) else const(I64, size)

    def _once(self, i: int, instr: Instr) -> Element:
        f, s = self.f, self.v.scalar(1)
        if instr.kind == "literal":
            return self.v.const(instr.what, instr.dtype, 1)
        if instr.kind == "number":
            return s.element(dt.float64, f.load(F64, f.gep(F64, self.numbers, instr.what), name="number"))
        if instr.kind == "size":
            return s.element(dt.int64, self.dims["number", i])
        return self._compute(i, self.once, Spot(1, None, None, self.bases))

    def _compute(self, i: int, elements: dict[int, Element], spot: Spot) -> Element:
        """A load, range, cast or operator, all of whose operands are known with the spot's lanes."""
        instr = self.nest.instrs[i]
        if instr.kind == "load":
            access = self.nest.accesses[instr.what]
            return self.v.load(access.dtype, spot.pointers[instr.what], self._lane_stride(instr.what), spot)
        if instr.kind == "index":
            return self._range(instr.what, spot)
        args = [elements[i] for i in operands(instr)]
        if instr.kind in ("offset", "gather"):
            return self._look_up(i, args, spot)
        if instr.kind == "cast":
            return self.v.cast(args[0], instr.dtype, spot.lanes)
        return self.v.apply(instr, args, spot.lanes)

    def _look_up(self, i: int, indices: list[Element], spot: Spot) -> Element:
        """Elements from where the indices say; for an offset, the access's pointer is moved there instead."""
        f, instr = self.f, self.nest.instrs[i]
        gather, lanes = instr.what, spot.lanes
        offset: Value = const(indices[0].value.type, 0)
        for k, x in enumerate(indices):
            stride, size = self.lookups[i, k]
            at, limit = x.value, f.splat(size, lanes)
            if gather.wraps:
                at = f.select(f.icmp("slt", at, 0), f.add(at, limit), at)
            self._fail_where(f.icmp("uge", at, limit), spot)
            offset = f.add(offset, f.mul(at, f.splat(stride, lanes)))
        access = self.nest.accesses[gather.access]
        if instr.kind == "offset":
            spot.pointers[gather.access] = f.gep(raw_type(access.dtype, 1), spot.pointers[gather.access], offset)
            return indices[0]
        lane_stride = self._lane_stride(gather.access)
        if lane_stride != 0:
            offset = f.add(offset, self.v.lane_indices(lane_stride, spot))
        return self.v.gather(access.dtype, spot.pointers[gather.access], offset, spot)

    def _fail_where(self, bad: Value, spot: Spot) -> None:
        """Leave the kernel with its check's number if any (unmasked) lane is bad."""
        f = self.f
        if spot.mask is not None:
            bad = f.and_(bad, spot.mask)
        with f.if_(f.reduce("or", bad) if bad.type.lanes else bad, "out_of_bounds"):
            f.ret(const(I64, 1))

    def _range(self, number: int, spot: Spot) -> Element:
        f, stride = self.f, self._lane_stride(number)
        base = f.splat(spot.pointers[number], spot.lanes)
        if spot.lanes > 1 and stride != 0:
            base = f.add(base, self.v.lane_indices(stride, spot))
        return Element(dt.int64, base)

    def _lane_stride(self, number: int) -> Value | int:
        axis = self.layout.vector_axis
        access = self.nest.accesses[number]
        if axis < 0:
            return 0
        if access.buffer == SCRATCH:
            return 1
        return self.dim("stride", number, axis)

    # ---- pointers
    def advance(self, pointers: Pointers, axis: int, index: Value, numbers: Sequence[int]) -> Pointers:
        """Pointers of these accesses moved to an index of an axis."""
        moved = dict(pointers)
        for number in numbers:
            stride = self.dim("stride", number, axis)
            if stride == 0:
                continue
            step = self.f.mul(index, stride)
            access = self.nest.accesses[number]
            if access.buffer == INDEX:
                moved[number] = self.f.add(moved[number], step)
            else:
                moved[number] = self.f.gep(raw_type(access.dtype, 1), moved[number], step)
        return moved

    # ---- flat
    def _flat(self) -> None:
        f, size = self.f, self.size(0)
        if self.nest.chunks is None:
            lo = f.mul(self.begin, FLAT_BLOCK, "lo")
            hi = f.smin(f.mul(self.end, FLAT_BLOCK), size, "hi")
            self._pass(0, self.bases, lo, hi)
            return
        portion = self.dims["portion",]
        with f.loop(self.begin, self.end, name="chunk") as loop:
            lo = f.mul(loop.index, portion, "lo")
            hi = f.smin(f.add(lo, portion), size, "hi")
            self.row = {}
            self._pass(0, self.bases, lo, hi)
            for store in self.nest.stores:
                if not is_inner_store(self.nest, store):
                    self._store_part(store, self.row[store.index], loop.index)

    def _store_part(self, store: Store, x: Element, chunk: Value) -> None:
        pointer = self.f.gep(raw_type(store.access.dtype, 1), self.bases[self.access_number[id(store.access)]], chunk)
        self.v.store(x, store.access.dtype, pointer, 0, Spot(1, None, None, {}))

    # ---- rows
    def _rows(self) -> None:
        if self.nest.chunks is None:
            self._row_loop(self.begin, self.end, ())
            return
        f = self.f
        rows = self._row_count()
        portion = self.dims["portion",]
        totals = [i for i, x in enumerate(self.nest.instrs) if x.kind == "total"]
        with f.loop(self.begin, self.end, name="chunk") as loop:
            lo = f.mul(loop.index, portion, "lo")
            hi = f.smin(f.add(lo, portion), rows, "hi")
            self._clear_columns(loop.index)
            results = self._row_loop(lo, hi, totals)
            for i, x in zip(totals, results, strict=False):
                for store in self.nest.stores:
                    if store.index == i:
                        self._store_part(store, x, loop.index)

    def _row_count(self) -> Value:
        total = const(I64, 1)
        for axis in range(len(self.nest.outer)):
            total = self.f.mul(total, self._outer_size(axis), "rows")
        return total

    def _outer_size(self, axis: int) -> Value:
        size = self.size(axis)
        if self.nest.form == "columns" and axis == len(self.nest.outer) - 1:
            wide = self.layout.wide
            return self.f.sdiv(self.f.add(size, wide - 1), wide, "blocks")
        return size

    def _row_loop(self, lo: Value, hi: Value, totals: Sequence[int]) -> list[Element]:
        f, count = self.f, len(self.nest.outer)
        sizes = [self._outer_size(k) for k in range(count)]
        identities = [self.v.identity(str(self.nest.instrs[i].what), self._compute_dtype(i), 1) for i in totals]
        start = self._decompose(lo, sizes) if count > 1 else []
        carried = [(v, f"i{k}") for k, v in enumerate(start)] + [(x.value, "total") for x in identities]
        with f.loop(lo, hi, name="row", carried=carried) as loop:
            indices = list(loop.carried[: len(start)]) if count > 1 else [loop.index] * count
            sums = {
                i: Element(x.dtype, v) for i, x, v in zip(totals, identities, loop.carried[len(start) :], strict=False)
            }
            results = self._row(indices, sums)
            loop.next(*(self._next_index(indices, sizes) if count > 1 else ()), *(results[i].value for i in totals))
        return [Element(x.dtype, v) for x, v in zip(identities, loop.results[len(start) :], strict=False)]

    def _compute_dtype(self, i: int) -> DType:
        dtype = self.nest.instrs[i].compute
        assert dtype is not None
        return dtype

    def _decompose(self, row: Value, sizes: list[Value]) -> list[Value]:
        f = self.f
        out: list[Value] = []
        for size in reversed(sizes[1:]):
            by = f.smax(size, 1)
            out.append(f.urem(row, by))
            row = f.udiv(row, by)
        return [row, *reversed(out)]

    def _next_index(self, indices: list[Value], sizes: list[Value]) -> list[Value]:
        f = self.f
        out: list[Value] = []
        step: Value = const(I64, 1)
        for k in range(len(indices) - 1, 0, -1):
            following = f.add(indices[k], step)
            wraps = f.icmp("sge", following, sizes[k])
            out.append(f.select(wraps, 0, following))
            step = f.zext(wraps, I64)
        return [f.add(indices[0], step), *reversed(out)]

    def _row(self, indices: list[Value], sums: dict[int, Element]) -> dict[int, Element]:
        """One row: its pointers, its values, the passes, what is stored once per row."""
        pointers = dict(self.bases)
        spot = self._row_spot(indices, pointers)
        self.row = {}
        hi = self.size(len(self.nest.axes) - 1) if self.nest.inner else const(I64, 1)
        for phase in range(self.nest.phases + 1):
            for i, instr in enumerate(self.nest.instrs):
                if instr.level == ROW and instr.phase == phase and instr.kind not in ("reduce", "total", "column"):
                    self.row[i] = self._row_value(i, spot)
            if phase < self.nest.phases:
                self._pass(phase, spot.pointers, const(I64, 0), hi)
        for store in self.nest.stores:
            if not is_inner_store(self.nest, store) and self.nest.instrs[store.index].kind not in ("total", "column"):
                number = self.access_number[id(store.access)]
                self.v.store(
                    self.row_value(store.index), store.access.dtype,
                    spot.pointers[number], self._lane_stride(number), spot,
                )
        return {i: self._add_total(i, x) for i, x in sums.items()}

    def _row_spot(self, indices: list[Value], pointers: Pointers) -> Spot:
        f, numbers = self.f, list(range(len(self.nest.accesses)))
        if self.nest.form != "columns":
            for axis, index in enumerate(indices):
                pointers = self.advance(pointers, axis, index, numbers)
            return Spot(1, None, None, pointers)
        wide, last = self.layout.wide, len(indices) - 1
        for axis in range(last):
            pointers = self.advance(pointers, axis, indices[axis], numbers)
        first = f.mul(indices[last], wide, "column")
        plain = [n for n in numbers if self.nest.accesses[n].buffer != SCRATCH]
        pointers = self.advance(pointers, last, first, plain)
        mask = self.row_mask = None if self.layout.is_whole else f.first_lanes(f.sub(self.size(last), first), wide)
        return Spot(wide, None, mask, pointers)

    def _row_value(self, i: int, spot: Spot) -> Element:
        elements = {k: self.row_value(k) for k in operands(self.nest.instrs[i])}
        return self._compute(i, elements, spot)

    def row_value(self, i: int) -> Element:
        """A value of level ONCE or ROW, with a row's lanes."""
        element = self.row.get(i)
        if element is not None:
            return element
        self.row[i] = self.v.splat(self.once[i], self.row_lanes)
        return self.row[i]

    def _add_total(self, i: int, total: Element) -> Element:
        instr = self.nest.instrs[i]
        value = self.v.cast(self.row_value(instr.args[0].index), total.dtype, 1)
        return self.v.combine(str(instr.what), total, value, 1)

    # ---- running results of columns
    def _columns(self, phase: int | None = None) -> list[tuple[int, Instr, Store]]:
        return [(i, x, s) for s in self.nest.stores for i, x in ((s.index, self.nest.instrs[s.index]),)
                if x.kind == "column" and (phase is None or x.phase == phase)]

    def _clear_columns(self, chunk: Value) -> None:
        """Point the running results at the chunk's part and set them to the identity."""
        f = self.f
        width = const(I64, 1)
        for k in range(len(self.nest.outer), len(self.nest.axes)):
            width = f.mul(width, self.size(k), "width")
        start = f.mul(chunk, width)
        for i, instr, store in self._columns():
            number, dtype = self.access_number[id(store.access)], store.access.dtype
            root = self.part_roots.setdefault(number, self.bases[number])
            self.bases[number] = f.gep(raw_type(dtype, 1), root, start)
            lanes = self.layout.lanes
            with f.loop(0, width, lanes, name="clear") as loop:
                spot = Spot(lanes, loop.index, f.first_lanes(f.sub(width, loop.index), lanes), {})
                self.v.store(
                    self.v.identity(str(instr.what), self._compute_dtype(i), lanes), dtype, self.bases[number], 1, spot
                )

    # ---- one pass over the inner axes
    def _pass(self, phase: int, pointers: Pointers, lo: Value, hi: Value) -> None:
        """Run the inner loops once: reductions that end with this phase, stores and running results
        that begin with it."""
        Pass(self, phase).run(pointers, lo, hi)

