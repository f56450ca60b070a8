"""Scans along a dim: cumulative sums and products, and the linear recurrence that their gradients are made of.
A part is one outer index and some of the columns behind the dim, which are scanned side by side;
the order of each scan is eager's."""

from __future__ import annotations

from weft.codegen.emit import F64, I64, PTR, Function, Module, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.lower.accumulate import COLUMNS, whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.scalar.element import memory_type
from weft.codegen.target import Target
from weft.ir.graph import Node
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dtype import DType

_INTS = ("count", "inner", "chunks")
_FLOATS = (dt.float32, dt.float64)
_SUMS = (*_FLOATS, dt.int64, dt.int32)


@lowers(aten.cumsum, aten.cumprod, aten._exclusive_cumprod, aten._linear_scan)
def lower_scan(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """cumsum, cumprod, _exclusive_cumprod, _linear_scan."""
    kind, out = node.op.base, node.outputs[0]
    dtype, dims = dtype_of(out), dims_of(out)
    is_linear = kind == "_linear_scan"
    if dtype is None or not dims or dtype not in (_FLOATS if is_linear else _SUMS):
        return None
    operands = node.args[:2] if is_linear else node.args[:1]
    axis = normalize_dim(kind, node.args[2] if is_linear else node.args[1], len(dims))
    is_reversed = is_linear and bool(node.args[3])
    sources = [whole_buffer(block, v, node, dtype) for v in operands]
    count, inner = dims[axis], dm.product(dims[axis + 1 :])
    chunks = dm.floordiv(inner + COLUMNS - 1, COLUMNS)
    target = block.lowering.target
    name = block.lowering.function(
        ("scan", kind, is_reversed, dtype.short), f"{kind.strip('_')}_{dtype.short}",
        lambda name: _Emit(block.lowering.module, name, kind, is_reversed, dtype, target).emit())
    buffers = (*[v for v, _ in sources], out)
    call = KernelCall(
        name, buffers, 1, (count, inner, chunks), (), dm.product(dims[:axis]) * chunks, dm.product(dims) * 4, 0,
        ((0, len(buffers) - 2),), (node,))
    return [*[c for _, c in sources if c is not None], call]


class _Emit:
    """Writes the function of a scan."""

    def __init__(self, module: Module, name: str, kind: str, is_reversed: bool, dtype: DType, target: Target) -> None:
        self.f: Function = module.function(name, I64, PARAMETERS)
        self.kind, self.is_reversed, self.is_float = kind, is_reversed, dtype.is_floating_point
        self.elem, self.lanes = memory_type(dtype, 1), target.lanes(dtype.itemsize)
        self.is_held_wide = dtype is dt.float32 and kind != "_linear_scan"  # as eager holds it

    def emit(self) -> None:
        """The whole function."""
        f = self.f
        bufs, table, _, _, begin, end = f.params
        count, inner, chunks = (f.load(I64, f.gep(I64, table, i), name=key) for i, key in enumerate(_INTS))
        pointers = [f.load(PTR, f.gep(PTR, bufs, i)) for i in range(3 if self.kind == "_linear_scan" else 2)]
        with f.loop(begin, end, name="part") as part:
            outer = f.sdiv(part.index, chunks, "outer")
            low = f.mul(f.sub(part.index, f.mul(outer, chunks)), COLUMNS, "low")
            high = f.smin(f.add(low, COLUMNS), inner, "high")
            start = f.mul(outer, f.mul(count, inner), "start")
            with f.loop(low, high, self.lanes, "column") as column:
                mask = f.first_lanes(f.sub(high, column.index), self.lanes)
                self._scan(pointers, f.add(start, column.index), count, inner, mask)
        f.ret(const(I64, 0))

    def _scan(self, pointers: list[Scalar], start: Scalar, count: Scalar, inner: Scalar, mask: Scalar) -> None:
        """One scan for each lane."""
        f, type = self.f, vec(self.elem, self.lanes)
        held_type = vec(F64, self.lanes) if self.is_held_wide else type
        first = const(held_type, self._identity())
        first_row, end, step = (f.sub(count, 1), const(I64, -1), -1) if self.is_reversed else (0, count, 1)
        with f.loop(first_row, end, step, "row", carried=[(first, "held")]) as row:
            at = f.add(start, f.mul(row.index, inner))
            operands = [f.masked_load(type, f.gep(self.elem, p, at), mask) for p in pointers[:-1]]
            held = row.carried[0]
            following = self._step(held, [f.fpext(x, held_type) for x in operands] if self.is_held_wide else operands)
            out = held if self.kind == "_exclusive_cumprod" else following
            f.masked_store(f.fptrunc(out, type) if self.is_held_wide else out, f.gep(self.elem, pointers[-1], at), mask)
            row.next(following)

    def _identity(self) -> float:
        """What a scan begins with. (-0.0 + x is x, for -0.0 too; 0.0 + -0.0 is not.)"""
        if "prod" in self.kind:
            return 1.0 if self.is_float else 1
        return -0.0 if self.is_float and self.kind == "cumsum" else 0

    def _step(self, held: Scalar, operands: list[Scalar]) -> Scalar:
        f = self.f
        if self.kind == "_linear_scan":
            return f.fadd(operands[1], f.fmul(operands[0], held))
        if self.kind == "cumsum":
            return f.fadd(held, operands[0]) if self.is_float else f.add(held, operands[0])
        return f.fmul(held, operands[0]) if self.is_float else f.mul(held, operands[0])
