"""Running results of the reductions of a pass.

Along the last inner axis, accumulators add up blocks in the dtype of the computation. After each block their lanes
are joined, and the block's result goes into what is held: sums and products of floats in float64. So a sum is as exact
as its blocks are, however long it is, and costs no more; a row that is one block needs no float64 at all.
What float64 sums lose between blocks is held beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.codegen.emit import Value, const
from weft.codegen.lower.values import Spot, Vectors, identity_of
from weft.codegen.scalar.handler import Element, register_type
from weft.loops.accumulate import held_dtype, is_rounded
from weft.loops.nest import Instr
from weft.types import dtype as dt
from weft.types.dtype import DType

HELD_BYTES = 64  # of what is held between blocks, on every machine
_ARGS = ("argmax", "argmin")
Accumulator = tuple[Value, ...]  # a vector; for argmax the best elements and their indices
Running = list[list[Accumulator]]  # for each reduction, for each part of a step: its accumulator


@dataclass
class Reduction:
    """A reduction that a pass completes."""

    number: int
    instr: Instr
    dtype: DType

    @property
    def combine(self) -> str:
        return str(self.instr.what)

    @property
    def is_arg(self) -> bool:
        return self.combine in _ARGS

    @property
    def keeps_losses(self) -> bool:
        """Whether no wider dtype can hold what blocks add up to."""
        return self.combine == "sum" and self.dtype is dt.float64

    @property
    def held(self) -> DType:
        """The dtype of what is held between blocks."""
        return held_dtype(self.combine, self.dtype)


def flat(running: Running) -> list[Value]:
    """All values, as a loop carries them."""
    return [v for parts in running for accumulator in parts for v in accumulator]


def carried_as(running: Running, values: Iterable[Value]) -> Running:
    """The values that a loop carries, in the order of `flat`."""
    remaining = iter(values)
    return [[tuple(next(remaining) for _ in accumulator) for accumulator in parts] for parts in running]


class Accumulators:
    """Starts, accumulates, absorbs and joins.

    lanes      of the shortest step
    is_apart   each lane is a row of its own, and lanes are never joined
    is_nested  there are several inner axes: the last one may be short, and lanes are joined after all of them
    """

    def __init__(self, v: Vectors, reductions: list[Reduction], lanes: int, is_apart: bool, is_nested: bool) -> None:
        self.v, self.f, self.reductions, self.lanes, self.is_apart, self.is_nested = (
            v, v.f, reductions, lanes, is_apart, is_nested
        )
        self.is_blocked = any(is_rounded(r.combine, r.dtype) for r in reductions)

    def start(self, step: int, parts: int) -> Running:
        """What is held before the first block. The best of an argmax is held as it is accumulated, in parts."""
        return [
            [self._best(r, step) for _ in range(parts)] if r.is_arg else [self._nothing(r)] for r in self.reductions
        ]

    def fresh(self, held: Running, step: int, parts: int) -> Running:
        """Accumulators for a block; an argmax goes on with what is held."""
        return [
            h if r.is_arg else [self._identity(r, r.dtype, step)] * parts
            for r, h in zip(self.reductions, held, strict=True)
        ]

    def _nothing(self, r: Reduction) -> Accumulator:
        return self._identity(r, r.held, self._held_lanes(r)) * (2 if r.keeps_losses else 1)

    def _held_lanes(self, r: Reduction) -> int:
        if self.is_apart:
            return self.lanes
        return min(self.lanes, HELD_BYTES // max(r.held.itemsize, 4)) if self.is_nested else 1

    def _identity(self, r: Reduction, dtype: DType, lanes: int) -> Accumulator:
        return (self.v.identity(r.combine, dtype, lanes).value,)

    def _best(self, r: Reduction, lanes: int) -> Accumulator:
        return (*self._identity(r, r.dtype, lanes), const(register_type(dt.int64, lanes), -1))

    # ---- one step
    def accumulate(self, r: Reduction, x: Element, spot: Spot, linear: Value, accumulator: Accumulator) -> Accumulator:
        """One more vector of elements. linear: row-major index of the inner axes before the last one, in elements."""
        x = self.v.cast(x, r.dtype, spot.lanes)
        if r.is_arg:
            return self._accumulate_arg(r, x, spot, linear, accumulator)
        if spot.mask is not None and not self.is_apart:
            x = Element(
                r.dtype, self.f.select(spot.mask, x.value, const(x.value.type, identity_of(r.combine, r.dtype)))
            )
        return (self.v.combine(r.combine, Element(r.dtype, accumulator[0]), x, spot.lanes).value,)

    def _accumulate_arg(
        self, r: Reduction, x: Element, spot: Spot, linear: Value, accumulator: Accumulator
    ) -> Accumulator:
        f, (best, at) = self.f, accumulator
        takes = f.or_(self.v.better(r.combine, x, Element(r.dtype, best)), f.icmp("slt", at, 0))
        if spot.mask is not None:
            takes = f.and_(takes, spot.mask)
        index = f.splat(linear, spot.lanes)
        if not self.is_apart:
            index = f.add(index, self.v.lane_indices(1, spot))
        return f.select(takes, x.value, best), f.select(takes, index, at)

    # ---- between blocks
    def split(self, running: Running, step: int) -> Running:
        """The same accumulators in parts of so many lanes, for shorter steps to go on with."""
        return [
            [tuple(vector) for part in parts for vector in zip(*(self._slices(v, step) for v in part), strict=True)]
            for parts in running
        ]

    def _slices(self, v: Value, step: int) -> list[Value]:
        if v.type.lanes <= step:
            return [v]
        return [self.f.shufflevector(v, None, range(start, start + step)) for start in range(0, v.type.lanes, step)]

    def absorb(self, held: Running, running: Running) -> Running:
        """What is held after a block."""
        return [parts if r.is_arg else [self._with_held(r, h[0], self._block(r, [p for (p,) in parts]))]
                for r, h, parts in zip(self.reductions, held, running, strict=True)]

    def _with_held(self, r: Reduction, held: Accumulator, block: Element) -> Accumulator:
        """The sum and, beside it, all that its additions rounded away so far."""
        f, lanes = self.f, self._held_lanes(r)
        block = self.v.cast(block, r.held, lanes)
        total = self.v.combine(r.combine, Element(r.held, held[0]), block, lanes).value
        if not r.keeps_losses:
            return (total,)
        added = f.fsub(total, held[0])
        lost = f.fadd(f.fsub(held[0], f.fsub(total, added)), f.fsub(block.value, added))
        return total, f.fadd(held[1], lost)

    def _total(self, r: Reduction, held: Accumulator) -> Element:
        if not r.keeps_losses:
            return Element(r.held, held[0])
        total = self.f.fadd(held[0], held[1])
        # (infinity less infinity is no loss)
        return Element(r.held, self.f.select(self.f.fcmp("ord", total, total), total, held[0]))

    def _block(self, r: Reduction, parts: list[Value]) -> Element:
        """A block's result, with as many lanes as are held."""
        step = max(parts[0].type.lanes, 1)
        # (of a row so short that the last parts have nothing to do)
        count = max(_power(len(parts)), self._held_lanes(r) // step)
        return self._folded(r, self._whole(parts + (count - len(parts)) * list(self._identity(r, r.dtype, step))))

    def _whole(self, parts: list[Value]) -> Value:
        while len(parts) > 1:
            lanes = 2 * parts[0].type.lanes
            parts = [self.f.shufflevector(a, b, range(lanes)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _folded(self, r: Reduction, value: Value) -> Element:
        x, lanes = Element(r.dtype, value), max(value.type.lanes, 1)
        while lanes > self._held_lanes(r):
            lanes //= 2
            x = self.v.folded(r.combine, x, lanes)
        return x

    # ---- after the last block
    def finish(self, held: Running, running: Running, is_alone: Value | None) -> Running:
        """What is held after the last block; of rows along one axis, their results.
        is_alone: whether the block is the only one, and what is held says nothing yet; None if it is known to be."""
        if self.is_nested:
            return self.absorb(held, running)
        sums = [
            (r, h[0], self._block(r, [p for (p,) in parts]))
            for r, h, parts in zip(self.reductions, held, running, strict=True) if not r.is_arg
        ]
        if is_alone is None or all(r.held in (r.dtype, r.instr.dtype) and not r.keeps_losses for r, _, _ in sums):
            results = iter([
                self._result(r, x if is_alone is None else self._total(r, self._with_held(r, h, x))) for r, h, x in sums
            ])
        else:
            with self.f.if_else(is_alone, "alone") as branches:
                with branches.then:
                    branches.give(*(self._result(r, x) for r, _, x in sums))
                with branches.otherwise:
                    branches.give(*(self._result(r, self._total(r, self._with_held(r, h, x))) for r, h, x in sums))
            results = iter(branches.results)
        return [parts if r.is_arg else [(next(results),)] for r, parts in zip(self.reductions, running, strict=True)]

    def _result(self, r: Reduction, x: Element) -> Value:
        return self.v.cast(x, r.instr.dtype, 1).value

    def joined(self, r: Reduction, parts: list[Accumulator], lanes: int) -> Element:
        """A row's result (with the row's lanes)."""
        if r.is_arg:
            return self._joined_arg(r, parts)
        if not self.is_apart and not self.is_nested:
            return Element(r.instr.dtype, parts[0][0])
        x = self._total(r, parts[0])
        return self.v.cast(
            x if self.is_apart else self.v.horizontal(r.combine, x, self._held_lanes(r)), r.instr.dtype, lanes
        )

    def _joined_arg(self, r: Reduction, parts: list[Accumulator]) -> Element:
        if self.is_apart:
            return Element(dt.int64, parts[0][1])
        parts = parts + (_power(len(parts)) - len(parts)) * [self._best(r, parts[0][0].type.lanes)]
        best, at = self._whole([b for b, _ in parts]), self._whole([a for _, a in parts])
        return Element(dt.int64, self.v.arg_horizontal(r.combine, Element(r.dtype, best), at, best.type.lanes))


def _power(count: int) -> int:
    """The power of two that is not less."""
    return 1 << (count - 1).bit_length()

