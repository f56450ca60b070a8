"""Masks as kernels of their own: nonzero, masked_select, x[mask], writes by a mask, masked_scatter and its gradient.
How often a mask holds in each of its chunks is counted first."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.emit import I8, I16, I32, I64, Function, LType
from weft.codegen.lower.accumulate import spread
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.mask_kernels import (
    CHUNK,
    STAGE,
    MaskKernel,
    emit_count,
    emit_pick,
    emit_places,
    emit_put,
)
from weft.codegen.scalar.element import memory_type
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.passes.group import is_zeros
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, is_one
from weft.types.dtype import DType
from weft.types.tensor_type import tensor_type

_MOVED: dict[int, LType] = {1: I8, 2: I16, 4: I32, 8: I64}  # what elements are moved as, by their size
_SUMS = (dt.float32, dt.float64, dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8)  # dtypes that are added in themselves
_WORD = 8  # bytes of the largest element


class _Masked:
    """A kernel of a mask while it is put together: the mask and the counts of its chunks, and what makes them."""

    def __init__(self, block: BlockLowering, node: Node, mask: Value, dims: tuple[Dim, ...]) -> None:
        """dims: those that the mask is expanded to."""
        self.block, self.node = block, node
        self.calls: list[KernelCall] = []
        self.size = dm.product(dims)
        self.mask = self.spread(mask, dims, dt.bool_)
        self.chunks = dm.floordiv(self.size, CHUNK) + 1
        self.counts = Value(tensor_type(dt.int64, (self.chunks,)), "counts")
        module = block.lowering.module
        name = block.lowering.function(
            ("count mask",), "count_mask", lambda name: emit_count(module.function(name, I64, PARAMETERS))
        )
        self.calls.append(KernelCall(
            name, (self.mask, self.counts), 1, (self.size,), (), self.chunks, self.size, 0, (), (node,)
        ))

    def spread(self, value: Value, dims: tuple[Dim, ...], dtype: DType | None = None) -> Value:
        """A buffer that holds a value expanded to dims, contiguously."""
        root, call = spread(self.block, value, dims, self.node, dtype)
        if call is not None:
            self.calls.append(call)
        return root

    def call(
        self, name: str, emit: Callable[[MaskKernel], None], key: tuple[object, ...], elem: LType,
        sources: tuple[Value, ...], sizes: tuple[Dim, Dim, Dim], more: tuple[Dim, ...] = (),
        in_place: tuple[tuple[int, int], ...] = (),
    ) -> list[KernelCall]:
        """All kernels. sizes: picks, elements of a row, repetitions of the mask."""
        picked, inner, outer = sizes
        target, module = self.block.lowering.target, self.block.lowering.module
        buffers = (*sources, self.mask, self.counts, self.node.output)
        is_single = is_one(inner)

        def write(function: str) -> None:
            f: Function = module.function(function, I64, PARAMETERS)
            emit(MaskKernel(f, target, elem, len(buffers), is_single, len(more)))

        function = self.block.lowering.function((name, *key, elem.text, is_single), f"{name}_{elem.text}", write)
        self.calls.append(KernelCall(
            function, buffers, 1, (self.size, picked, inner, outer, *more), (), self.chunks,
            self.size * inner * outer * 2, _WORD * (STAGE + 1), in_place, (self.node,), (0,),
        ))
        return self.calls


def _moved(dtype: DType | None) -> LType | None:
    return None if dtype is None else _MOVED.get(dtype.itemsize)


@lowers(aten.nonzero.default)
def lower_nonzero(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Places of what is not zero."""
    (x,) = node.args
    dims = dims_of(x)
    if not dims:
        return None
    masked = _Masked(block, node, x, dims)
    picked = dims_of(node.output)[0]
    return masked.call(
        "places", lambda kernel: emit_places(kernel, kernel.more), (len(dims),), I64, (), (picked, 1, 1), dims[1:]
    )


@lowers(aten.masked_select)
def lower_masked_select(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Elements where a mask holds."""
    x, mask = node.args
    elem = _moved(dtype_of(x))
    dims = _joint(dims_of(x), dims_of(mask))
    if elem is None or dims is None:
        return None
    masked = _Masked(block, node, mask, dims)
    source = masked.spread(x, dims)
    return masked.call("pick", lambda k: emit_pick(k, False), (False,), elem, (source,), (
        dims_of(node.output)[0], 1, 1
    ))


def lower_picked(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """x[mask], or x[:, mask]: one mask for dims next to each other."""
    x, indices = node.args
    at, elem = mask_among(indices), _moved(dtype_of(x))
    if at is None or elem is None:
        return None
    mask = indices[at]
    dims, rank = dims_of(x), len(dims_of(mask))
    masked = _Masked(block, node, mask, dims[at : at + rank])
    source = masked.spread(x, dims)
    sizes = (dims_of(node.output)[at], dm.product(dims[at + rank :]), dm.product(dims[:at]))
    return masked.call("pick", lambda k: emit_pick(k, False), (False,), elem, (source,), sizes)


@lowers(aten.index_put)
def lower_index_put(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Values where a mask holds; other indices are rows by number by now."""
    base, indices, values, adds = node.args
    at, dtype = mask_among(indices), dtype_of(base)
    elem = memory_type(dtype, 1) if adds and dtype in _SUMS else None if adds else _moved(dtype)
    if at is None or elem is None or dtype_of(values) is not dtype:
        return None
    mask, dims = indices[at], dims_of(base)
    rank, shape = len(dims_of(mask)), dims_of(values)
    if len(shape) != len(dims) - rank + 1 or is_one(shape[at]):
        return None
    picked = shape[at]
    masked = _Masked(block, node, mask, dims[at : at + rank])
    whole = (*dims[:at], picked, *dims[at + rank :])
    sizes = (picked, dm.product(dims[at + rank :]), dm.product(dims[:at]))
    return _put(masked, base, masked.spread(values, whole), sizes, elem, adds, True)


@lowers(aten.masked_scatter)
def lower_masked_scatter(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The first elements of a source where a mask holds."""
    base, mask, source = node.args
    elem, dims = _moved(dtype_of(base)), dims_of(node.output)
    if elem is None or not dims:
        return None
    masked = _Masked(block, node, mask, dims)
    count = dm.product(dims_of(source))
    return _put(masked, base, masked.spread(source, dims_of(source)), (count, 1, 1), elem, False, False)


def _put(
    masked: _Masked, base: Value, values: Value, sizes: tuple[Dim, Dim, Dim], elem: LType, adds: bool, is_exact: bool
) -> list[KernelCall]:
    has_base = not is_zeros(base)
    sources = (masked.spread(base, dims_of(masked.node.output)), values) if has_base else (values,)
    emit = lambda kernel: emit_put(kernel, has_base, adds, is_exact)  # noqa: E731
    in_place = ((0, 0),) if has_base else ()
    return masked.call("put", emit, (has_base, adds, is_exact), elem, sources, sizes, (), in_place)


@lowers(aten.masked_scatter_backward)
def lower_masked_scatter_backward(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """What a mask picks, then zeros."""
    grad, mask, _ = node.args
    elem, dims = _moved(dtype_of(grad)), _joint(dims_of(grad), dims_of(mask))
    if elem is None or not dims:
        return None
    masked = _Masked(block, node, mask, dims)
    source = masked.spread(grad, dims)
    sizes = (dm.product(dims_of(node.output)), 1, 1)
    return masked.call("pick", lambda k: emit_pick(k, True), (True,), elem, (source,), sizes)


def mask_among(indices: tuple[Value | None, ...]) -> int | None:
    """Where the mask is among the indices of an advanced indexing, if it is the only one."""
    at = [i for i, index in enumerate(indices) if index is not None]
    if len(at) != 1:
        return None
    mask = indices[at[0]]
    return at[0] if mask is not None and dtype_of(mask) is dt.bool_ and dims_of(mask) else None


def _joint(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """What two tensors are broadcast to; None where that is not certain."""
    if len(a) < len(b):
        a, b = b, a
    lead = len(a) - len(b)
    joint = list(a[:lead])
    for x, y in zip(a[lead:], b, strict=True):
        if x == y or is_one(y):
            joint.append(x)
        elif is_one(x):
            joint.append(y)
        else:
            return None
    return tuple(joint)
