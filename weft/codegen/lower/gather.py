"""Kernels that gather elements by index: embedding, index_select, gather, advanced indexing by integers.
Bounds are checked as they run."""

from __future__ import annotations

from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.masks import lower_picked
from weft.ir.graph import Node, Value
from weft.loops.copies import Lookup, gather_nest
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of
from weft.types import dtype as dt
from weft.types.dims import Dim

_INTEGERS = (dt.int64, dt.int32)


@lowers(aten.embedding)
def lower_embedding(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Rows of a table."""
    table, indices = node.args[:2]
    rank = len(dims_of(indices))
    strides = block.aliases.of(table)[1].strides
    lookup = Lookup(indices, tuple(range(rank)), strides[0], dims_of(table)[0])
    return [block.lowering.nest(gather_nest(node, block.aliases, table, (0,) * rank + (strides[1],), [lookup], False))]


@lowers(aten.index_select)
def lower_index_select(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Slices along one dim."""
    source, dim, index = node.args
    if not dims_of(source) or not dims_of(index):
        return None
    axis = normalize_dim("index_select", dim, len(dims_of(source)))
    strides = block.aliases.of(source)[1].strides
    lookup = Lookup(index, (axis,), strides[axis], dims_of(source)[axis])
    return [block.lowering.nest(gather_nest(node, block.aliases, source, _without(strides, axis), [lookup], False))]


@lowers(aten.gather)
def lower_gather(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """One element for each index."""
    source, dim, index = node.args[:3]
    if not dims_of(source) or len(dims_of(source)) != len(dims_of(index)):
        return None
    axis = normalize_dim("gather", dim, len(dims_of(source)))
    strides = block.aliases.of(source)[1].strides
    lookup = Lookup(index, tuple(range(len(strides))), strides[axis], dims_of(source)[axis])
    return [block.lowering.nest(gather_nest(node, block.aliases, source, _without(strides, axis), [lookup], False))]


@lowers(aten.index.Tensor)
def lower_index(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Advanced indexing by integer tensors for dims next to each other, or by a mask."""
    source, indices = node.args
    adjacent = adjacent_indices(indices)
    if adjacent is None or not dims_of(source):
        return lower_picked(block, node)
    first, tensors = adjacent
    strides = block.aliases.of(source)[1].strides
    rank = max(len(dims_of(t)) for t in tensors)
    lookups = []
    for k, t in enumerate(tensors):
        lead = rank - len(dims_of(t))
        axes = tuple(first + lead + i for i in range(len(dims_of(t))))
        lookups.append(Lookup(t, axes, strides[first + k], dims_of(source)[first + k]))
    walked = (*strides[:first], *(0,) * rank, *strides[first + len(tensors) :])
    return [block.lowering.nest(gather_nest(node, block.aliases, source, walked, lookups, True))]


def adjacent_indices(indices: tuple[Value | None, ...]) -> tuple[int, list[Value]] | None:
    """(first indexed dim, index tensors) where integer tensors index dims next to each other."""
    at = [i for i, t in enumerate(indices) if t is not None]
    tensors = [t for t in indices if t is not None]
    if not tensors or at != list(range(at[0], at[0] + len(at))) or any(dtype_of(t) not in _INTEGERS for t in tensors):
        return None
    return at[0], tensors


@lowers(aten.checked_index)
def lower_checked(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The index, looked up in nothing: only its bounds matter."""
    index, size = node.args
    lookup = Lookup(index, tuple(range(len(dims_of(index)))), 0, size)
    return [block.lowering.nest(
        gather_nest(node, block.aliases, index, block.aliases.of(index)[1].strides, [lookup], False)
    )]


def _without(strides: tuple[Dim, ...], axis: int) -> tuple[Dim, ...]:
    return (*strides[:axis], 0, *strides[axis + 1 :])
