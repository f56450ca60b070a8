"""Distances of all pairs of rows as a kernel of its own: a panel of the second rows, turned, stays in the cache, while
the first rows go by."""

from __future__ import annotations

from weft.codegen.emit import I64, PTR, Function, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower.accumulate import spread
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.math.core import FloatMath
from weft.codegen.scalar.element import memory_type
from weft.codegen.target import Target
from weft.ir.graph import Node
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dtype import DType

ROWS = 256  # first rows of a part
_BYTES = 128  # of a panel's row: the same on all machines
_BLOCK = 64  # squares that are added up before they are added to the others


@lowers(aten._euclidean_dist)
def lower_distances(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """A part is a panel, and some of the first rows."""
    x1, x2 = node.args
    dtype = dtype_of(x1)
    if dtype not in (dt.float32, dt.float64) or dtype_of(x2) is not dtype:
        return None
    assert dtype is not None
    *batch, n, m = dims_of(node.output)
    width = dims_of(x1)[-1]
    buffers = [spread(block, v, (*batch, rows, width), node) for v, rows in ((x1, n), (x2, m))]
    columns = _BYTES // dtype.itemsize
    panels, chunks = dm.floordiv(m + columns - 1, columns), dm.floordiv(n + ROWS - 1, ROWS)
    module, target = block.lowering.module, block.lowering.target
    name = block.lowering.function(
        ("distances", dtype.short), f"distances_{dtype.short}",
        lambda name: _Distances(module.function(name, I64, PARAMETERS), target, dtype).emit(),
    )
    call = KernelCall(
        name, (*[v for v, _ in buffers], node.output), 1, (n, m, width, panels, chunks), (),
        dm.product(batch) * panels * chunks, dm.product(batch) * n * m * width, width * _BYTES, (), (node,),
    )
    return [*[c for _, c in buffers if c is not None], call]


class _Distances:
    """Writes the function."""

    def __init__(self, f: Function, target: Target, dtype: DType) -> None:
        self.f, self.elem = f, memory_type(dtype, 1)
        self.columns, self.lanes = _BYTES // dtype.itemsize, target.lanes(dtype.itemsize)
        self.type = vec(self.elem, self.lanes)
        self.math = FloatMath(f, target.has_fma, target.has_scale)
        bufs, table, _, self.panel, self.begin, self.end = f.params
        self.n, self.m, self.width, self.panels, self.chunks = (f.load(I64, f.gep(I64, table, i)) for i in range(5))
        self.x1, self.x2, self.out = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(3))

    def emit(self) -> None:
        """The whole function."""
        f = self.f
        with f.loop(self.begin, self.end, name="part") as part:
            rest, chunk = self._divided(part.index, self.chunks)
            batch, panel = self._divided(rest, self.panels)
            low = f.mul(chunk, const(I64, ROWS))
            high = f.smin(f.add(low, ROWS), self.n)
            column = f.mul(panel, const(I64, self.columns))
            self._pack(f.gep(self.elem, self.x2, f.mul(f.mul(batch, self.m), self.width)), column)
            with f.loop(low, high, name="row") as row:
                at = f.add(f.mul(batch, self.n), row.index)
                first = f.gep(self.elem, self.x1, f.mul(at, self.width))
                self._row(first, f.gep(self.elem, self.out, f.add(f.mul(at, self.m), column)), f.sub(self.m, column))
        f.ret(const(I64, 0))

    def _divided(self, number: Scalar, by: Scalar) -> tuple[Scalar, Scalar]:
        f = self.f
        whole = f.udiv(number, by)
        return whole, f.sub(number, f.mul(whole, by))

    def _pack(self, rows: Scalar, column: Scalar) -> None:
        """Element k of each row of the panel side by side; the last row again where there are fewer."""
        f = self.f
        with f.loop(0, const(I64, self.columns), name="lane") as lane:
            row = f.smin(f.add(column, lane.index), f.sub(self.m, 1))
            start = f.gep(self.elem, rows, f.mul(row, self.width))
            with f.loop(0, self.width, name="k") as k:
                x = f.load(self.elem, f.gep(self.elem, start, k.index))
                f.store(x, f.gep(self.elem, self.panel, f.add(f.mul(k.index, self.columns), lane.index)))

    def _row(self, first: Scalar, target: Scalar, left: Scalar) -> None:
        """The distances of one row from those of the panel."""
        f, lanes = self.f, self.lanes
        zeros = [(const(self.type, 0.0), "sum")] * (self.columns // lanes)
        with f.loop(0, self.width, _BLOCK, "block", zeros) as block:
            stop = f.smin(f.add(block.index, _BLOCK), self.width)
            with f.loop(block.index, stop, name="k", carried=zeros) as k:
                x = f.splat(f.load(self.elem, f.gep(self.elem, first, k.index)), lanes)
                line = f.gep(self.elem, self.panel, f.mul(k.index, self.columns))
                differences = [
                    f.fsub(x, f.load(self.type, f.gep(self.elem, line, lanes * i))) for i in range(len(zeros))
                ]
                k.next(*(self.math.mad(d, d, s) for d, s in zip(differences, k.carried, strict=True)))
            block.next(*(f.fadd(a, b) for a, b in zip(block.carried, k.results, strict=True)))
        for i, squares in enumerate(block.results):
            mask = f.first_lanes(f.sub(left, lanes * i), lanes)
            f.masked_store(self.math.sqrt(squares), f.gep(self.elem, target, lanes * i), mask)
