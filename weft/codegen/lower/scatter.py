"""Kernels that combine what falls on one place: scatter_reduce and bincount. What falls on a place is combined in
order, whatever the number of threads."""

from __future__ import annotations

from weft.codegen.emit import F64, I64, PTR, Function, LType, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower.accumulate import COLUMNS, spread, whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.values import identity_of
from weft.codegen.scalar.element import memory_type
from weft.codegen.scalar.handler import Element, LlvmScalar
from weft.codegen.target import Target
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import tensor_type

_DTYPES = (dt.float32, dt.float64, dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8)
_COMBINE = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}
_BINS = 1024  # of a part of the sum over chunks
_CHUNKS = 16  # that have counts of their own, where these are few


@lowers(aten.scatter_reduce.two)
def lower_scatter_reduce(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Lines along the dim, each by itself; the dims of the index are those of self but for one."""
    base, dim, index, source, reduce, includes = node.args
    dtype, dims, places = dtype_of(base), dims_of(base), dims_of(index)
    if (
        dtype not in _DTYPES or dtype_of(source) is not dtype or not dims or len(dims) != len(places)
        or dtype_of(index) not in (dt.int64, dt.int32)
    ):
        return None
    assert dtype is not None
    axis = normalize_dim("scatter_reduce", dim, len(dims))
    if not all(a == b or shape_env.equal(a, b) for i, (a, b) in enumerate(zip(dims, places, strict=True)) if i != axis):
        return None
    buffers = [
        spread(block, source, places, node), spread(block, index, places, node, dt.int64),
        whole_buffer(block, base, node),
    ]
    calls = [call for _, call in buffers if call is not None]
    outer, inner = dm.product(dims[:axis]), dm.product(dims[axis + 1 :])
    chunks = dm.floordiv(inner + COLUMNS - 1, COLUMNS)
    counts = [Value(tensor_type(dt.int64, dims), "counts")] if reduce == "mean" else []
    target, module = block.lowering.target, block.lowering.module
    name = block.lowering.function(
        ("scatter", reduce, includes, dtype), f"scatter_{reduce}_{dtype.short}",
        lambda name: _Reduce(module.function(name, I64, PARAMETERS), target, dtype, reduce, includes).emit(),
    )
    ints = (dims[axis], places[axis], inner, chunks)
    work = dm.product(dims) + 4 * dm.product(places)
    return [*calls, KernelCall(
        name, (*[v for v, _ in buffers], *counts, node.output), 1 + len(counts), ints, (), outer * chunks, work, 0,
        ((len(counts), 2),), (node,), (0,),
    )]


class _Reduce:
    """Writes the function: the base, or what changes nothing in the places that are written, then one value after the
    other."""

    def __init__(self, f: Function, target: Target, dtype: DType, reduce: str, includes: bool) -> None:
        self.f, self.dtype, self.includes, self.reduce = f, dtype, includes, reduce
        self.scalar = LlvmScalar(f, 1, target)
        self.elem = memory_type(dtype, 1)
        bufs, table, _, _, self.begin, self.end = f.params
        self.size, self.count, self.inner, self.chunks = (f.load(I64, f.gep(I64, table, i)) for i in range(4))
        pointers = [f.load(PTR, f.gep(PTR, bufs, i)) for i in range(5 if reduce == "mean" else 4)]
        self.source, self.index, self.base = pointers[:3]
        self.out = pointers[-1]
        self.counts = pointers[3] if reduce == "mean" else None

    def emit(self) -> None:
        """The whole function. A part is one outer index and some of the columns behind the dim."""
        f = self.f
        with f.loop(self.begin, self.end, name="part") as part:
            outer = f.sdiv(part.index, self.chunks, "outer")
            low = f.mul(f.sub(part.index, f.mul(outer, self.chunks)), const(I64, COLUMNS))
            high = f.smin(f.add(low, COLUMNS), self.inner)
            lines = f.mul(outer, f.mul(self.size, self.inner)), f.mul(outer, f.mul(self.count, self.inner))
            with f.loop(0, self.size, name="row") as row, f.loop(low, high, name="column") as column:
                self._begin(f.add(lines[0], f.add(f.mul(row.index, self.inner), column.index)))
            for step in (self._clear, self._combine) if not self.includes else (self._combine,):
                with f.loop(0, self.count, name="row") as row, f.loop(low, high, name="column") as column:
                    at = f.add(lines[1], f.add(f.mul(row.index, self.inner), column.index))
                    place = f.load(I64, f.gep(I64, self.index, at))
                    with f.if_(f.icmp("uge", place, self.size), "out_of_bounds"):
                        f.ret(const(I64, 1))
                    step(f.add(lines[0], f.add(f.mul(place, self.inner), column.index)), at)
            if self.counts is not None:
                with f.loop(0, self.size, name="row") as row, f.loop(low, high, name="column") as column:
                    self._divide(f.add(lines[0], f.add(f.mul(row.index, self.inner), column.index)), self.counts)
        f.ret(const(I64, 0))

    def _begin(self, place: Scalar) -> None:
        f = self.f
        f.store(f.load(self.elem, f.gep(self.elem, self.base, place)), f.gep(self.elem, self.out, place))
        if self.counts is not None:
            f.store(const(I64, int(self.includes)), f.gep(I64, self.counts, place))

    def _clear(self, place: Scalar, at: Scalar) -> None:
        identity = self.scalar.const(identity_of(_COMBINE[self.reduce], self.dtype), self.dtype)
        self.f.store(self.scalar.to_memory(identity), self.f.gep(self.elem, self.out, place))

    def _combine(self, place: Scalar, at: Scalar) -> None:
        f, s = self.f, self.scalar
        cell = f.gep(self.elem, self.out, place)
        before, x = self._element(cell), self._element(f.gep(self.elem, self.source, at))
        combine = {"sum": s.add, "prod": s.mul, "max": s.maximum, "min": s.minimum}[_COMBINE[self.reduce]]
        f.store(s.to_memory(combine(before, x)), cell)
        if self.counts is not None:
            counter = f.gep(I64, self.counts, place)
            f.store(f.add(f.load(I64, counter), 1), counter)

    def _divide(self, place: Scalar, counts: Scalar) -> None:
        f, s = self.f, self.scalar
        cell = f.gep(self.elem, self.out, place)
        count = s.cast(s.element(dt.int64, f.smax(f.load(I64, f.gep(I64, counts, place)), 1)), self.dtype)
        x = self._element(cell)
        f.store(s.to_memory(s.div(x, count) if self.dtype.is_floating_point else s.floordiv(x, count)), cell)

    def _element(self, pointer: Scalar) -> Element:
        return self.scalar.from_memory(self.dtype, self.f.load(self.elem, pointer))


@lowers(aten.bincount)
def lower_bincount(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Counts of chunks, then their sum. Weights are added in order, in float64."""
    x, weights, _ = node.args
    size, bins = dims_of(x)[0], dims_of(node.output)[0]
    inputs = [whole_buffer(block, x, node, dt.int64)]
    if weights is not None:
        inputs.append(whole_buffer(block, weights, node, dt.float64))
    calls = [call for _, call in inputs if call is not None]
    few = dm.minimum(_CHUNKS, dm.floordiv(size, 4 * bins + 4))
    chunks: Dim = 1 if weights is not None else dm.maximum(1, few)
    portion = dm.floordiv(size + chunks - 1, chunks)
    held = dt.int64 if weights is None else dt.float64
    parts = Value(tensor_type(held, (chunks, bins)), "parts")
    module, out = block.lowering.module, dtype_of(node.output)
    assert out is not None
    counting = block.lowering.function(
        ("count bins", held), "count_bins",
        lambda name: _emit_count_bins(module.function(name, I64, PARAMETERS), weights is not None))
    adding = block.lowering.function(
        ("add bins", held, out), "add_bins", lambda name: _emit_add_bins(module.function(name, I64, PARAMETERS), out))
    extent = dm.floordiv(bins + _BINS - 1, _BINS)
    return [
        *calls,
        KernelCall(
            counting, (*[v for v, _ in inputs], parts), 1, (size, bins, portion), (), chunks, 4 * size, 0, (), (node,),
            (0,),
        ),
        KernelCall(adding, (parts, node.output), 1, (chunks, bins), (), extent, chunks * bins, 0, (), (node,)),
    ]


def _emit_count_bins(f: Function, is_weighted: bool) -> None:
    """Buffers: numbers, their weights, if they have some; counts [chunks, bins]. Integers: numbers, bins, numbers of a
    chunk."""
    bufs, table, _, _, begin, end = f.params
    size, bins, portion = (f.load(I64, f.gep(I64, table, i)) for i in range(3))
    numbers, *weights, out = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(3 if is_weighted else 2))
    held: LType = F64 if is_weighted else I64
    with f.loop(begin, end, name="chunk") as chunk:
        counts = f.gep(held, out, f.mul(chunk.index, bins))
        f.memset(counts, 0, f.mul(bins, held.bytes))
        low = f.mul(chunk.index, portion)
        with f.loop(low, f.smin(f.add(low, portion), size), name="number") as loop:
            number = f.load(I64, f.gep(I64, numbers, loop.index))
            with f.if_(f.icmp("uge", number, bins), "out_of_bounds"):
                f.ret(const(I64, 1))
            cell = f.gep(held, counts, number)
            before = f.load(held, cell)
            if is_weighted:
                f.store(f.fadd(before, f.load(held, f.gep(held, weights[0], loop.index))), cell)
            else:
                f.store(f.add(before, 1), cell)
    f.ret(const(I64, 0))


def _emit_add_bins(f: Function, dtype: DType) -> None:
    """Buffers: counts [chunks, bins], their sums. Integers: chunks, bins."""
    bufs, table, _, _, begin, end = f.params
    chunks, bins = (f.load(I64, f.gep(I64, table, i)) for i in range(2))
    parts, out = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(2))
    held: LType = F64 if dtype.is_floating_point else I64
    elem = memory_type(dtype, 1)
    high = f.smin(f.mul(end, _BINS), bins)
    with f.loop(f.mul(begin, _BINS), high, name="bin") as bin:
        with f.loop(0, chunks, name="chunk", carried=[(const(held, 0), "sum")]) as chunk:
            x = f.load(held, f.gep(held, parts, f.add(f.mul(chunk.index, bins), bin.index)))
            before = chunk.carried[0]
            chunk.next(f.fadd(before, x) if held is F64 else f.add(before, x))
        total = chunk.results[0]
        f.store(f.fptrunc(total, elem) if dtype is dt.float32 else total, f.gep(elem, out, bin.index))
    f.ret(const(I64, 0))
