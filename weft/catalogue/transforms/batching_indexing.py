"""The batch rules of indexing: where the indices differ from example to example, the number of the example
is one more index."""

from __future__ import annotations

from typing import Any

from weft.ops.batching import Flags, along, batches, everywhere, full_rank, shifted, whole
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.support.errors import StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim

batches(aten.gather, aten.scatter.src, aten.scatter.value, aten.scatter_add, aten.scatter_reduce.two)(along("dim"))


# ---- one index vector
def _index_select(op: Op, size: Dim, flags: Flags, self: Any, dim: int, index: Any) -> Any:
    rank = self.ndim - bool(flags[0])
    if not flags[2] and rank:
        return aten.index_select(self, shifted(dim, rank), index)
    x, places = everywhere(size, (flags[0], flags[2]), (self, index))
    if rank == 0:
        x = aten.unsqueeze(x, 1)
    if places.ndim == 1:
        places = aten.unsqueeze(places, 1)
    at = shifted(dim, rank)
    shaped = aten.reshape(places, (size, *(1,) * (at - 1), places.dims[1], *(1,) * (x.ndim - at - 1)))
    dims = tuple(places.dims[1] if i == at else d for i, d in enumerate(x.dims))
    out = aten.gather(x, at, aten.expand(shaped, dims))
    return aten.squeeze(out, 1) if rank == 0 else out


def _one_below_the_other(op: Op, size: Dim, flags: Flags, self: Any, dim: int, index: Any, *rest: Any) -> Any:
    """index_add, index_copy, index_fill: the examples' rows in one tall tensor, the indices moved along."""
    rank = self.ndim - bool(flags[0])
    source_is_tensor = bool(rest) and hasattr(type(rest[0]), "__weft_route__")
    x, places = everywhere(size, (flags[0], flags[2]), (self, index))
    listed = list(rest)
    if source_is_tensor:
        listed[0] = rest[0] if flags[3] else whole(rest[0], size)
    if rank == 0:
        x = aten.unsqueeze(x, 1)
    if places.ndim == 1:
        places = aten.unsqueeze(places, 1)
    if source_is_tensor and listed[0].ndim < x.ndim:
        listed[0] = aten.unsqueeze(listed[0], shifted(dim, rank))
    at = shifted(dim, rank)
    tall = aten.movedim(x, at, 1)
    rows = tall.dims[1]
    wrapped = aten.where(aten.lt(places, 0), places + rows, places)
    moved = wrapped + aten.reshape(aten.mul(aten._iota(size), rows), (size, 1))
    if source_is_tensor:
        listed[0] = aten.flatten(aten.movedim(listed[0], at, 1), 0, 1)
    out = call(op, (aten.flatten(tall, 0, 1), 0, aten.flatten(moved), *listed))
    out = aten.movedim(aten.reshape(out, tall.dims), 1, at)
    return aten.squeeze(out, 1) if rank == 0 else out


batches(aten.index_select)(_index_select)
batches(aten.index_add, aten.index_copy, aten.index_fill.int_Scalar)(_one_below_the_other)


# ---- advanced indexing
class _Plan:
    """Advanced indexing with the indexed dims brought together behind the batch."""

    def __init__(self, size: Dim, rank: int, indices: Any, flags: Any) -> None:
        listed = _integers(indices, flags)
        self.size = size
        self.axes = [i for i, (index, _) in enumerate(listed) if index is not None]
        self.rest = [i for i in range(rank) if i not in self.axes]
        self.order = (0, *(a + 1 for a in self.axes), *(r + 1 for r in self.rest))
        chosen = [listed[a] for a in self.axes]
        self.rank = max(index.ndim - bool(flag) for index, flag in chosen)
        first = aten.reshape(aten._iota(size), (size, *(1,) * self.rank))
        self.indices = (first, *(self._aligned(index, flag) for index, flag in chosen))
        adjacent = self.axes[-1] - self.axes[0] == len(self.axes) - 1
        self.place = self.axes[0] if adjacent else 0

    def _aligned(self, index: Any, flag: bool) -> Any:
        """An index whose own dims end where those of the others end."""
        if not flag:
            return aten.unsqueeze(index, 0) if index.ndim == self.rank else index
        missing = self.rank - (index.ndim - 1)
        return aten.reshape(index, (self.size, *(1,) * missing, *index.dims[1:])) if missing else index

    def to_result(self, out: Any) -> Any:
        """[batch, *index dims, *rest] as the unbatched result has them."""
        return (
            aten.movedim(out, tuple(range(1, self.rank + 1)), tuple(range(self.place + 1, self.place + self.rank + 1)))
            if self.rank else out
        )

    def from_result(self, out: Any) -> Any:
        """The inverse of to_result."""
        return (
            aten.movedim(out, tuple(range(self.place + 1, self.place + self.rank + 1)), tuple(range(1, self.rank + 1)))
            if self.rank else out
        )


def _integers(indices: Any, flags: Any) -> list[tuple[Any, bool]]:
    """The indices with masks as the places where they hold."""
    out: list[tuple[Any, bool]] = []
    for index, flag in zip(indices, flags, strict=True):
        if index is None or index.dtype not in (dt.bool_, dt.uint8):
            out.append((index, flag))
        elif flag:
            raise StateError(
                "vmap: It looks like you're indexing with a mask that differs from example to example; "
                "the number of elements would differ too. Use weft.where(mask, x, other) and keep the shape."
            )
        else:
            out.extend((place, False) for place in aten.unbind(aten.nonzero(index), 1))
    return out


def _index(op: Op, size: Dim, flags: Flags, self: Any, indices: Any) -> Any:
    x = self if flags[0] else whole(self, size)
    plan = _Plan(size, x.ndim - 1, indices, flags[1])
    out = aten.index(aten.permute(x, plan.order), plan.indices)
    return plan.to_result(out)


def _index_put(op: Op, size: Dim, flags: Flags, self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    x = self if flags[0] else whole(self, size)
    plan = _Plan(size, x.ndim - 1, indices, flags[1])
    inner = aten.permute(x, plan.order)
    if values.ndim - bool(flags[2]):
        shape = plan.to_result(aten.index(inner, plan.indices)).dims
        missing = len(shape) - 1 - (values.ndim - bool(flags[2]))
        raised = aten.reshape(
            values, (*((size,) if flags[2] else ()), *(1,) * max(missing, 0), *values.dims[int(flags[2]) :])
        )
        placed = plan.from_result(aten.expand(raised if flags[2] else aten.unsqueeze(raised, 0), shape))
    else:
        placed = aten.reshape(values, (size, *(1,) * (plan.rank + len(plan.rest)))) if flags[2] else values
    out = aten.index_put(inner, plan.indices, placed, accumulate)
    back = tuple(plan.order.index(i) for i in range(len(plan.order)))
    return aten.permute(out, back)


batches(aten.index.Tensor)(_index)
batches(aten.index_put)(_index_put)


# ---- masks that differ: the k-th element that an example's mask picks is its k-th source element
def _numbered(mask: Any) -> Any:
    """[batch, n] -> for each element how many picked ones lie before it (for one that is picked: its number)."""
    return aten.clamp(aten.cumsum(aten._to_copy(mask, dt.int64), 1) - 1, 0)


def _rows(value: Any) -> Any:
    return aten.reshape(value, (value.dims[0], dm.product(value.dims[1:])))


def _masked_scatter(op: Op, size: Dim, flags: Flags, self: Any, mask: Any, source: Any) -> Any:
    rank = max(self.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
    x, holds = aten.broadcast_tensors((full_rank(self, flags[0], size, rank), full_rank(mask, flags[1], size, rank)))
    given = _rows(source if flags[2] else whole(source, size))
    if given.dims[1] == 0:
        return aten.clone(x)
    taken = aten.gather(given, 1, _numbered(_rows(holds)))
    return aten.where(holds, aten.reshape(taken, x.dims), x)


def _masked_scatter_backward(op: Op, size: Dim, flags: Flags, grad: Any, mask: Any, sizes: Any) -> Any:
    rank = max(grad.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
    g, holds = aten.broadcast_tensors((full_rank(grad, flags[0], size, rank), full_rank(mask, flags[1], size, rank)))
    zeros = aten.new_zeros(g, (size, dm.product(sizes)))
    if zeros.dims[1] == 0:
        return aten.reshape(zeros, (size, *sizes))
    found = aten.scatter_add(zeros, 1, _numbered(_rows(holds)), _rows(aten.where(holds, g, 0)))
    return aten.reshape(found, (size, *sizes))


batches(aten.masked_scatter)(_masked_scatter)
batches(aten.masked_scatter_backward)(_masked_scatter_backward)
