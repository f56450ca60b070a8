"""Rows of memory: views that move by the same step from one iteration to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.ir.builder import Handle
from weft.ir.graph import Node, Value
from weft.ops.geometry import Dims, Geometry, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import Aliases, dims_of, view_geometries
from weft.types import dims as dm
from weft.types.dims import Dim


@dataclass(frozen=True)
class Moving:
    """What a view shows of row-major memory in each iteration. step: how far it moves, in elements."""

    first: Geometry
    step: Dim

    def at(self, iteration: int) -> Geometry:
        """What it shows in an iteration."""
        return replace(self.first, offset=self.first.offset + iteration * self.step)

    def shifted(self, iterations: int) -> Moving:
        """What it shows so many iterations later."""
        return Moving(self.at(iterations), self.step)

    @property
    def is_backwards(self) -> bool:
        """Whether it moves towards the beginning."""
        return self.step < 0 if isinstance(self.step, int) else all([count < 0 for _, count in self.step.terms])


@dataclass(frozen=True)
class Along:
    """The same as positions along one dim of the memory, which a row is without: `first`, `first + step`, ..."""

    dim: int
    first: int
    step: int

    def slice(self, count: int) -> tuple[int, int, int, int]:
        """The arguments of a slice of so many of them: dim, start, end, step."""
        return self.dim, self.first, self.first + self.step * (count - 1) + 1, self.step


def moving(places: Sequence[Geometry]) -> Moving | None:
    """Places of successive iterations as one that moves; None where they do not move evenly, or it is not known in
    which direction."""
    first, second = places[:2]
    step = second.offset - first.offset
    if not isinstance(step, int) and len({count > 0 for _, count in step.terms}) > 1:
        return None
    offset = first.offset
    for place in places:
        if place.dims != first.dims or place.strides != first.strides or place.offset != offset:
            return None
        offset = offset + step
    return Moving(first, step)


class Places:
    """Where the values of a graph lie that are views of others. params: what the graph is given."""

    def __init__(self, params: Iterable[Value]) -> None:
        self._known = set(params)
        self._aliases = Aliases()

    def of(self, value: Value) -> tuple[Value, Geometry]:
        """The value whose row-major memory it shows, and what it shows of it."""
        if value not in self._known:
            node = value.node
            self._known.update((value,) if node is None else node.outputs)
            if node is not None and node.op.view is not None:
                self.of(node.args[0])
                self._aliases.add_view(node)
        return self._aliases.of(value)


def shown_by(node: Node, source: Geometry) -> tuple[Geometry, ...] | None:
    """What the results of a view show, of a source that lies so; None where that is no view of it."""
    geometries = view_geometries(node.op, source, node.args[1:])
    if geometries is None or any(g.dims != dims_of(v) for g, v in zip(geometries, node.outputs, strict=True)):
        return None
    return geometries


def along(moves: Moving, dims: Dims) -> Along | None:
    """Rows along one dim of memory of these dims; None where they are something else."""
    strides = contiguous_strides(dims)
    for dim, stride in enumerate(strides):
        others = (*dims[:dim], *dims[dim + 1 :]), (*strides[:dim], *strides[dim + 1 :])
        if (moves.first.dims, moves.first.strides) != others:
            continue
        first, step = _quotient(moves.first.offset, stride), _quotient(moves.step, stride)
        if first is not None and step:
            return Along(dim, first, step)
    return None


def _quotient(offset: Dim, stride: Dim) -> int | None:
    """How many strides an offset is; None where that is no whole number."""
    if isinstance(offset, int) and offset == 0:
        return 0
    if isinstance(stride, int) and stride == 0:
        return None
    count = dm.floordiv(offset, stride)
    return count if isinstance(count, int) and count * stride == offset else None


def read(source: Handle, moves: Moving, count: int) -> Handle:
    """A tensor with the rows of `count` iterations along its first dim, in memory order where they move backwards."""
    moves = _in_memory_order(moves, count)
    place = along(moves, source.dims)
    if place is None:
        dims, strides = (count, *moves.first.dims), (moves.step, *moves.first.strides)
        return aten.as_strided(source, dims, strides, moves.first.offset)  # type: ignore[no-any-return]
    part = aten.slice(source, *place.slice(count))
    return aten.permute(part, _front(place.dim, source.ndim)) if place.dim else part  # type: ignore[no-any-return]


def written(base: Handle, moves: Moving, rows: Handle, count: int) -> Handle:
    """The base with other rows in it, given in memory order."""
    place = along(_in_memory_order(moves, count), base.dims)
    assert place is not None
    if place.dim:
        order = _front(place.dim, base.ndim)
        rows = aten.permute(rows, tuple([order.index(i) for i in range(base.ndim)]))
    return aten.slice_scatter(base, rows, *place.slice(count))  # type: ignore[no-any-return]


def _in_memory_order(moves: Moving, count: int) -> Moving:
    """The same rows from the first in memory on."""
    return Moving(moves.at(count - 1), -moves.step) if moves.is_backwards else moves


def _front(dim: int, rank: int) -> tuple[int, ...]:
    return (dim, *[i for i in range(rank) if i != dim])
