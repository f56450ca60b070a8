"""Matrix products: kernels that call the generated GEMM on operands as they lie, transposed or not.

A product is cut into a grid of ranges of rows and of columns (`ProductCut`). Where many ranges share the columns of B,
a kernel of its own packs B first, for all of them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from weft.codegen.emit import I32, I64, PTR, Function, Module, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.gemm import declare_gemm
from weft.codegen.gemm.tiles import GemmPlan, plan_gemm
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.target import Target
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.support import limits
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim

ROWS = 96  # rows of a range at most: what a packed block of A holds
EVEN_RANGES = 4  # many ranges of rows are a multiple of that, for threads to have equal shares
FEWEST_ROWS = 24  # fewer rows are no range of their own: each may pack B for itself
NARROW_PANELS = 4  # a range has at least as many panels of columns
FEW_RANGES = 8  # where rows and batch give fewer ranges, columns are cut too
SHARED_ROWS = 128  # from so many rows on B is packed for all ranges at once
SHARED_ELEMENTS = 1 << 24  # a larger B is packed block by block, by each range: a copy would be seen in the peak
SHARED_COST = 1 << 18  # below, a second parallel region costs more than it saves
MULTIPLY_WEIGHT = 8  # products and sums that one unit of cost stands for
PACK_WEIGHT = 4  # units of cost for an element that is packed
INTS = ("M", "N", "K", "offA", "rsA", "csA", "offB", "rsB", "csB", "sA", "sB", "row_ranges", "column_ranges", "shared")
PACK_INTS = ("N", "K", "offB", "rsB", "csB")


class ProductCut(NamedTuple):
    """How products [lead, m, k] x [lead, k, n] are cut, by their sizes alone.

    rows, columns    how many ranges of each there are
    shared           1 where B is packed ahead for all ranges, else 0
    extent, cost, scratch_bytes     of the product's kernel
    panels, pack_cost, elements     of the kernel that packs, and of what it writes; 0 where none does
    """

    rows: Dim
    columns: Dim
    shared: Dim
    extent: Dim
    cost: Dim
    scratch_bytes: Dim
    panels: Dim
    pack_cost: Dim
    elements: Dim


@lowers(aten.mm, aten.bmm)
def lower_product(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """mm or bmm. None for dtypes without a native product."""
    out = node.outputs[0]
    dtype = dtype_of(out)
    if dtype not in (dt.float32, dt.float64):
        return None
    (a, ga), (b, gb) = (block.aliases.of(v) for v in node.args[:2])
    is_batched = len(dims_of(out)) == 3 and dims_of(out)[0] != 1
    lead = dims_of(out)[0] if is_batched else 1
    m, n = dims_of(out)[-2:]
    k = dims_of(node.args[0])[-1]
    target, lowering = block.lowering.target, block.lowering
    assert dtype is not None
    cut = cut_product(plan_gemm(dtype.name, target), lead, m, n, k)
    batch_strides: tuple[Dim, Dim] = (ga.strides[0], gb.strides[0]) if is_batched else (0, 0)
    ints = (
        m, n, k, ga.offset, *ga.strides[-2:], gb.offset, *gb.strides[-2:], *batch_strides, cut.rows, cut.columns,
        cut.shared,
    )
    calls, packed = [], []
    if cut.shared != 0:
        name = lowering.function(
            ("packed operand", dtype.short), "pack_" + dtype.short,
            lambda name: emit_packing(lowering.module, name, dtype.name, target))
        packed = [Value(node.args[1].tensor_type.with_dims((cut.elements,)), "packed")]
        calls.append(KernelCall(
            name, (b, *packed), 1, (n, k, gb.offset, *gb.strides[-2:]), (), cut.panels, cut.pack_cost, nodes=(node,)))
    name = lowering.function(
        ("product", dtype.short, bool(packed)), ("mm_packed_" if packed else "mm_") + dtype.short,
        lambda name: emit_product(lowering.module, name, dtype.name, target, bool(packed)))
    reads = dict.fromkeys((a, b, *packed))
    if a is b:
        name = _same_operand(block, name, len(packed))
    calls.append(KernelCall(
        name, (*reads, out), 1, ints, (), cut.extent, cut.cost, cut.scratch_bytes, (), (node,),
    ))
    return calls


def _same_operand(block: BlockLowering, name: str, packed: int) -> str:
    """The function for A and B in one buffer: it passes the same address twice."""

    def emit(alias: str) -> None:
        f = block.lowering.module.function(alias, I64, PARAMETERS)
        bufs = f.params[0]
        table = f.alloca(PTR, 3 + packed, 8)
        addresses = [f.load(PTR, f.gep(PTR, bufs, i)) for i in range(2 + packed)]
        for i, address in enumerate((addresses[0], *addresses)):
            f.store(address, f.gep(PTR, table, i))
        f.ret(f.call(block.lowering.module.functions[name].signature, [table, *f.params[1:]]))

    return block.lowering.function(("same operand", name), name + "_same", emit)


@functools.lru_cache(limits.RESULTS)
def cut_product(plan: GemmPlan, lead: Dim, m: Dim, n: Dim, k: Dim) -> ProductCut:
    """The cut of a product: the same few products occur many times in a program."""
    cost = dm.floordiv(lead * m * n * k, MULTIPLY_WEIGHT) + lead * m * n
    even = EVEN_RANGES * dm.floordiv(m + EVEN_RANGES * ROWS - 1, EVEN_RANGES * ROWS)
    rows = dm.maximum(1, dm.minimum(even, dm.floordiv(m, FEWEST_ROWS)))
    panels = plan.panels(n)
    shared: Dim = 0
    if type(lead) is int and lead == 1:
        reasons = (
            dm.floordiv(m, SHARED_ROWS), dm.floordiv(n, plan.panel), dm.floordiv(cost, SHARED_COST),
            dm.floordiv(SHARED_ELEMENTS, dm.maximum(1, n * k)),
        )
        shared = dm.minimum(1, functools.reduce(dm.minimum, reasons))
    few = dm.minimum(dm.floordiv(FEW_RANGES, dm.maximum(1, lead * rows)), dm.floordiv(panels, NARROW_PANELS))
    # a block of B that is not packed ahead is packed once for the ranges of its columns
    blocks = (1 - shared) * dm.floordiv(n + plan.columns - 1, plan.columns)
    columns = dm.maximum(dm.maximum(1, blocks), few)
    return ProductCut(
        rows, columns, shared, lead * rows * columns, cost, plan.workspace_bytes(n, k),
        shared * panels, PACK_WEIGHT * n * k, shared * plan.packed_elements(n, k),
    )


def emit_packing(module: Module, name: str, dtype: str, target: Target) -> None:
    """Write the kernel that packs B for all ranges: buffers B and what is packed, integers PACK_INTS; a part is so many
    panels."""
    library = declare_gemm(module, dtype, target)
    f = module.function(name, I64, PARAMETERS)
    bufs, table, _, _, begin, end = f.params
    ints = {key: f.load(I64, f.gep(I64, table, i), name=key) for i, key in enumerate(PACK_INTS)}
    elem = plan_gemm(dtype, target).elem
    b, packed = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(2))
    start = f.gep(elem, b, ints["offB"])
    f.call(library.pack_b, [start, ints["N"], ints["K"], ints["rsB"], ints["csB"], packed, begin, end])
    f.ret(const(I64, 0))


def emit_product(module: Module, name: str, dtype: str, target: Target, may_share: bool) -> None:
    """Write a product kernel. Its buffers are A, B, (packed B) and C (row-major); its integers are INTS.

    A part is so many ranges of the grid, counted along the rows first: ranges with the same columns that follow each
    other are one call, which packs a block of B once for all of them. Where there is one range of rows, those of
    columns are one call.
    """
    f = module.function(name, I64, PARAMETERS)
    bufs, table, _, scratch, begin, end = f.params
    ints = {key: f.load(I64, f.gep(I64, table, i), name=key) for i, key in enumerate(INTS)}
    buffers = [f.load(PTR, f.gep(PTR, bufs, i)) for i in range(4 if may_share else 3)]
    kernel = _ProductKernel(f, module, plan_gemm(dtype, target), target, ints, buffers, scratch)
    is_flat = f.icmp("eq", ints["row_ranges"], 1, "is_flat")
    run = f.select(is_flat, ints["column_ranges"], ints["row_ranges"], "run")
    with f.while_loop([(begin, "range")], "ranges") as loop:
        at = loop.carried[0]
        loop.test(f.icmp("slt", at, end))
        first = f.urem(at, run, "first")
        count = f.smin(f.sub(run, first), f.sub(end, at), "count")
        last, over = f.add(first, count), f.udiv(at, run)
        column = f.urem(over, ints["column_ranges"])
        rows = [f.select(is_flat, const(I64, flat), x) for flat, x in ((0, first), (1, last))]
        columns = [f.select(is_flat, flat, x) for flat, x in ((first, column), (last, f.add(column, 1)))]
        batch = f.select(is_flat, over, f.udiv(over, ints["column_ranges"]), "batch")
        kernel.multiply(batch, rows, columns)
        loop.next(f.add(at, count))
    f.ret(const(I64, 0))


class _ProductKernel:
    """Writes the call for some ranges of rows and of columns."""

    def __init__(
        self, f: Function, module: Module, plan: GemmPlan, target: Target, ints: dict[str, Scalar],
        buffers: list[Scalar], scratch: Scalar,
    ) -> None:
        self.f, self.plan, self.ints, self.scratch = f, plan, ints, scratch
        self.library = declare_gemm(module, plan.dtype, target)
        self.a, self.b = (
            f.gep(plan.elem, buffers[i], ints[offset]) for i, offset in enumerate(("offA", "offB")))
        self.c, self.packed = buffers[-1], buffers[2] if len(buffers) == 4 else None
        self.row_unit = self._unit(ints["M"], ints["row_ranges"], plan.rows)
        self.column_unit = self._unit(ints["N"], ints["column_ranges"], plan.panel)

    def _unit(self, total: Scalar, ranges: Scalar, multiple: int) -> Scalar:
        """Rows or columns of a range: equal parts, but for whole tiles."""
        f = self.f
        equal = f.udiv(f.add(total, f.sub(ranges, 1)), ranges)
        return f.mul(f.udiv(f.add(equal, multiple - 1), multiple), multiple)

    def multiply(self, batch: Scalar, row_ranges: list[Scalar], column_ranges: list[Scalar]) -> None:
        """From the first to before the last of each."""
        f, ints = self.f, self.ints
        rows = [f.smin(f.mul(at, self.row_unit), ints["M"]) for at in row_ranges]
        columns = [f.smin(f.mul(at, self.column_unit), ints["N"]) for at in column_ranges]
        a = f.gep(self.plan.elem, self.a, f.mul(batch, ints["sA"]))
        b = f.gep(self.plan.elem, self.b, f.mul(batch, ints["sB"]))
        c = f.gep(self.plan.elem, self.c, f.mul(batch, f.mul(ints["M"], ints["N"])))
        sizes, strides_a = [ints[key] for key in ("M", "N", "K")], [ints["rsA"], ints["csA"]]
        rest = [ints["N"], const(I32, 0), self.scratch, *rows, *columns]
        plain = [a, b, c, *sizes, *strides_a, ints["rsB"], ints["csB"], *rest]
        if self.packed is None:
            f.call(self.library.gemm, plain)
            return
        with f.if_else(f.icmp("ne", ints["shared"], 0), "shared") as how:
            with how.then:
                f.call(self.library.packed, [a, self.packed, c, *sizes, *strides_a, *rest])
            with how.otherwise:
                f.call(self.library.gemm, plain)
