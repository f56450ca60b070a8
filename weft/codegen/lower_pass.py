"""One pass of a nest over its inner axes: the loops, the values computed in them, reductions, stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.codegen.emit import I64, Value, const
from weft.codegen.lower_values import Pointers, Spot, identity_of
from weft.codegen.scalar_llvm import Element, register_type
from weft.loops.nest import FULL, Instr
from weft.loops.phases import is_inner_store, operands, phase_roots
from weft.types import dtype as dt
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.codegen.lower_loops import NestEmitter

_ARGS = ("argmax", "argmin")


@dataclass
class Reduction:
    """A reduction that this pass completes; its carried values are one vector, or for argmax the best elements and their indices."""

    number: int
    instr: Instr
    dtype: DType

    @property
    def combine(self) -> str:
        return str(self.instr.what)

    @property
    def is_arg(self) -> bool:
        return self.combine in _ARGS


class Pass:
    """The inner loops of one phase."""

    def __init__(self, emitter: NestEmitter, phase: int) -> None:
        self.e, self.f, self.v, self.phase = emitter, emitter.f, emitter.v, phase
        self.nest, self.layout = emitter.nest, emitter.layout
        self.is_columns = self.nest.form == "columns"
        self.reductions = [
            Reduction(i, x, x.compute or x.dtype) for i, x in enumerate(self.nest.instrs) if x.kind == "reduce" and x.phase == phase + 1
        ]
        self.stores = [s for s in self.nest.stores if is_inner_store(self.nest, s) and self.nest.instrs[s.index].phase == phase]
        self.columns = emitter._columns(phase)
        self.kept = [i for i, x in enumerate(self.nest.instrs) if x.kept and x.phase == phase]
        self.used, self.outside = self._needs()
        self.splats: dict[tuple[int, int], Element] = {}
        self.widths = self._widths()

    def _needs(self) -> tuple[list[int], list[int]]:
        """Instructions computed in the loop, in order; and values from outside it that they use."""
        inside: set[int] = set()
        outside: set[int] = set()
        stack = phase_roots(self.nest, self.phase)
        while stack:
            i = stack.pop()
            instr = self.nest.instrs[i]
            if instr.level < FULL:
                outside.add(i)
                continue
            if i in inside:
                continue
            inside.add(i)
            if not self._is_fetched(i):
                stack += operands(instr)
        return sorted(inside), sorted(outside)

    def _is_fetched(self, i: int) -> bool:
        instr = self.nest.instrs[i]
        return instr.kept and instr.phase < self.phase

    def _widths(self) -> tuple[int, ...]:
        """Lanes of the main loop and of the masked rest; one width for columns."""
        layout = self.layout
        if self.is_columns:
            return (layout.wide,)
        if layout.is_short:
            return (layout.lanes,)
        return (layout.wide,) if layout.is_whole else (layout.wide, layout.lanes)

    # ---- the loops
    def run(self, pointers: Pointers, lo: Value, hi: Value) -> None:
        """Emit the pass. lo, hi: range of the last inner axis."""
        for lanes in self.widths:
            for i in self.outside:
                self._splat(i, lanes)
        numbers = self._accesses()
        carried = [v for lanes in self.widths for r in self.reductions for v in self._start(r, lanes)]
        results = self._nested(len(self.nest.outer), pointers, const(I64, 0), carried, numbers, lo, hi)
        self._finish(results)

    def _splat(self, i: int, lanes: int) -> None:
        if self.nest.instrs[i].level == 0:
            self.splats[i, lanes] = self.v.splat(self.e.once[i], lanes)
        elif self.is_columns:
            self.splats[i, lanes] = self.e.row_value(i)
        else:
            self.splats[i, lanes] = self.v.splat(self.e.row_value(i), lanes)

    def _accesses(self) -> list[int]:
        numbers = {self.nest.instrs[i].what for i in self.used if self.nest.instrs[i].kind in ("load", "index") and not self._is_fetched(i)}
        numbers |= {self.nest.instrs[i].what.access for i in self.used if self.nest.instrs[i].kind == "pick"}
        numbers |= {self.e.access_number[id(s.access)] for s in self.stores}
        numbers |= {self.e.access_number[id(s.access)] for _, _, s in self.columns}
        numbers |= {self._home(i) for i in (*self.kept, *(i for i in self.used if self._is_fetched(i)))}
        return sorted(numbers)

    def _home(self, i: int) -> int:
        return self.e.access_number[id(self.layout.homes[i])]

    def _nested(self, axis: int, pointers: Pointers, linear: Value, carried: list[Value], numbers: list[int], lo: Value, hi: Value) -> list[Value]:
        """Loops over the inner axes from `axis` on. linear: row-major index over the inner axes so far."""
        last = len(self.nest.axes) - 1
        if axis > last:
            return self._vector_body(Spot(self.widths[0], None, self.e.row_mask, pointers), linear, carried)
        if axis == last and not self.is_columns:
            return self._vector_loops(pointers, linear, carried, lo, hi)
        f, size = self.f, self.e.size(axis)
        with f.loop(0, size, name=f"j{axis}", carried=[(v, "acc") for v in carried]) as loop:
            moved = self.e.advance(pointers, axis, loop.index, numbers)
            at = f.add(f.mul(linear, size), loop.index)
            loop.next(*self._nested(axis + 1, moved, at, list(loop.carried), numbers, lo, hi))
        return list(loop.results)

    def _vector_loops(self, pointers: Pointers, linear: Value, carried: list[Value], lo: Value, hi: Value) -> list[Value]:
        """The last inner axis: whole steps, then what remains under a mask."""
        f, layout = self.f, self.layout
        base = f.mul(linear, self.e.size(len(self.nest.axes) - 1)) if any(r.is_arg for r in self.reductions) else linear
        if layout.is_short:
            mask = f.first_lanes(f.sub(hi, lo), layout.lanes)
            return self._vector_body(Spot(layout.lanes, lo, mask, pointers), base, carried)
        count = sum(2 if r.is_arg else 1 for r in self.reductions)
        wide = layout.wide
        stop = f.add(lo, f.and_(f.sub(hi, lo), -wide), "whole")
        with f.loop(lo, stop, wide, name="j", carried=[(v, "acc") for v in carried[:count]]) as loop:
            loop.next(*self._vector_body(Spot(wide, loop.index, None, pointers), base, list(loop.carried)))
        results = list(loop.results)
        if layout.is_whole:
            return results
        with f.loop(stop, hi, layout.lanes, name="rest", carried=[(v, "acc") for v in carried[count:]]) as loop:
            mask = f.first_lanes(f.sub(hi, loop.index), layout.lanes)
            loop.next(*self._vector_body(Spot(layout.lanes, loop.index, mask, pointers), base, list(loop.carried)))
        return results + list(loop.results)

    # ---- the body
    def _vector_body(self, spot: Spot, linear: Value, carried: list[Value]) -> list[Value]:
        for i in self.used:
            spot.values[i] = self._value(i, spot)
        out: list[Value] = []
        for r in self.reductions:
            count = 2 if r.is_arg else 1
            out += self._accumulate(r, spot, linear, carried[len(out) : len(out) + count])
        for i in self.kept:
            home = self.layout.homes[i]
            if home.buffer < 0:
                self._store(spot.values[i], self._home(i), spot)
        for store in self.stores:
            self._store(self._at(store.index, spot), self.e.access_number[id(store.access)], spot)
        for _, instr, store in self.columns:
            self._accumulate_column(instr, self.e.access_number[id(store.access)], spot)
        return out

    def _at(self, i: int, spot: Spot) -> Element:
        found = spot.values.get(i)
        return self.splats[i, spot.lanes] if found is None else found

    def _value(self, i: int, spot: Spot) -> Element:
        if self._is_fetched(i):
            number = self._home(i)
            return self.v.load(self.layout.homes[i].dtype, spot.pointers[number], self.e._lane_stride(number), spot)
        instr = self.nest.instrs[i]
        known = {k: self._at(k, spot) for k in operands(instr)}
        return self.e._compute(i, known, spot)

    def _store(self, x: Element, number: int, spot: Spot) -> None:
        self.v.store(x, self.nest.accesses[number].dtype, spot.pointers[number], self.e._lane_stride(number), spot)

    # ---- reductions
    def _start(self, r: Reduction, lanes: int) -> list[Value]:
        best = self.v.identity(r.combine, r.dtype, lanes).value
        return [best, const(register_type(dt.int64, lanes), -1)] if r.is_arg else [best]

    def _accumulate(self, r: Reduction, spot: Spot, linear: Value, carried: list[Value]) -> list[Value]:
        x = self.v.cast(self._at(r.instr.args[0].index, spot), r.dtype, spot.lanes)
        if r.is_arg:
            return self._accumulate_arg(r, x, spot, linear, carried)
        if spot.mask is not None and not self.is_columns:
            x = Element(r.dtype, self.f.select(spot.mask, x.value, const(x.value.type, identity_of(r.combine, r.dtype))))
        return [self.v.combine(r.combine, Element(r.dtype, carried[0]), x, spot.lanes).value]

    def _accumulate_arg(self, r: Reduction, x: Element, spot: Spot, linear: Value, carried: list[Value]) -> list[Value]:
        f = self.f
        takes = f.or_(self.v.better(r.combine, x, Element(r.dtype, carried[0])), f.icmp("slt", carried[1], 0))
        if spot.mask is not None:
            takes = f.and_(takes, spot.mask)
        index = f.splat(linear, spot.lanes)
        if not self.is_columns:
            index = f.add(index, self.v.lane_indices(1, spot))
        return [f.select(takes, x.value, carried[0]), f.select(takes, index, carried[1])]

    def _accumulate_column(self, instr: Instr, number: int, spot: Spot) -> None:
        assert instr.compute is not None
        stride = self.e._lane_stride(number)
        x = self.v.cast(self._at(instr.args[0].index, spot), instr.compute, spot.lanes)
        old = self.v.load(instr.compute, spot.pointers[number], stride, spot)
        self._store(self.v.combine(str(instr.what), old, x, spot.lanes), number, spot)

    def _finish(self, results: list[Value]) -> None:
        """Join the lanes (not in columns, where each lane is a row of its own) and give the rows their values."""
        at = 0
        parts: dict[int, list[list[Value]]] = {}
        for _ in self.widths:
            for r in self.reductions:
                count = 2 if r.is_arg else 1
                parts.setdefault(r.number, []).append(results[at : at + count])
                at += count
        for r in self.reductions:
            self.e.row[r.number] = self._joined_arg(r, parts[r.number]) if r.is_arg else self._joined(r, parts[r.number])

    def _joined(self, r: Reduction, parts: list[list[Value]]) -> Element:
        total: Element | None = None
        for lanes, (value,) in zip(self.widths, parts, strict=False):
            x = Element(r.dtype, value)
            if not self.is_columns:
                x = self.v.horizontal(r.combine, x, lanes)
            total = x if total is None else self.v.combine(r.combine, total, x, 1)
        assert total is not None
        return self.v.cast(total, r.instr.dtype, self.e.row_lanes)

    def _joined_arg(self, r: Reduction, parts: list[list[Value]]) -> Element:
        """Both loops of an argmax have the same width, so their lanes join first."""
        f = self.f
        best, at = Element(r.dtype, parts[0][0]), parts[0][1]
        for value, index in parts[1:]:
            x = Element(r.dtype, value)
            takes = f.or_(f.and_(self.v.better(r.combine, x, best), f.icmp("sge", index, 0)), f.icmp("slt", at, 0))
            best, at = Element(r.dtype, f.select(takes, x.value, best.value)), f.select(takes, index, at)
        if not self.is_columns:
            at = self.v.arg_horizontal(r.combine, best, at, self.widths[0])
        return Element(dt.int64, at)
