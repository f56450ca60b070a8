"""Kernels of masks: how often they hold in each chunk, and on that what is picked, or put, where they hold.

A chunk's picks begin where those of the chunks before it end, so that chunks are independent of each other. Whether an
element is picked is added to a place, and not branched on: what is not picked is overwritten by the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from weft.codegen.emit import I8, I16, I64, PTR, Function, LType, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.target import Target
from weft.runtime.segments import CHECK_BITS, ELEMENT_BITS, ORDER_BITS

CHUNK = 8192  # elements of a mask
STAGE = 256  # elements that are picked before they are moved to where they belong
_BYTES = 64  # of a mask that are added up at a time: CHUNK / _BYTES fits into one of them


def emit_count(f: Function) -> None:
    """Buffers: mask; counts of chunks. Integers: elements of the mask."""
    bufs, table, _, _, begin, end = f.params
    size = f.load(I64, table, name="size")
    mask, counts = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(2))
    with f.loop(begin, end, name="chunk") as chunk:
        low, high = bounds(f, chunk.index, size)
        whole = f.add(low, f.and_(f.sub(high, low), -_BYTES), "whole")
        count = const(I64, 0)
        for start, stop, lanes in ((low, whole, _BYTES), (whole, high, 1)):
            type = vec(I8 if lanes > 1 else I64, lanes)
            with f.loop(start, stop, lanes, "byte", [(const(type, 0), "held")]) as loop:
                holds = f.icmp("ne", f.load(vec(I8, lanes), f.gep(I8, mask, loop.index)), 0)
                loop.next(f.sub(loop.carried[0], f.sext(holds, type)))
            held = loop.results[0]
            wide = f.zext(f.reduce("add", f.zext(held, vec(I16, lanes))), I64) if lanes > 1 else held
            count = f.add(count, wide)
        f.store(count, f.gep(I64, counts, chunk.index))
    f.ret(const(I64, 0))


def bounds(f: Function, chunk: Scalar, size: Scalar) -> tuple[Scalar, Scalar]:
    """The first element of a chunk and the one after its last; none for the chunk after the last element."""
    low = f.mul(chunk, CHUNK)
    return low, f.smin(f.add(low, CHUNK), size, "high")


class MaskKernel:
    """What kernels that pick or put share. Integers: elements of the mask, how many of them hold, elements of a row
    (what one element of the mask stands for), how often the mask is repeated, then `more`. The mask and the counts of
    its chunks are the buffers before the last. elem: the type that elements are moved as."""

    def __init__(self, f: Function, target: Target, elem: LType, buffers: int, is_single: bool, more: int = 0) -> None:
        self.f, self.elem, self.is_single = f, elem, is_single
        bufs, table, _, self.stage, self._begin, self._end = f.params
        self.size, self.picked, self.inner, self.outer, *self.more = (
            f.load(I64, f.gep(I64, table, i), name="size") for i in range(4 + more)
        )
        *self.sources, self.mask, self._counts, self.out = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(buffers))
        self.lanes = target.lanes(max(1, elem.bytes))

    @contextmanager
    def chunks(self, is_exact: bool = True, repeats: bool = False) -> Iterator[tuple[Scalar, Scalar, Scalar]]:
        """A loop over chunks: the bounds of each, and how many picks are before it. The kernel fails where the mask
        does not hold as often as it should (more often, where it may be less). repeats: one may stand for all."""
        f = self.f
        chunks = f.add(f.sdiv(self.size, const(I64, CHUNK)), 1)
        self.before, total = self._sum(const(I64, 0), self._begin), self._sum(const(I64, 0), chunks)
        self.total = total
        differs = f.icmp("ne" if is_exact else "sgt", total, self.picked)
        if repeats:
            differs = f.and_(differs, f.icmp("ne", self.picked, 1))
        with f.if_(differs, "differs"):
            f.ret(self._failure(total))
        with f.loop(self._begin, self._end, name="chunk", carried=[(self.before, "before")]) as chunk:
            before = chunk.carried[0]
            low, high = bounds(f, chunk.index, self.size)
            yield low, high, before
            chunk.next(f.add(before, f.load(I64, f.gep(I64, self._counts, chunk.index))))
        f.ret(const(I64, 0))

    def _sum(self, start: Scalar, end: Scalar) -> Scalar:
        f = self.f
        with f.loop(start, end, name="counted", carried=[(const(I64, 0), "sum")]) as loop:
            loop.next(f.add(loop.carried[0], f.load(I64, f.gep(I64, self._counts, loop.index))))
        return loop.results[0]

    def _failure(self, total: Scalar) -> Scalar:
        f = self.f
        element = f.smin(total, const(I64, (1 << ELEMENT_BITS) - 1))
        return f.or_(f.shl(element, CHECK_BITS + ORDER_BITS), 1)

    def holds(self, index: Scalar) -> Scalar:
        """Whether the mask holds at an element."""
        return self.f.icmp("ne", self.f.load(I8, self.f.gep(I8, self.mask, index)), 0)

    def staged(
        self, low: Scalar, high: Scalar, at: Scalar, type: LType, read: Callable[[Scalar], Scalar],
        write: Callable[[Scalar, Scalar], None],
    ) -> None:
        """What `read` gives of the elements of a chunk that are picked: some of them at a time are in the stage, then
        `write` is given how many they are, and how many were picked before these."""
        f = self.f
        with f.loop(low, high, STAGE, "stage", [(at, "at")]) as stage:
            stop = f.smin(f.add(stage.index, STAGE), high)
            with f.loop(stage.index, stop, name="element", carried=[(const(I64, 0), "count")]) as loop:
                count = loop.carried[0]
                f.store(read(loop.index), f.gep(type, self.stage, count))
                loop.next(f.add(count, f.zext(self.holds(loop.index), I64)))
            count = loop.results[0]
            write(count, stage.carried[0])
            stage.next(f.add(stage.carried[0], count))


def emit_places(kernel: MaskKernel, dims: Sequence[Scalar]) -> None:
    """Buffers: mask, counts; places [picked, dims + 1]. dims: sizes of the mask but for the first."""
    f = kernel.f
    rank = len(dims) + 1

    def write(count: Scalar, at: Scalar) -> None:
        start = f.gep(I64, kernel.out, f.mul(at, rank))
        with f.loop(0, count, name="place") as loop:
            place = f.load(I64, f.gep(I64, kernel.stage, loop.index))
            row = f.gep(I64, start, f.mul(loop.index, rank))
            for axis in range(rank - 1, 0, -1):
                rest = f.udiv(place, dims[axis - 1])
                f.store(f.sub(place, f.mul(rest, dims[axis - 1])), f.gep(I64, row, axis))
                place = rest
            f.store(place, row)

    with kernel.chunks() as (low, high, before):
        kernel.staged(low, high, before, I64, lambda i: i, write)


def emit_pick(kernel: MaskKernel, fills: bool) -> None:
    """Buffers: source [outer, mask, inner], mask, counts; out [outer, picked, inner]. fills: the result may be longer,
    its first size is `more`, and what follows the picks is 0."""
    f, elem, (source,) = kernel.f, kernel.elem, kernel.sources
    with kernel.chunks(is_exact=not fills) as (low, high, before):
        with f.loop(0, kernel.outer, name="outer") as outer:
            first = f.gep(elem, source, f.mul(outer.index, f.mul(kernel.size, kernel.inner)))
            target = f.gep(elem, kernel.out, f.mul(outer.index, f.mul(kernel.picked, kernel.inner)))
            if kernel.is_single:
                _pick_elements(kernel, first, target, low, high, before)
            else:
                _pick_rows(kernel, first, target, low, high, before)
        if fills:
            with f.if_(f.icmp("eq", high, kernel.size), "last"):
                rest = f.mul(f.sub(kernel.picked, kernel.total), kernel.inner)
                begin = f.gep(elem, kernel.out, f.mul(kernel.total, kernel.inner))
                f.memset(begin, 0, f.mul(rest, elem.bytes))


def _pick_elements(
    kernel: MaskKernel, source: Scalar, target: Scalar, low: Scalar, high: Scalar, before: Scalar
) -> None:
    f, elem = kernel.f, kernel.elem
    kernel.staged(
        low, high, before, elem, lambda i: f.load(elem, f.gep(elem, source, i)),
        lambda count, at: f.memcpy(f.gep(elem, target, at), kernel.stage, f.mul(count, elem.bytes)),
    )


def _pick_rows(kernel: MaskKernel, source: Scalar, target: Scalar, low: Scalar, high: Scalar, before: Scalar) -> None:
    f, elem = kernel.f, kernel.elem
    with f.loop(low, high, name="row", carried=[(before, "at")]) as loop:
        holds, at = kernel.holds(loop.index), loop.carried[0]
        with f.if_(holds, "picked"):
            start = f.gep(elem, source, f.mul(loop.index, kernel.inner))
            f.memcpy(f.gep(elem, target, f.mul(at, kernel.inner)), start, f.mul(kernel.inner, elem.bytes))
        loop.next(f.add(at, f.zext(holds, I64)))


def emit_put(kernel: MaskKernel, has_base: bool, adds: bool, is_exact: bool) -> None:
    """Buffers: base (zeros without one), values [outer, picked, inner], mask, counts; out [outer, mask, inner].

    adds: values are added to the base. is_exact: there are as many values as picks, or one for all; else as many or
    more."""
    f, values = kernel.f, kernel.sources[-1]
    step = f.zext(f.icmp("ne", kernel.picked, 1), I64, "step") if is_exact else const(I64, 1)
    with kernel.chunks(is_exact, is_exact) as (low, high, before), f.loop(0, kernel.outer, name="outer") as outer:
        start = f.mul(outer.index, f.mul(kernel.size, kernel.inner))
        source = f.gep(kernel.elem, values, f.mul(outer.index, f.mul(kernel.picked, kernel.inner)))
        base = f.gep(kernel.elem, kernel.sources[0], start) if has_base else None
        target = f.gep(kernel.elem, kernel.out, start)
        with f.loop(low, high, name="element", carried=[(before, "at")]) as loop:
            holds, at = kernel.holds(loop.index), loop.carried[0]
            put = _put_element if kernel.is_single else _put_row
            put(kernel, holds, base, source, target, loop.index, f.mul(at, step), adds)
            loop.next(f.add(at, f.zext(holds, I64)))


def _put_element(
    kernel: MaskKernel, holds: Scalar, base: Scalar | None, source: Scalar, target: Scalar, index: Scalar, at: Scalar,
    adds: bool,
) -> None:
    """One of two addresses is read: that of a value there is, or one that may always be read."""
    f, elem = kernel.f, kernel.elem
    here = None if base is None else f.gep(elem, base, index)
    zero = const(elem, 0.0 if elem.kind == "float" else 0)
    x = f.load(elem, f.select(holds, f.gep(elem, source, at), here or f.gep(elem, target, index)))
    before = zero if here is None else f.load(elem, here)
    if adds:
        x = f.fadd(before, x) if elem.kind == "float" else f.add(before, x)
    f.store(f.select(holds, x, before), f.gep(elem, target, index))


def _put_row(
    kernel: MaskKernel, holds: Scalar, base: Scalar | None, source: Scalar, target: Scalar, index: Scalar, at: Scalar,
    adds: bool,
) -> None:
    f, elem, lanes, inner = kernel.f, kernel.elem, kernel.lanes, kernel.inner
    type = vec(elem, lanes)
    here = f.mul(index, inner)
    with f.if_else(holds, "holds") as branches:
        for arm, is_value in ((branches.then, True), (branches.otherwise, False)):
            with arm, f.loop(0, inner, lanes, "column") as column:
                mask = f.first_lanes(f.sub(inner, column.index), lanes)
                x = const(type, 0.0 if elem.kind == "float" else 0)
                if base is not None and (adds or not is_value):
                    x = f.masked_load(type, f.gep(elem, f.gep(elem, base, here), column.index), mask)
                if is_value:
                    value = f.masked_load(type, f.gep(elem, f.gep(elem, source, f.mul(at, inner)), column.index), mask)
                    x = (f.fadd(x, value) if elem.kind == "float" else f.add(x, value)) if adds else value
                f.masked_store(x, f.gep(elem, f.gep(elem, target, here), column.index), mask)
