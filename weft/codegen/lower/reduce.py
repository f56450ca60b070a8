"""Running results of the reductions of a pass.

Along the last inner axis, accumulators add up blocks in the dtype of the computation. After each block they are folded to as many lanes as are joined in
the end, and go into what is held: sums and products of floats in float64. So a sum is as exact as its blocks are, however long it is, and costs no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.codegen.emit import Value, const
from weft.codegen.lower.values import Spot, Vectors, identity_of
from weft.codegen.scalar.handler import Element, register_type
from weft.loops.build import held_dtype, is_rounded
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
    def held(self) -> DType:
        """The dtype of what is held between blocks."""
        return held_dtype(self.combine, self.dtype)


def flat(running: Running) -> list[Value]:
    """All values, as a loop carries them."""
    return [v for parts in running for accumulator in parts for v in accumulator]


def carried_as(running: Running, values: Iterable[Value]) -> Running:
    """The values that a loop carries, in the order of `flat`."""
    found = iter(values)
    return [[tuple(next(found) for _ in accumulator) for accumulator in parts] for parts in running]


class Accumulators:
    """Starts, accumulates, absorbs and joins. lanes: of the shortest step; is_apart: each lane is a row of its own, and lanes are never joined."""

    def __init__(self, v: Vectors, reductions: list[Reduction], lanes: int, is_apart: bool) -> None:
        self.v, self.f, self.reductions, self.lanes, self.is_apart = v, v.f, reductions, lanes, is_apart
        self.is_blocked = any(is_rounded(r.combine, r.dtype) for r in reductions)

    def start(self, step: int, parts: int) -> Running:
        """What is held before the first block. The best of an argmax is held as it is accumulated, in parts."""
        return [[self._best(r, step) for _ in range(parts)] if r.is_arg else [self._identity(r, r.held, self._held_lanes(r))] for r in self.reductions]

    def fresh(self, held: Running, step: int, parts: int) -> Running:
        """Accumulators for a block; an argmax goes on with what is held."""
        return [h if r.is_arg else [self._identity(r, r.dtype, step)] * parts for r, h in zip(self.reductions, held, strict=True)]

    def _held_lanes(self, r: Reduction) -> int:
        return self.lanes if self.is_apart else min(self.lanes, HELD_BYTES // max(r.held.itemsize, 4))

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
            x = Element(r.dtype, self.f.select(spot.mask, x.value, const(x.value.type, identity_of(r.combine, r.dtype))))
        return (self.v.combine(r.combine, Element(r.dtype, accumulator[0]), x, spot.lanes).value,)

    def _accumulate_arg(self, r: Reduction, x: Element, spot: Spot, linear: Value, accumulator: Accumulator) -> Accumulator:
        f, (best, at) = self.f, accumulator
        takes = f.or_(self.v.better(r.combine, x, Element(r.dtype, best)), f.icmp("slt", at, 0))
        if spot.mask is not None:
            takes = f.and_(takes, spot.mask)
        index = f.splat(linear, spot.lanes)
        if not self.is_apart:
            index = f.add(index, self.v.lane_indices(1, spot))
        return f.select(takes, x.value, best), f.select(takes, index, at)

    # ---- between blocks
    def absorb(self, held: Running, running: Running, step: int) -> Running:
        """What is held after a block."""
        return [parts if r.is_arg else [self._absorbed(r, h[0][0], [p for (p,) in parts], step)]
                for r, h, parts in zip(self.reductions, held, running, strict=True)]

    def _absorbed(self, r: Reduction, held: Value, parts: list[Value], step: int) -> Accumulator:
        missing = self.lanes // step - len(parts)  # of a row so short that the last parts have nothing to do
        x = self._folded(r, self._whole(parts + missing * list(self._identity(r, r.dtype, step))))
        lanes = self._held_lanes(r)
        return (self.v.combine(r.combine, Element(r.held, held), self.v.cast(x, r.held, lanes), lanes).value,)

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
    def joined(self, r: Reduction, parts: list[Accumulator], lanes: int) -> Element:
        """A row's result (with the row's lanes)."""
        if r.is_arg:
            return self._joined_arg(r, parts)
        x = Element(r.held, parts[0][0])
        return self.v.cast(x if self.is_apart else self.v.horizontal(r.combine, x, self._held_lanes(r)), r.instr.dtype, lanes)

    def _joined_arg(self, r: Reduction, parts: list[Accumulator]) -> Element:
        if self.is_apart:
            return Element(dt.int64, parts[0][1])
        parts = parts + (_power(len(parts)) - len(parts)) * [self._best(r, parts[0][0].type.lanes)]
        best, at = self._whole([b for b, _ in parts]), self._whole([a for _, a in parts])
        return Element(dt.int64, self.v.arg_horizontal(r.combine, Element(r.dtype, best), at, best.type.lanes))


def _power(count: int) -> int:
    """The power of two that is not less."""
    return 1 << (count - 1).bit_length()

