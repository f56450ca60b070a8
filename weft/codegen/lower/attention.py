"""Attention and its gradients: one kernel each, on operands as they lie."""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.attention import ROWS, VECTOR_BYTES, Attention, Variant
from weft.codegen.emit import I64
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.matrices import common_stride, repeated_strides
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.geometry import Geometry, contiguous
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.plan.arena import aligned
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, is_one

PRIVATE_BYTES = 1 << 26  # what the private memory of all parts may be, where that leaves FEWEST_PARTS
FEWEST_PARTS = 4
FEW_PARTS = 8  # where the batch has fewer matrices, queries are cut too
PRODUCT_WEIGHT = 8  # products and sums that one unit of cost stands for
EXPONENT_WEIGHT = 16  # units of cost for a score


@dataclass(frozen=True)
class Place:
    """Where an operand's matrices lie: offset, strides of two batch dims, of rows and of columns."""

    root: Value
    strides: tuple[Dim, ...]


@lowers(aten._attention)
def lower_attention(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Forward: parts of the queries of each matrix of the batch."""
    query, key, value, mask, is_causal, scale = node.args
    return _Lowering(block, node, ("query", "key", "value"), (query, key, value), mask, is_causal, scale).calls(False)


@lowers(aten._attention_backward)
def lower_attention_backward(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Backward: each matrix of the batch is a part."""
    grad, query, key, value, mask, is_causal, scale = node.args
    names = ("grad", "query", "key", "value")
    return _Lowering(block, node, names, (grad, query, key, value), mask, is_causal, scale).calls(True)


class _Lowering:
    """The call of a kernel while it is put together."""

    def __init__(
        self, block: BlockLowering, node: Node, names: tuple[str, ...], operands: tuple[Value, ...],
        mask: Value | None, is_causal: bool, scale: object,
    ) -> None:
        self.block, self.node, self.scale, self.is_causal = block, node, scale, is_causal
        self.names = names if mask is None else (*names, "mask")
        self.copies: list[KernelCall] = []
        query, key, value = (operands[names.index(name)] for name in ("query", "key", "value"))
        *self.lead, self.queries, self.width = dims_of(query)
        self.keys, self.value_width = dims_of(key)[-2], dims_of(value)[-1]
        self.inner = self.lead[-1] if self.lead else 1
        self.places = [self._place(v) for v in operands]
        if mask is not None:
            self.places.append(self._mask_place(mask))
        self.mask = "" if mask is None else "bool" if dtype_of(mask) is dt.bool_ else "float"

    def _place(self, value: Value) -> Place:
        root, g = self.block.aliases.of(value)
        place = None if root in self.block.aliases.splats else _place_at(root, g)
        return place or self._copied(value, root, g)

    def _copied(self, value: Value, root: Value, geometry: Geometry) -> Place:
        """Row-major, with the dims of the geometry."""
        dims = geometry.dims
        copied = Value(value.tensor_type.with_dims(dims), value.name)
        self.copies.append(self.block.copy(copied, dims, root, geometry, self.node))
        place = _place_at(copied, contiguous(dims))
        assert place is not None
        return place

    def _mask_place(self, mask: Value) -> Place:
        """A mask repeated over the dims that it lacks; its columns follow each other."""
        root, g = self.block.aliases.of(mask)
        dims = (*self.lead, self.queries, self.keys)
        if root in self.block.aliases.splats:
            return self._copied(mask, root, contiguous(dims))
        strides = repeated_strides(g.dims, g.strides, dims)
        place = _place_at(root, Geometry(dims, strides, g.offset))
        if place is not None and is_one(strides[-1]):
            return place
        # what it lacks in front stays repeated, if that is possible
        lacking = 0 if place is None else len(dims) - len(g.dims)
        return self._copied(mask, root, Geometry(dims[lacking:], strides[lacking:], g.offset))

    def calls(self, is_backward: bool) -> list[KernelCall]:
        """The copies and the kernel."""
        lowering, dtype = self.block.lowering, dtype_of(self.node.outputs[0])
        assert dtype is not None
        reads = tuple(dict.fromkeys(p.root for p in self.places))
        variant = Variant(
            dtype.name, self.is_causal, self.mask, tuple(reads.index(p.root) for p in self.places))
        word = "attention_backward" if is_backward else "attention"

        def emit(name: str) -> None:
            f = lowering.module.function(name, I64, PARAMETERS)
            kernel = Attention(f, lowering.module, lowering.target, variant, self.names)
            (kernel.emit_backward if is_backward else kernel.emit_forward)()

        name = lowering.function((word, variant), f"{word}_{dtype.short}", emit)
        batch = dm.product(self.lead)
        ranges: Dim = 1
        if not is_backward:
            ranges = dm.maximum(1, dm.minimum(
                dm.floordiv(FEW_PARTS, dm.maximum(1, batch)), dm.floordiv(self.queries, ROWS)))
        sizes, scratch = self._sizes(dtype.name, dtype.itemsize, ranges, is_backward)
        ints = (*sizes, *(s for p in self.places for s in p.strides))
        widths = self.width + self.value_width
        work = dm.floordiv(batch * self.queries * self.keys * widths * (5 if is_backward else 2), 2 * PRODUCT_WEIGHT)
        cost = work + batch * self.queries * self.keys * EXPONENT_WEIGHT
        return [*self.copies, KernelCall(
            name, (*reads, *self.node.outputs), len(self.node.outputs), ints, (self.scale,), batch * ranges, cost,
            scratch, (), (self.node,),
            most_parts=dm.maximum(FEWEST_PARTS, dm.floordiv(PRIVATE_BYTES, scratch)),
        )]

    def _sizes(self, dtype: str, itemsize: int, ranges: Dim, is_backward: bool) -> tuple[tuple[Dim, ...], Dim]:
        """What the kernel's table begins with, and bytes of private memory."""
        plan = plan_gemm(dtype, self.block.lowering.target)
        lanes = VECTOR_BYTES // itemsize
        # terms of a product: keys, a width, or ROWS queries
        most = dm.maximum(dm.maximum(self.keys, ROWS), dm.maximum(self.width, self.value_width))
        workspace = aligned(plan.workspace_bytes(most, most))
        packed = aligned(plan.packed_elements(self.keys, self.width) * itemsize)
        packed_values = aligned(plan.packed_elements(self.keys, self.value_width) * itemsize) if is_backward else 0
        # one vector more: rows that lie a multiple of a page apart would push each other out of the cache
        stride = dm.floordiv(self.keys + 2 * lanes - 1, lanes) * lanes
        sizes = (
            self.queries, self.keys, self.width, self.value_width, self.inner, ranges, stride, workspace, packed,
            packed_values,
        )
        return sizes, workspace + packed + packed_values + (2 if is_backward else 1) * ROWS * stride * itemsize


def _place_at(root: Value, g: Geometry) -> Place | None:
    """Where the matrices of a geometry lie; None where its outer dims have no common stride."""
    outer = common_stride(g.dims[:-3], g.strides[:-3])
    inner = g.strides[-3] if len(g.dims) > 2 else 0
    return None if outer is None else Place(root, (g.offset, outer, inner, *g.strides[-2:]))
