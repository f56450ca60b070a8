"""Nests of nodes that stand alone: copies of views, fills, ranges, elements gathered by index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.graph import Node, Operand, Value
from weft.loops.build import GroupBuilder
from weft.loops.coalesce import coalesce, is_broadcast, walked
from weft.loops.nest import FULL, ONCE, ROW, Access, Gather, Instr, Nest, Ref, Store
from weft.loops.phases import settle_phases
from weft.ops.geometry import Geometry, contiguous
from weft.passes.alias import Aliases, dims_of, dtype_of
from weft.passes.group import Group, TrailingMaps
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, is_one


def copy_nest(
    target: Value, dims: Sequence[Dim], root: Value, geometry: Geometry, node: Node, aliases: Aliases,
    place: Geometry | None = None,
) -> Nest:
    """The elements of a view of `root` written to target: contiguous over `dims`, or where `place` says."""
    place = place or contiguous(tuple(dims))
    if root in aliases.splats:
        return _splat_copy(target, dims, root, node, place, aliases)
    axes = [i for i, d in enumerate(dims) if not is_one(d)]
    strides = [
        tuple(
            0 if is_broadcast(g, d) else walked(s, d)
            for g, d, s in zip(geometry.dims, dims, geometry.strides, strict=False)
        ),
        place.strides,
    ]
    sizes, joined = coalesce(axes, dims, strides)
    form = "flat" if len(sizes) == 1 else "rows"
    is_range = root.node is not None and root.node.op.counts
    nest = Nest(form, tuple(sizes[:-1]), tuple(sizes[-1:]), [] if is_range else [root], [target], nodes=(node,))
    source, result = dtype_of(root), dtype_of(target)
    assert source is not None and result is not None
    nest.accesses = [
        Access(-1 if is_range else 0, source, tuple(joined[0]), geometry.offset),
        Access(len(nest.reads), result, tuple(joined[1]), place.offset)]
    level = FULL if sizes and joined[0][-1] != 0 else ROW if any(s != 0 for s in joined[0]) else ONCE
    nest.instrs = [Instr("index" if is_range else "load", source, level, what=0)]
    nest.stores = [Store(0, nest.accesses[1])]
    settle_phases(nest)
    return nest


def _splat_copy(target: Value, dims: Sequence[Dim], root: Value, node: Node, place: Geometry, aliases: Aliases) -> Nest:
    """One number written to a place."""
    builder = GroupBuilder(Group(TrailingMaps(()), 0, 0), aliases, {target})
    dtype, result = dtype_of(root), dtype_of(target)
    assert dtype is not None and result is not None
    value = builder.splat(root, dtype)
    axes = [i for i, d in enumerate(dims) if not is_one(d)]
    sizes, joined = coalesce(axes, dims, [place.strides])
    nest = Nest(
        "flat" if len(sizes) == 1 else "rows", tuple(sizes[:-1]), tuple(sizes[-1:]), list(builder.roots), [target],
        nodes=(node,),
    )
    nest.numbers, nest.instrs = builder.numbers, builder.instrs
    nest.accesses = [Access(i, dt.float64, (0,) * len(sizes)) for i in range(len(builder.roots))]
    nest.accesses.append(Access(len(nest.reads), result, tuple(joined[0]), place.offset))
    nest.stores = [Store(value, nest.accesses[-1])]
    settle_phases(nest)
    return nest


def fill_nest(target: Value, value: Any, node: Node) -> Nest:
    """A literal number written to all of a buffer."""
    size, dtype = dm.product(dims_of(target)), dtype_of(target)
    assert dtype is not None
    nest = Nest("flat", (), (size,), [], [target], [Access(0, dtype, (1,))], nodes=(node,))
    nest.instrs = [Instr("literal", dtype, ONCE, what=value)]
    nest.stores = [Store(0, nest.accesses[0])]
    settle_phases(nest)
    return nest


def gather_nest(
    node: Node, aliases: Aliases, base: Operand, steps: Sequence[Dim], lookups: Sequence[Lookup], wraps: bool
) -> Nest:
    """out[i] = base at strides `steps` over i, moved by each lookup's index times its stride."""
    out = node.outputs[0]
    builder = GroupBuilder(Group(TrailingMaps(dims_of(out)), 0, 0), aliases, {out})
    builder.choose_axes()
    place = tuple(i if i in builder.group.axes else -1 for i in range(len(dims_of(out))))
    builder.group.axis_maps[out] = place
    refs = []
    for lookup in lookups:
        index = builder.outside(lookup.index, tuple(place[a] for a in lookup.axes))
        refs.append(Ref(index if builder.instrs[index].dtype is dt.int64 else builder.cast(index, dt.int64)))
    root, geometry = aliases.of(base)
    dtype = dtype_of(root)
    assert dtype is not None
    strides = tuple(
        0 if axis < 0 else walked(s, d) for axis, s, d in zip(place, steps, dims_of(out), strict=True)
    )
    access = builder.access(root, strides, geometry.offset)
    looked_up = {a for x in lookups for a in x.axes}
    count = dm.product(d for a, d in enumerate(dims_of(out)) if a in looked_up)
    gather = Gather(access, tuple(x.stride for x in lookups), tuple(x.size for x in lookups), wraps, count)
    level = max(builder.instrs[r.index].level for r in refs)
    if level == FULL:
        value = builder.emit(Instr("gather", dtype, FULL, args=tuple(refs), what=gather, weight=4))
    else:
        builder.emit(Instr("offset", dt.int64, level, args=tuple(refs), what=gather))
        value = builder.emit(Instr("load", dtype, max(level, builder.level(strides)), what=access))
    builder.known[out] = value
    builder.store_value(out)
    return replace(builder.finish([out], None), nodes=(node,))


@dataclass(frozen=True)
class Lookup:
    """An index tensor: the axes of the result that it varies over, and the stride and size of the dim that it
    looks up."""

    index: Value
    axes: tuple[int, ...]
    stride: Dim
    size: Dim


def leaf_nest(node: Node, aliases: Aliases) -> Nest:
    """The kernel that writes a fill, a range or another splat to memory."""
    target = node.outputs[0]
    group = Group(TrailingMaps(dims_of(target)), 0, 0)
    builder = GroupBuilder(group, aliases, {target})
    builder.choose_axes()
    place = tuple(i if i in group.axes else -1 for i in range(len(group.space)))
    builder.group.axis_maps[target] = place
    builder.known[target] = builder.outside(target, place)
    builder.store_value(target)
    return replace(builder.finish([target], None), nodes=(node,))
