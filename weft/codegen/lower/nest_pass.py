"""One pass of a nest over its inner axes: the loops, the values computed in them, reductions, stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.codegen.emit import I64, Value, const
from weft.codegen.lower.nest import BLOCK_ROWS, BLOCK_STEPS
from weft.codegen.lower.reduce import Accumulators, Reduction, Running, carried_as, flat
from weft.codegen.lower.values import Pointers, Spot
from weft.codegen.scalar.handler import Element
from weft.loops.nest import FULL, Instr
from weft.loops.phases import is_inner_store, operands, phase_roots

if TYPE_CHECKING:
    from weft.codegen.lower.loops import NestEmitter


class Pass:
    """The inner loops of one phase."""

    def __init__(self, emitter: NestEmitter, phase: int) -> None:
        self.e, self.f, self.v, self.phase = emitter, emitter.f, emitter.v, phase
        self.nest, self.layout = emitter.nest, emitter.layout
        self.is_columns = self.nest.form == "columns"
        self.reductions = [
            Reduction(i, x, x.compute or x.dtype)
            for i, x in enumerate(self.nest.instrs) if x.kind == "reduce" and x.phase == phase + 1
        ]
        lanes = self.layout.wide if self.is_columns else self.layout.lanes
        self.sums = Accumulators(self.v, self.reductions, lanes, self.is_columns, len(self.nest.inner) > 1)
        self.stores = [
            s for s in self.nest.stores if is_inner_store(self.nest, s) and self.nest.instrs[s.index].phase == phase
        ]
        self.columns = emitter._columns(phase)
        self.stashed = [i for i, x in enumerate(self.nest.instrs) if x.stashed and x.phase == phase]
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
        return instr.stashed and instr.phase < self.phase

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
        for step in {self._step(lanes) for lanes in self.widths}:
            for i in self.outside:
                self._splat(i, step)
        numbers = self._accesses()
        lanes = self.widths[-1]
        held = self.sums.start(self._step(lanes), self._parts(lanes))
        held = self._nested(len(self.nest.outer), pointers, const(I64, 0), held, numbers, lo, hi)
        for r, parts in zip(self.reductions, held, strict=True):
            self.e.row[r.number] = self.sums.joined(r, parts, self.e.row_lanes)

    def _step(self, lanes: int) -> int:
        """How many of the lanes the machine takes at a time."""
        return min(self.layout.step, lanes)

    def _parts(self, lanes: int) -> int:
        """How many times it takes."""
        return self.layout.parts or max(1, -(-lanes // self._step(lanes)))

    def _splat(self, i: int, lanes: int) -> None:
        if self.nest.instrs[i].level == 0:
            self.splats[i, lanes] = self.v.splat(self.e.once[i], lanes)
        elif self.is_columns:
            self.splats[i, lanes] = self.e.row_value(i)
        else:
            self.splats[i, lanes] = self.v.splat(self.e.row_value(i), lanes)

    def _accesses(self) -> list[int]:
        numbers = {
            self.nest.instrs[i].what
            for i in self.used if self.nest.instrs[i].kind in ("load", "index") and not self._is_fetched(i)
        }
        numbers |= {self.nest.instrs[i].what.access for i in self.used if self.nest.instrs[i].kind == "gather"}
        numbers |= {self.e.access_number[id(s.access)] for s in self.stores}
        numbers |= {self.e.access_number[id(s.access)] for _, _, s in self.columns}
        numbers |= {self._home(i) for i in (*self.stashed, *(i for i in self.used if self._is_fetched(i)))}
        return sorted(numbers)

    def _home(self, i: int) -> int:
        return self.e.access_number[id(self.layout.homes[i])]

    def _nested(
        self, axis: int, pointers: Pointers, linear: Value, held: Running, numbers: list[int], lo: Value, hi: Value
    ) -> Running:
        """Loops over the inner axes from `axis` on. linear: row-major index over the inner axes so far."""
        last = len(self.nest.axes) - 1
        if axis > last:
            return self._body(Spot(self.widths[0], None, self.e.row_mask, pointers), linear, held)
        if axis == last and not self.is_columns:
            return self._run(pointers, linear, held, lo, hi)
        if axis == last and self.sums.is_blocked:
            held, sums = self._in_blocks(
                held, self.layout.wide, const(I64, 0), self.e.size(axis), BLOCK_ROWS,
                lambda lo, hi, sums: self._loop(axis, pointers, linear, sums, numbers, lo, hi, lo, hi),
            )
            return self.sums.absorb(held, sums)
        return self._loop(axis, pointers, linear, held, numbers, const(I64, 0), self.e.size(axis), lo, hi)

    def _loop(
        self, axis: int, pointers: Pointers, linear: Value, sums: Running, numbers: list[int], begin: Value, end: Value,
        lo: Value, hi: Value,
    ) -> Running:
        f = self.f
        with f.loop(begin, end, name=f"j{axis}", carried=[(v, "acc") for v in flat(sums)]) as loop:
            moved = self.e.advance(pointers, axis, loop.index, numbers)
            at = f.add(f.mul(linear, self.e.size(axis)), loop.index)
            loop.next(*flat(self._nested(axis + 1, moved, at, carried_as(sums, loop.carried), numbers, lo, hi)))
        return carried_as(sums, loop.results)

    def _run(self, pointers: Pointers, linear: Value, held: Running, lo: Value, hi: Value) -> Running:
        """The last inner axis: whole steps, then what remains under a mask."""
        f, layout = self.f, self.layout
        base = f.mul(linear, self.e.size(len(self.nest.axes) - 1)) if any(r.is_arg for r in self.reductions) else linear
        lanes, wide = layout.lanes, layout.wide
        if layout.is_short:
            sums = self._steps(pointers, base, lo, hi, lanes, True, self._fresh(held, lanes))
            return self.sums.finish(held, sums, None)

        def steps(lo: Value, hi: Value, sums: Running, by: int, is_masked: bool) -> Running:
            with f.loop(
                lo, hi, by, name="rest" if is_masked else "j", carried=[(v, "acc") for v in flat(sums)]
            ) as loop:
                loop.next(
                    *flat(self._steps(pointers, base, loop.index, hi, by, is_masked, carried_as(sums, loop.carried)))
                )
            return carried_as(sums, loop.results)

        stop = f.add(lo, f.and_(f.sub(hi, lo), -wide), "whole")
        if layout.is_brief:
            sums = steps(lo, stop, self._fresh(held, lanes), wide, False)
        else:
            held, sums = self._in_blocks(
                held, wide, lo, stop, BLOCK_STEPS * wide, lambda lo, hi, sums: steps(lo, hi, sums, wide, False)
            )
        if not layout.is_whole:
            sums = steps(stop, hi, self.sums.split(sums, self._step(lanes)), lanes, True)
        is_one = layout.is_one_block(BLOCK_STEPS * wide)
        is_alone = None if is_one else f.icmp("slt", f.sub(stop, lo), 2 * BLOCK_STEPS * wide)
        return self.sums.finish(held, sums, is_alone)

    def _in_blocks(
        self, held: Running, lanes: int, lo: Value, hi: Value, length: int,
        run: Callable[[Value, Value, Running], Running],
    ) -> tuple[Running, Running]:
        """run(low, high, accumulators) for each block from lo to hi, the last of up to two lengths:
        what is held before it, and its accumulators."""
        f, sums = self.f, self._fresh(held, lanes)
        if not self.sums.is_blocked or self.layout.is_one_block(length):
            return held, run(lo, hi, sums)
        stop = f.smax(f.sub(hi, length - 1), f.add(lo, 1), "stop")
        carried = [(v, "held") for v in flat(held)] + [(v, "acc") for v in flat(sums)]
        with f.loop(lo, stop, length, name="block", carried=carried, trip_at_least_one=True) as block:
            before, fresh = _carried_both(held, sums, block.carried)
            following = f.add(block.index, length)
            is_last = f.icmp("sge", following, stop)
            results = run(block.index, f.select(is_last, hi, following), fresh)
            with f.if_else(is_last, "last") as branches:
                with branches.then:
                    branches.give(*flat(before), *flat(results))
                with branches.otherwise:
                    before = self.sums.absorb(before, results)
                    branches.give(*flat(before), *flat(self._fresh(before, lanes)))
            block.next(*branches.results)
        return _carried_both(held, sums, block.results)

    def _fresh(self, held: Running, lanes: int) -> Running:
        return self.sums.fresh(held, self._step(lanes), self._parts(lanes))

    def _steps(
        self, pointers: Pointers, linear: Value, index: Value, hi: Value, lanes: int, is_masked: bool, sums: Running
    ) -> Running:
        """One step of so many lanes, in the parts that the machine takes at a time."""
        f, step = self.f, self._step(lanes)
        count = self._parts(lanes)
        results: Running = [[] for _ in sums]
        for k in range(count):
            at = f.add(index, k * step) if k else index
            mask = f.first_lanes(f.sub(hi, at), step) if is_masked else None
            done = self._body(Spot(step, at, mask, pointers), linear, [parts[k : k + 1] for parts in sums])
            for parts, (accumulator,) in zip(results, done, strict=True):
                parts.append(accumulator)
        return [done + parts[count:] for done, parts in zip(results, sums, strict=True)]

    # ---- the body
    def _body(self, spot: Spot, linear: Value, sums: Running) -> Running:
        for i in self.used:
            spot.values[i] = self._value(i, spot)
        out = [[self.sums.accumulate(r, self._at(r.instr.args[0].index, spot), spot, linear, parts[0])]
               for r, parts in zip(self.reductions, sums, strict=True)]
        for i in self.stashed:
            home = self.layout.homes[i]
            if home.buffer < 0:
                self._store(spot.values[i], self._home(i), spot)
        for store in self.stores:
            self._store(self._at(store.index, spot), self.e.access_number[id(store.access)], spot)
        for _, instr, store in self.columns:
            self._accumulate_column(instr, self.e.access_number[id(store.access)], spot)
        return out

    def _at(self, i: int, spot: Spot) -> Element:
        element = spot.values.get(i)
        return self.splats[i, spot.lanes] if element is None else element

    def _value(self, i: int, spot: Spot) -> Element:
        if self._is_fetched(i):
            number = self._home(i)
            return self.v.load(self.layout.homes[i].dtype, spot.pointers[number], self.e._lane_stride(number), spot)
        instr = self.nest.instrs[i]
        elements = {k: self._at(k, spot) for k in operands(instr)}
        return self.e._compute(i, elements, spot)

    def _store(self, x: Element, number: int, spot: Spot) -> None:
        self.v.store(x, self.nest.accesses[number].dtype, spot.pointers[number], self.e._lane_stride(number), spot)

    def _accumulate_column(self, instr: Instr, number: int, spot: Spot) -> None:
        assert instr.compute is not None
        stride = self.e._lane_stride(number)
        x = self.v.cast(self._at(instr.args[0].index, spot), instr.compute, spot.lanes)
        old = self.v.load(instr.compute, spot.pointers[number], stride, spot)
        self._store(self.v.combine(str(instr.what), old, x, spot.lanes), number, spot)


def _carried_both(held: Running, sums: Running, values: tuple[Value, ...]) -> tuple[Running, Running]:
    """What is held, and accumulators, from the values that a loop carries for both."""
    count = len(flat(held))
    return carried_as(held, values[:count]), carried_as(sums, values[count:])
