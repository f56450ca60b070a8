"""Values of a nest in machine code: vectors read and written, bodies of operators, running results of reductions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from weft.codegen.emit import I16, I64, Function, LType, Value, const, iota, vec
from weft.codegen.scalar.handler import Element, LlvmScalar, memory_type, register_type
from weft.codegen.target import Target
from weft.loops.nest import Instr, Ref, op_of
from weft.types import dtype as dt
from weft.types.dtype import DType

HALVES = (dt.float16, dt.bfloat16)
Pointers = dict[int, Value]  # access number -> address (or linear index) of the point where the vector axis is 0


def raw_type(dtype: DType, lanes: int) -> LType:
    """The LLVM type that elements are loaded and stored as. Half precisions move as integers: LLVM would call a support
    library for some moves. A complex number is two lanes, its real and its imaginary part."""
    if dtype.is_complex:
        return memory_type(dtype, 2 * lanes)
    return vec(I16, lanes) if dtype in HALVES else memory_type(dtype, lanes)


@dataclass
class Spot:
    """Where a vector of elements lies: lanes, index along the vector axis (None: included in the pointers), mask (None:
    all lanes), pointers."""

    lanes: int
    index: Value | None
    mask: Value | None
    pointers: Pointers
    values: dict[int, Element] = field(default_factory=dict)


class Vectors:
    """Reads, writes and computes elements in one function. One LlvmScalar for each number of lanes."""

    def __init__(self, function: Function, target: Target) -> None:
        self.f, self.target = function, target
        self._handlers: dict[int, LlvmScalar] = {}

    def scalar(self, lanes: int) -> LlvmScalar:
        """The handler for this many lanes."""
        handler = self._handlers.get(lanes)
        if handler is None:
            handler = self._handlers[lanes] = LlvmScalar(self.f, lanes, self.target)
        return handler

    def splat(self, x: Element, lanes: int) -> Element:
        """A scalar element in every lane."""
        if lanes == 1:
            return x
        return Element(x.dtype, self.f.splat(x.value, lanes), None if x.imag is None else self.f.splat(x.imag, lanes))

    # ---- half precisions
    def held(self, x: Element) -> Element:
        """The element as it is kept between operators: half precisions as their bits."""
        if x.dtype not in HALVES:
            return x
        return Element(x.dtype, self.f.bitcast(x.value, raw_type(x.dtype, x.value.type.lanes)))

    def opened(self, x: Element) -> Element:
        """A held element as operators take it."""
        if x.dtype not in HALVES:
            return x
        return Element(x.dtype, self.f.bitcast(x.value, register_type(x.dtype, x.value.type.lanes)))

    def cast(self, x: Element, dtype: DType, lanes: int) -> Element:
        """A held element converted, held."""
        return x if x.dtype is dtype else self.held(self.scalar(lanes).cast(self.opened(x), dtype))

    def const(self, value: float | int, dtype: DType, lanes: int) -> Element:
        """A number, held."""
        return self.held(self.scalar(lanes).const(value, dtype))

    # ---- memory
    def load(self, dtype: DType, pointer: Value, stride: Value | int, spot: Spot) -> Element:
        """The elements at a spot. stride: elements between lanes."""
        f, lanes = self.f, spot.lanes
        elem = raw_type(dtype, 1)
        if lanes == 1 or stride == 0:
            return self.splat(self._from_raw(dtype, f.load(elem, pointer), 1), lanes)
        type = raw_type(dtype, lanes)
        if stride == 1:
            at = pointer if spot.index is None else f.gep(elem, pointer, spot.index)
            mask = self._mask(dtype, spot)
            return self._from_raw(dtype, f.load(type, at) if mask is None else f.masked_load(type, at, mask), lanes)
        return self._gathered(dtype, self._lane_pointers(elem, pointer, stride, spot), spot)

    def _gathered(self, dtype: DType, pointers: Value, spot: Spot) -> Element:
        """One element from each address."""
        f, type = self.f, register_type(dtype, spot.lanes) if dtype.is_complex else raw_type(dtype, spot.lanes)
        rest = None if spot.mask is None else const(type, 0)
        first = f.gather(type, pointers, spot.mask, rest)
        if not dtype.is_complex:
            return self._from_raw(dtype, first, spot.lanes)
        return Element(dtype, first, f.gather(type, f.gep(type.elem, pointers, 1), spot.mask, rest))

    def _from_raw(self, dtype: DType, raw: Value, lanes: int) -> Element:
        if dtype.is_complex:
            return Element(dtype, self._every_second(raw, 0, lanes), self._every_second(raw, 1, lanes))
        return Element(dtype, raw) if dtype in HALVES else self.scalar(lanes).from_memory(dtype, raw)

    def _every_second(self, raw: Value, first: int, lanes: int) -> Value:
        if lanes == 1:
            return self.f.extractelement(raw, first)
        return self.f.shufflevector(raw, None, range(first, 2 * lanes, 2))

    def _mask(self, dtype: DType, spot: Spot) -> Value | None:
        """The spot's mask for elements as they lie in memory."""
        if spot.mask is None or not dtype.is_complex:
            return spot.mask
        return self.f.shufflevector(spot.mask, None, [k // 2 for k in range(2 * spot.lanes)])

    def _pairs(self, x: Element, lanes: int) -> Value:
        """Complex elements as they lie in memory."""
        f, (real, imag) = self.f, x.pair
        if lanes == 1:
            pair = f.insertelement(const(raw_type(x.dtype, 1), 0), real, 0)
            return f.insertelement(pair, imag, 1)
        return f.shufflevector(real, imag, [k // 2 + k % 2 * lanes for k in range(2 * lanes)])

    def store(self, x: Element, dtype: DType, pointer: Value, stride: Value | int, spot: Spot) -> None:
        """Write elements (converted to `dtype`) at a spot."""
        f, s = self.f, self.scalar(spot.lanes)
        x = self.cast(x, dtype, spot.lanes)
        elem = raw_type(dtype, 1)
        if spot.lanes > 1 and stride != 1:
            places = self._lane_pointers(elem, pointer, stride, spot)
            f.scatter(x.value if dtype in HALVES else s.to_memory(x), places, spot.mask)
            if x.imag is not None:
                f.scatter(x.imag, f.gep(x.imag.type.elem, places, 1), spot.mask)
            return
        raw = self._pairs(x, spot.lanes) if dtype.is_complex else x.value if dtype in HALVES else s.to_memory(x)
        at = pointer if spot.index is None or spot.lanes == 1 else f.gep(elem, pointer, spot.index)
        mask = self._mask(dtype, spot)
        if mask is None or spot.lanes == 1:
            f.store(raw, at)
        else:
            f.masked_store(raw, at, mask)

    def gather(self, dtype: DType, pointer: Value, offsets: Value, spot: Spot) -> Element:
        """One element for each lane, `offsets` elements from the pointer."""
        f, lanes, elem = self.f, spot.lanes, raw_type(dtype, 1)
        if lanes == 1:
            return self._from_raw(dtype, f.load(elem, f.gep(elem, pointer, offsets)), 1)
        return self._gathered(dtype, f.gep(elem, pointer, offsets), spot)

    def _lane_pointers(self, elem: Any, pointer: Value, stride: Value | int, spot: Spot) -> Value:
        return self.f.gep(elem, pointer, self.lane_indices(stride, spot))

    def lane_indices(self, stride: Value | int, spot: Spot) -> Value:
        """(index + lane) * stride for each lane."""
        f, lanes = self.f, spot.lanes
        numbers = iota(I64, lanes)
        if spot.index is not None:
            numbers = f.add(f.splat(spot.index, lanes), numbers)
        if stride == 1:
            return numbers
        by = const(I64, stride) if isinstance(stride, int) else stride
        return f.mul(numbers, f.splat(by, lanes))

    # ---- operators
    def apply(self, instr: Instr, args: list[Any], lanes: int) -> Element:
        """The body of a pointwise operator. args: an Element for each Ref of the instruction,
        in the order of its arguments."""
        s = self.scalar(lanes)
        elements = iter(args)
        operands: list[Any] = []
        for argument in instr.args:
            if argument is None:
                operands.append(None)
            elif type(argument[0]) is Ref:
                x = self.opened(next(elements))
                operands.append(s.cast(x, instr.compute) if argument[1] and instr.compute is not None else x)
            elif argument[0] == "const":
                assert instr.compute is not None
                operands.append(s.const(argument[1], instr.compute))
            else:
                operands.append(argument[1])
        result: Element = op_of(instr).scalar(s, *operands)  # type: ignore[misc]
        return self.held(s.cast(result, instr.dtype))

    # ---- reductions
    def identity(self, combine: str, dtype: DType, lanes: int) -> Element:
        """The element that changes nothing."""
        return self.scalar(lanes).const(identity_of(combine, dtype), dtype)

    def combine(self, combine: str, a: Element, b: Element, lanes: int) -> Element:
        """Two partial results joined."""
        s = self.scalar(lanes)
        method = {"sum": s.add, "prod": s.mul, "max": s.maximum, "min": s.minimum, "any": s.bit_or, "all": s.bit_and}[
            combine
        ]
        return method(a, b)

    def horizontal(self, combine: str, x: Element, lanes: int) -> Element:
        """All lanes joined, halves first: an order that only the number of lanes decides."""
        while lanes > 1:
            lanes //= 2
            x = self.folded(combine, x, lanes)
        return x

    def folded(self, combine: str, x: Element, lanes: int) -> Element:
        """The two halves, of so many lanes each, combined."""
        low, high = (Element(x.dtype, self._part(x.value, start, lanes)) for start in (0, lanes))
        return self.combine(combine, low, high, lanes)

    def _part(self, v: Value, start: int, count: int) -> Value:
        if count == 1:
            return self.f.extractelement(v, start)
        return self.f.shufflevector(v, None, range(start, start + count))

    # ---- position of an extreme
    def better(self, combine: str, x: Element, best: Element) -> Value:
        """Lanes where x comes before best: greater (or smaller), or the first NaN."""
        s = self.scalar(x.value.type.lanes or 1)
        wins = s.gt(x, best) if combine == "argmax" else s.lt(x, best)
        if not x.dtype.is_floating_point:
            return wins.value
        first_nan = self.f.and_(s.isnan(x).value, self.f.not_(s.isnan(best).value))
        return self.f.or_(wins.value, first_nan)

    def arg_horizontal(self, combine: str, best: Element, at: Value, lanes: int) -> Value:
        """The index of the best lane; the lowest index among equals. Lanes that saw nothing have the index -1."""
        f = self.f
        while lanes > 1:
            lanes //= 2
            a, b = (Element(best.dtype, self._part(best.value, k, lanes)) for k in (0, lanes))
            i, j = (self._part(at, k, lanes) for k in (0, lanes))
            tied = f.not_(f.or_(self.better(combine, a, b), self.better(combine, b, a)))
            takes = f.or_(self.better(combine, b, a), f.and_(tied, f.icmp("ult", j, i)))
            takes = f.and_(takes, f.icmp("sge", j, 0))
            takes = f.or_(takes, f.icmp("slt", i, 0))
            best = Element(best.dtype, f.select(takes, b.value, a.value))
            at = f.select(takes, j, i)
        return at


def identity_of(combine: str, dtype: DType) -> float | int:
    """The identity of a combination in `dtype`."""
    if combine in ("sum", "any"):
        return 0
    if combine in ("prod", "all"):
        return 1
    is_max = combine in ("max", "argmax")
    if dtype.is_floating_point:
        return -math.inf if is_max else math.inf
    if dtype is dt.bool_:
        return 0 if is_max else 1
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return low if is_max else low + (1 << dtype.bits) - 1


