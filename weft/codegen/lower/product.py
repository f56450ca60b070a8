"""Matrix products: kernels that call the generated GEMM on operands as they lie, transposed or not."""

from __future__ import annotations

import functools

from weft.codegen.emit import I32, I64, PTR, Function, Module, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.gemm import declare_gemm
from weft.codegen.gemm.tiles import GemmPlan, plan_gemm
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.target import Target
from weft.ir.graph import Node
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.support import limits
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim

ROWS = 28  # rows of a part: two register tiles
MULTIPLY_WEIGHT = 8  # products and sums that one unit of cost stands for
INTS = ("unit", "M", "N", "K", "offA", "rsA", "csA", "offB", "rsB", "csB", "sA", "sB")


@lowers(aten.mm, aten.bmm)
def lower_product(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """mm or bmm. None for dtypes without a native product."""
    out = node.outputs[0]
    dtype = dtype_of(out)
    if dtype not in (dt.float32, dt.float64):
        return None
    (a, ga), (b, gb) = (block.aliases.of(v) for v in node.args[:2])
    is_batched = len(dims_of(out)) == 3 and dims_of(out)[0] != 1  # a batch of one is cut by rows
    lead = dims_of(out)[0] if is_batched else 1
    m, n = dims_of(out)[-2:]
    k = dims_of(node.args[0])[-1]
    target = block.lowering.target
    assert dtype is not None
    name = block.lowering.function(
        ("product", dtype.short, is_batched), ("bmm_" if is_batched else "mm_") + dtype.short,
        lambda name: emit_product(block.lowering.module, name, dtype.name, target, is_batched))
    batch_strides: tuple[Dim, Dim] = (ga.strides[0], gb.strides[0]) if is_batched else (0, 0)
    ints = (ROWS, m, n, k, ga.offset, *ga.strides[-2:], gb.offset, *gb.strides[-2:], *batch_strides)
    rows, cost, scratch = product_sizes(plan_gemm(dtype.name, target), lead, m, n, k)
    extent = lead if is_batched else rows
    reads = (a,) if a is b else (a, b)
    return [KernelCall(
        name if a is not b else _same_operand(block, name), (*reads, out), 1,
        ints, (), extent, cost, scratch, (), (node,),
    )]


def _same_operand(block: BlockLowering, name: str) -> str:
    """The function for A and B in one buffer: it passes the same address twice."""

    def emit(alias: str) -> None:
        f = block.lowering.module.function(alias, I64, PARAMETERS)
        bufs = f.params[0]
        table = f.alloca(PTR, 3, 8)
        source, target = (f.load(PTR, f.gep(PTR, bufs, i)) for i in (0, 1))
        for i, address in enumerate((source, source, target)):
            f.store(address, f.gep(PTR, table, i))
        f.ret(f.call(block.lowering.module.functions[name].signature, [table, *f.params[1:]]))

    return block.lowering.function(("same operand", name), name + "_same", emit)


@functools.lru_cache(limits.RESULTS)
def product_sizes(plan: GemmPlan, lead: Dim, m: Dim, n: Dim, k: Dim) -> tuple[Dim, Dim, Dim]:
    """Parts by rows, cost, scratch: the same few products occur many times in a program."""
    cost = dm.floordiv(lead * m * n * k, MULTIPLY_WEIGHT) + lead * m * n
    return dm.floordiv(m + ROWS - 1, ROWS), cost, workspace(plan, n, k)


def workspace(plan: GemmPlan, n: Dim, k: Dim) -> Dim:
    """Bytes of scratch that one part needs (GemmPlan.workspace_bytes, for sizes that may be symbols)."""
    columns = dm.floordiv(dm.minimum(n, plan.columns) + plan.panel - 1, plan.panel) * plan.panel
    return ((columns + plan.strip) * dm.minimum(k, plan.depth) + plan.panel) * plan.elem.bytes


def emit_product(module: Module, name: str, dtype: str, target: Target, is_batched: bool) -> None:
    """Write a product kernel. Its buffers are A, B, C (row-major); its integers are INTS; it runs parts of ROWS rows,
    or of one product each."""
    library = declare_gemm(module, dtype, target)
    f = module.function(name, I64, PARAMETERS)
    bufs, table, _, scratch, begin, end = f.params
    ints = {key: f.load(I64, f.gep(I64, table, i), name=key) for i, key in enumerate(INTS)}
    elem = plan_gemm(dtype, target).elem
    a, b, c = (f.load(PTR, f.gep(PTR, bufs, i), name="ABC"[i]) for i in range(3))
    common = [
        f.gep(elem, a, ints["offA"]), f.gep(elem, b, ints["offB"]), c, ints["M"], ints["N"], ints["K"], ints["rsA"],
        ints["csA"], ints["rsB"], ints["csB"], ints["N"], const(I32, 0), scratch,
    ]
    if is_batched:
        f.call(library.batched, [*common, ints["sA"], ints["sB"], f.mul(ints["M"], ints["N"]), begin, end])
    else:
        low, high = _rows(f, ints, begin, end)
        f.call(library.gemm, [*common, low, high])
    f.ret(const(I64, 0))


def _rows(f: Function, ints: dict[str, Scalar], begin: Scalar, end: Scalar) -> tuple[Scalar, Scalar]:
    return f.mul(begin, ints["unit"], "m0"), f.smin(f.mul(end, ints["unit"]), ints["M"], "m1")
