"""Orderings along a dim as kernels of their own: sort, topk, kthvalue, medians, mode; places in sorted
sequences. A part is a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.codegen.emit import I64
from weft.codegen.lower.accumulate import whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.orderings.keys import Keys
from weft.codegen.orderings.rows import RowKernel, copy_bytes
from weft.codegen.orderings.runs import emit_mode
from weft.codegen.orderings.search import BLOCK, emit_search
from weft.codegen.orderings.select import Which, emit_select, kth, median, middle_number, select_bytes
from weft.codegen.orderings.sort import emit_sort, sort_bytes
from weft.codegen.orderings.top import emit_top, top_bytes
from weft.ir.graph import Node
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types.dims import Dim

_SORTED, _SELECTED = 30, 10  # work for each element, where an addition is 1


@lowers(aten.sort)
def lower_sort(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Rows in order."""
    dim, descending = node.args[-2:]
    return _lower(block, node, dim, "sort", emit_sort, sort_bytes, _SORTED, descending=descending)


@lowers(aten.topk)
def lower_topk(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The first k of each row."""
    _, wanted, dim, largest, _ = node.args
    return _lower(
        block, node, dim, "topk", emit_top, lambda dtype, count: top_bytes(dtype, wanted), _SELECTED, (wanted,), largest
    )


@lowers(aten.kthvalue)
def lower_kthvalue(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The k-th of each row."""
    return _lower_select(block, node, node.args[2], kth, (node.args[1],))


@lowers(aten.median.dim)
def lower_median(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The middle of each row."""
    return _lower_select(block, node, node.args[1], median)


@lowers(aten.nanmedian.dim)
def lower_nanmedian(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The middle of what is a number in each row."""
    return _lower_select(block, node, node.args[1], middle_number)


@lowers(aten.mode)
def lower_mode(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The most frequent element of each row."""
    return _lower(block, node, node.args[1], "mode", emit_mode, sort_bytes, _SORTED)


@lowers(aten.searchsorted.Tensor)
def lower_searchsorted(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Values looked up in one sequence, or each row of them in its own."""
    sequence, values, is_short, is_right, side, sorter = node.args
    dtype = dtype_of(sequence)
    if dtype is None or dtype.is_complex or dtype_of(values) is not dtype or sorter is not None:
        return None
    (keys, first), (wanted, second) = (whole_buffer(block, v, node) for v in (sequence, values))
    length, size = dims_of(sequence)[-1], dm.product(dims_of(values))
    count = size if len(dims_of(sequence)) == 1 else dims_of(values)[-1]
    module, after = block.lowering.module, bool(is_right) or side == "right"

    def write(function: str) -> None:
        f = module.function(function, I64, PARAMETERS)
        emit_search(f, Keys(f, dtype), after, bool(is_short))

    function = block.lowering.function(
        ("search", dtype.short, after, bool(is_short)), f"search_{dtype.short}", write
    )
    extent = dm.floordiv(size + BLOCK - 1, BLOCK)
    call = KernelCall(
        function, (keys, wanted, node.output), 1, (length, count, size), (), extent, size * _SORTED, 0, (), (node,)
    )
    return [*(c for c in (first, second) if c is not None), call]


def _lower_select(
    block: BlockLowering, node: Node, dim: int, which: Which, sizes: tuple[Dim, ...] = ()
) -> list[KernelCall] | None:
    emit = partial(emit_select, which=which)
    return _lower(block, node, dim, f"select_{which.__name__}", emit, select_bytes, _SELECTED, sizes)


def _lower(
    block: BlockLowering, node: Node, dim: int, name: str, emit: Callable[[RowKernel], None],
    memory: Callable[..., Dim], work: int, sizes: tuple[Dim, ...] = (), descending: bool = False,
) -> list[KernelCall] | None:
    """The kernel of a node whose first argument's rows along a dim are ordered. memory: private bytes, by the dtype and
    the elements of a row; work: for each element."""
    rows = node.args[0]
    dtype, dims = dtype_of(rows), dims_of(rows)
    if dtype is None or dtype.is_complex:
        return None
    axis = normalize_dim(name, dim, len(dims)) if dims else 0
    count = dims[axis] if dims else 1
    outer, inner = dm.product(dims[:axis]), dm.product(dims[axis + 1 :])
    is_adjacent = inner == 1
    source, copy = whole_buffer(block, rows, node)
    target, module = block.lowering.target, block.lowering.module

    def write(function: str) -> None:
        f = module.function(function, I64, PARAMETERS)
        emit(RowKernel(f, target, Keys(f, dtype, descending), is_adjacent, len(sizes)))

    function = block.lowering.function(
        ("ordering", name, dtype.short, descending, is_adjacent), f"{name}_{dtype.short}", write
    )
    scratch = memory(dtype, count) + (0 if is_adjacent else copy_bytes(dtype, count))
    call = KernelCall(
        function, (source, *node.outputs), 2, (inner, count, *sizes), (), outer * inner, dm.product(dims) * work,
        scratch, (), (node,),
    )
    return [call] if copy is None else [copy, call]
