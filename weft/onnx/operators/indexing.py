"""Elements by place: gathered, scattered, sorted, counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Host, number
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor


def _counted(places: Tensor, n: Any) -> Tensor:
    """Negative places count from the end."""
    places = places.to(weft.int64)
    return weft.where(places < 0, places + n, places)


@operator("Gather", on_host=lambda data, indices, axis=0: np.take(data, indices.astype(np.int64), axis))
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis = axis % data.ndim
    places = _counted(indices, data.shape[axis])
    if places.ndim == 1:
        return weft.index_select(data, axis, places)
    rows = weft.index_select(data, axis, places.reshape(-1))
    return rows.reshape((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))


@symbolic("aten::index_select")
def write_index_select(g: Any, x: Any, dim: Any, index: Any) -> Any:
    g.require(g.ndim(x) > 0, "index_select of a number")
    return g.op("Gather", x, index, axis=g.axis(dim, x))


@symbolic("aten::embedding")
def write_embedding(g: Any, *arguments: Any) -> Any:
    return g.op("Gather", arguments[0], arguments[1], axis=0)


@operator("GatherElements")
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return weft.gather(data, axis, _counted(indices, data.shape[axis]))


@symbolic("aten::gather", "aten::take_along_dim")
def write_gather(g: Any, x: Any, *arguments: Any) -> Any:
    dim, index = arguments[:2] if g.node.op.schema.base == "gather" else arguments[1::-1]
    g.require(g.known(dim) is not None, "take_along_dim without a dim")
    return g.op("GatherElements", x, index, axis=g.axis(dim, x))


@operator("GatherND")
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    places: list[Tensor] = [
        _counted(p, data.shape[batch_dims + i]) for i, p in enumerate(weft.unbind(indices, -1))
    ]
    batches = [
        weft.arange(data.shape[i]).reshape([-1 if j == i else 1 for j in range(indices.ndim - 1)])
        for i in range(batch_dims)
    ]
    gathered: Tensor = data[tuple(batches + places)]
    return gathered


@operator("Scatter")
@operator("ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    places = _counted(indices, data.shape[axis])
    if reduction == "none":
        return weft.scatter(data, axis, places, updates)
    if reduction == "add":
        return weft.scatter_add(data, axis, places, updates)
    return weft.scatter_reduce(data, axis, places, updates, _REDUCTIONS[reduction])


_REDUCTIONS = {"mul": "prod", "max": "amax", "min": "amin"}


@symbolic("aten::scatter.src", "aten::scatter_add", "aten::scatter.value")
def write_scatter(g: Any, x: Any, dim: Any, index: Any, source: Any) -> Any:
    if g.node.op.schema.overload == "value":
        source = g.op("Expand", g.cast(g.number(source), g.dtype(x)), g.op("Shape", index))
    added = {"reduction": "add"} if g.node.op.schema.base == "scatter_add" else {}
    return g.op("ScatterElements", x, index, source, axis=g.axis(dim, x), **added)


@symbolic("aten::index_add", "aten::index_copy")
def write_index_add(g: Any, x: Any, dim: Any, index: Any, source: Any, alpha: Any = 1) -> Any:
    g.require(g.known(alpha) == 1, "index_add with alpha")
    at = g.axis(dim, x)
    places = index if at == 0 and g.ndim(x) == 1 else g.op(
        "Unsqueeze", index, g.ints([i for i in range(g.ndim(x)) if i != at])
    )
    places = g.op("Expand", places, g.op("Shape", source))
    added = {"reduction": "add"} if g.node.op.schema.base == "index_add" else {}
    return g.op("ScatterElements", x, places, source, axis=at, **added)


@operator("ScatterND")
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    count = indices.shape[-1]
    places = weft.zeros(indices.shape[:-1], dtype=weft.int64)
    for i, part in enumerate(weft.unbind(indices, -1)):
        places = places * data.shape[i] + _counted(part, data.shape[i])
    rest = list(data.shape[count:])
    rows = data.reshape([math.prod(data.shape[:count]), *rest])
    flat, new = places.reshape(-1), updates.reshape([-1, *rest])
    if reduction == "none":
        scattered = weft.index_copy(rows, 0, flat, new)
    elif reduction == "add":
        scattered = weft.index_add(rows, 0, flat, new)
    else:
        scattered = weft.index_reduce(rows, 0, flat, new, _REDUCTIONS[reduction])
    return scattered.reshape(data.shape)


@operator("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, write_indices: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    axis = axis % past.ndim
    starts = weft.zeros((past.shape[0],), dtype=weft.int64) if write_indices is None else write_indices
    steps = weft.arange(update.shape[axis]).reshape([-1 if i == axis else 1 for i in range(past.ndim)])
    places = starts.reshape([-1] + [1] * (past.ndim - 1)) + steps
    places = weft.remainder(places, past.shape[axis]) if mode == "circular" else places
    return weft.scatter(past, axis, weft.broadcast_to(places, update.shape), update)


@operator("Compress", counts_elements=True)
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = x.reshape(-1), 0
    return weft.index_select(x, axis, weft.nonzero(condition).reshape(-1))


@operator("NonZero", counts_elements=True)
def nonzero(x: Tensor) -> Tensor:
    return weft.nonzero(x).t()


@symbolic("aten::nonzero")
def write_nonzero(g: Any, x: Any) -> Any:
    return g.op("Transpose", g.op("NonZero", x), perm=[1, 0])


@symbolic("aten::masked_select")
def write_masked_select(g: Any, x: Any, mask: Any) -> Any:
    shape = g.op("Shape", g.op("Or", mask, g.op("Expand", g.numbers(False, weft.bool), g.op("Shape", x))))
    both = (g.op("Reshape", g.op("Expand", v, shape), g.ints([-1])) for v in (x, mask))
    return g.op("Compress", *both)


@operator("TopK")
def topk(
    x: Tensor, k: Host = None, *, axis: int = -1, k_: int | None = None, largest: int = 1, sorted: int = 1
) -> Any:
    count: Any = k_ if k is None else number(k, "k")
    values, places = weft.sort(x, stable=True, dim=axis, descending=bool(largest))
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


@symbolic("aten::topk")
def write_topk(g: Any, x: Any, k: Any, dim: Any, largest: Any, sorted: Any) -> Any:
    return g.op(
        "TopK", x, g.shape([k]), axis=g.axis(dim, x), largest=int(g.known(largest)), sorted=int(g.known(sorted)),
        outputs=2,
    )  # fmt: skip


@symbolic("aten::sort", "aten::sort.stable", "aten::argsort")
def write_sort(g: Any, x: Any, *arguments: Any) -> Any:
    stable = g.node.op.schema.overload == "stable"
    dim, descending = arguments[1:3] if stable else arguments[:2]
    count = g.shape([g.size(x, g.axis(dim, x))])
    ordered = g.op("TopK", x, count, axis=g.axis(dim, x), largest=int(g.known(descending)), sorted=1, outputs=2)
    return ordered[1] if g.node.op.schema.base == "argsort" else ordered


@operator("Unique", counts_elements=True)
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1, outputs: int) -> Any:
    rows = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis
    values, inverse, counts = weft.unique(rows, return_inverse=True, return_counts=True, dim=along)
    inverse = inverse.reshape(-1)
    places = weft.arange(inverse.shape[0])
    first = weft.full((counts.shape[0],), inverse.shape[0], dtype=weft.int64)
    first = weft.scatter_reduce(first, 0, inverse, places, "amin")
    if not sorted:
        order = weft.argsort(first)
        ranks = weft.argsort(order)
        values, counts = weft.index_select(values, along, order), counts[order]
        first, inverse = first[order], ranks[inverse]
    return (values, first, inverse, counts)[:outputs] if outputs > 1 else values


# ---- indexing as Python writes it
@symbolic("prim::tensor_getitem")
def write_getitem(g: Any, x: Any, index: Any) -> Any:
    """Numbers, slices, None, `...` and tensors; several tensors side by side."""
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    taken = sum(1 for p in parts if p is not None and not (isinstance(p, str) and p == "...") and p is not Ellipsis)
    axis, tensors = 0, []
    for part in parts:
        if part is Ellipsis or (isinstance(part, str) and part == "..."):
            axis += g.ndim(x) - (taken - (axis - _added(parts, part)))
            axis = min(axis, g.ndim(x))
        elif part is None:
            x = g.op("Unsqueeze", x, g.ints([axis]))
            axis += 1
        elif isinstance(part, slice):
            x = _sliced(g, x, axis, part)
            axis += 1
        elif isinstance(part, list):
            tensors.append((axis, g.ints(part)))
            axis += 1
        elif g.is_tensor(part) and g.dtype(part) is weft.bool:
            x = _masked(g, x, axis, part)
            axis += 1
        elif g.is_tensor(part) and g.ndim(part):
            tensors.append((axis, part))
            axis += 1
        else:
            x = g.op("Gather", x, g.number(part), axis=axis)
    return _gathered(g, x, tensors)


def _added(parts: list[Any], until: Any) -> int:
    """New axes before a part."""
    count = 0
    for part in parts:
        if part is until:
            break
        count += part is None
    return count


def _sliced(g: Any, x: Any, axis: int, part: slice) -> Any:
    if part.start is None and part.stop is None and part.step is None:
        return x
    last = 2**63 - 1 if part.stop is None else part.stop
    step = 1 if part.step is None else part.step
    first = 0 if part.start is None else part.start
    return g.op("Slice", x, g.shape([first]), g.shape([last]), g.ints([axis]), g.shape([step]))


def _masked(g: Any, x: Any, axis: int, mask: Any) -> Any:
    if g.ndim(mask) == 1:
        return g.op("Compress", x, mask, axis=axis)
    g.require(axis == 0, "a mask of several axes behind others")
    return g.op("GatherND", x, g.op("Transpose", g.op("NonZero", mask), perm=[1, 0]))


def _gathered(g: Any, x: Any, tensors: list[tuple[int, Any]]) -> Any:
    if not tensors:
        return x
    first = tensors[0][0]
    if len(tensors) == 1:
        return g.op("Gather", x, tensors[0][1], axis=first)
    side_by_side = [a for a, _ in tensors] == list(range(first, first + len(tensors)))
    g.require(side_by_side and first == 0, "several tensors as an index that do not start the index side by side")
    rank = max(g.ndim(t) for _, t in tensors)
    zero = g.op("Sub", tensors[0][1], tensors[0][1])
    for _, t in tensors[1:]:
        zero = g.op("Add", zero, g.op("Sub", t, t))
    counted = []
    for axis, t in tensors:
        places = g.cast(g.op("Add", t, zero), weft.int64)
        size = g.number(g.size(x, axis))
        wrapped = g.op("Where", g.op("Less", places, g.numbers(0, weft.int64)), g.op("Add", places, size), places)
        counted.append(g.op("Unsqueeze", wrapped, g.ints([rank])))
    return g.op("GatherND", x, g.op("Concat", *counted, axis=rank))


@symbolic("aten::index.Tensor")
def write_index(g: Any, x: Any, indices: Any) -> Any:
    return write_getitem(g, x, [slice(None) if i is None else i for i in indices])


__all__ = ["F", "Unsupported"]


@symbolic("aten::scatter_reduce.two")
def write_scatter_reduce(g: Any, x: Any, dim: Any, index: Any, source: Any, reduce: Any, include_self: Any) -> Any:
    names = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    name = names.get(g.known(reduce))
    g.require(name is not None and bool(g.known(include_self)), f"scatter_reduce with {g.known(reduce)}")
    g.require(name in ("add", "mul") or g.opset >= 18, "extremes of scattered elements below opset 18")
    return g.op("ScatterElements", x, index, source, axis=g.axis(dim, x), reduction=name)


@symbolic("aten::index_fill.int_Scalar")
def write_index_fill(g: Any, x: Any, dim: Any, index: Any, value: Any) -> Any:
    at = g.axis(dim, x)
    steps = g.steps(g.size(x, at))
    hit = g.op("Equal", g.op("Unsqueeze", steps, g.ints([1])), g.op("Unsqueeze", index, g.ints([0])))
    hit = g.cast(hit, weft.int32)
    axes = {"keepdims": 0, **({} if g.opset >= 18 else {"axes": [1]})}
    hit = g.op("ReduceMax", hit, *((g.ints([1]),) if g.opset >= 18 else ()), **axes)
    rest = [i for i in range(g.ndim(x)) if i != at]
    mask = g.cast(g.op("Unsqueeze", hit, g.ints(rest)) if rest else hit, weft.bool)
    return g.op("Where", mask, g.cast(value, g.dtype(x)), x)
