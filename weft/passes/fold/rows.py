"""Rows of memory: views that move by the same step from one iteration to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Node, Value
from weft.ops.geometry import Dims, Geometry, contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import changes_dtype, dims_of, view_geometries
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
        return (isinstance(self.step, int) and self.step < 0) or str(self.step).startswith("-")


@dataclass(frozen=True)
class Along:
    """The same as positions along one dim of the memory: `first`, `first + step`, ..., each of `width` (None: without
    that dim)."""

    dim: int
    first: int
    step: int


def moving(places: Sequence[Geometry]) -> Moving | None:
    """Places of successive iterations as one that moves; None where they do not move evenly."""
    first, second = places[:2]
    step = second.offset - first.offset
    offset = first.offset
    for place in places:
        if place.dims != first.dims or place.strides != first.strides or place.offset != offset:
            return None
        offset = offset + step
    return Moving(first, step)


class Places:
    """Where the values of a graph lie that are views of others. params: what the graph is given."""

    def __init__(self, params: Iterable[Value]) -> None:
        self._places = {param: (param, contiguous(dims_of(param))) for param in params}

    def of(self, value: Value) -> tuple[Value, Geometry]:
        """The value whose row-major memory it shows, and what it shows of it."""
        place = self._places.get(value)
        if place is None:
            place = self._places[value] = self._resolved(value)
        return place

    def _resolved(self, value: Value) -> tuple[Value, Geometry]:
        node = value.node
        if node is not None and node.op.view is not None and not changes_dtype(node):
            root, source = self.of(node.args[0])
            # (what names strides of its own speaks of row-major memory)
            is_known = not node.op.view.is_free or source == contiguous(dims_of(root))
            shown = shown_by(node, source) if is_known else None
            if shown is not None:
                return root, shown[value.index]
        return value, contiguous(dims_of(value))


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
    """How many strides an offset is."""
    if isinstance(offset, int) and offset == 0:
        return 0
    if isinstance(offset, int) and isinstance(stride, int):
        return offset // stride if stride and offset % stride == 0 else None
    if isinstance(offset, int) or isinstance(stride, int):
        return None if isinstance(offset, int) else _by_terms(offset, stride)
    return _by_terms(offset, stride)


def _by_terms(offset: Dim, stride: Dim) -> int | None:
    terms = dict(getattr(offset, "terms", ()))
    for key, count in getattr(stride, "terms", (((), stride),)):
        candidate = terms.get(key)
        if candidate is not None and candidate % count == 0 and stride * (candidate // count) == offset:
            return int(candidate // count)
        return None
    return None


def read(builder: Builder, source: Handle, moves: Moving, count: int) -> Handle:
    """A tensor with the rows of `count` iterations along its first dim, in memory order where they move backwards."""
    if moves.is_backwards:
        moves = Moving(moves.at(count - 1), -moves.step)
    place = along(moves, source.dims)
    if place is None:
        dims, strides = (count, *moves.first.dims), (moves.step, *moves.first.strides)
        return aten.as_strided(source, dims, strides, moves.first.offset)  # type: ignore[no-any-return]
    last = place.first + place.step * (count - 1) + 1
    part = aten.slice(source, place.dim, place.first, last, place.step)
    return aten.permute(part, _front(place.dim, source.ndim)) if place.dim else part  # type: ignore[no-any-return]


def written(builder: Builder, base: Handle, moves: Moving, rows: Handle, count: int) -> Handle:
    """The base with other rows in it, given in memory order."""
    if moves.is_backwards:
        moves = Moving(moves.at(count - 1), -moves.step)
    place = along(moves, base.dims)
    assert place is not None
    order = _front(place.dim, base.ndim)
    back = tuple([order.index(i) for i in range(base.ndim)])
    last = place.first + place.step * (count - 1) + 1
    rows = aten.permute(rows, back) if place.dim else rows
    return aten.slice_scatter(base, rows, place.dim, place.first, last, place.step)  # type: ignore[no-any-return]


def _front(dim: int, rank: int) -> tuple[int, ...]:
    return (dim, *[i for i in range(rank) if i != dim])
