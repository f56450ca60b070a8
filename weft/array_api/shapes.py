"""Dims: exchanged, joined, repeated; and elements by their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array_api.promotion import promoted
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


def _listed(axis: int | Sequence[int]) -> list[int]:
    return [axis] if isinstance(axis, int) else list(axis)


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """The tensor, shown with a larger size."""
    return aten.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The tensors, one behind the other along a dim; axis=None: of the flattened tensors."""
    parts = promoted(*arrays)
    return aten.cat([aten.flatten(x) for x in parts], 0) if axis is None else aten.cat(list(parts), axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The tensors, along a new dim."""
    return aten.stack(list(promoted(*arrays)), axis)


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements in reverse along some dims; axis=None: along all."""
    return aten.flip(x, list(range(x.ndim)) if axis is None else _listed(axis))


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Dims at other places, as a view."""
    return aten.movedim(x, _listed(source), _listed(destination))


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Another size of as many elements. copy: True for a copy in any case, False for a view: ValueProblem where
    there is none, None for a view where there is one."""
    if copy:
        return aten.reshape(x.clone(), tuple(shape))
    out: Tensor = aten.reshape(x, tuple(shape))
    if copy is False and out.numel() and out.data_ptr() != x.data_ptr():
        raise ValueProblem(f"reshape(): {tuple(x.shape)} cannot be shown as {tuple(shape)} without a copy")
    return out


def roll(
    x: Tensor, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None
) -> Tensor:
    """The elements moved along dims, those that fall out put back at the other end; axis=None: of the flat tensor."""
    if axis is None:
        return aten.roll(x, _listed(shift))
    dims = _listed(axis)
    return aten.roll(x, [shift] * len(dims) if isinstance(shift, int) else list(shift), dims)


def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """Without these dims, which must have the size 1. Raises ValueProblem, IndexBoundsError."""
    dims = _listed(axis)
    for dim in dims:
        if -x.ndim <= dim < x.ndim and x.shape[dim] != 1:
            raise ValueProblem(f"squeeze(): dim {dim} has the size {x.shape[dim]}, not 1")
    return aten.squeeze(x, dims)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The tensor, so many times along each dim."""
    return aten.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The parts at some places along a dim, which only a tensor of one dim may leave out."""
    if axis is None:
        if x.ndim != 1:
            raise ValueProblem(f"take(): axis must be given for a tensor of {x.ndim} dims")
        axis = 0
    where: list[Any] = [slice(None)] * (axis % max(x.ndim, 1))
    return x[tuple([*where, indices])]
