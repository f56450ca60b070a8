"""Parts of a buffer that are computed where they lie: a pointwise group whose only reader writes its value to a part of
another buffer waits for that reader, and needs no buffer of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.ir.graph import Operand, Value, values_in
from weft.ops.geometry import Geometry
from weft.passes.alias import Aliases, dims_of
from weft.passes.group import Group, Item, StandaloneKernel
from weft.passes.grouping import Plan

OUTSIDE = -1  # in the place of a reader: the block's results


def groups_for_parts(plan: Plan, results: Sequence[Operand]) -> dict[Value, Group]:
    """For each value that a scatter alone reads, and that is all its group stores, the group."""
    scatters = [i for i in plan.items if isinstance(i, StandaloneKernel) and i.node.op.scatters is not None]
    if not scatters:
        return {}
    readers = _readers(plan.items, plan.aliases, results)
    producers = {v: item for item in plan.items if isinstance(item, Group) for n in item.nodes for v in n.outputs}
    groups: dict[Value, Group] = {}
    for scatter in scatters:
        source = scatter.node.args[1]
        group = producers.get(source)
        if group is None or group.inner is not None or group.cross_row or readers.get(source) != {id(scatter)}:
            continue
        stored = {v for n in group.nodes for v in n.outputs if v in plan.stored}
        base = plan.aliases.of(scatter.node.args[0])[0]
        if stored == {source} and all(_dies(root, base, group, readers) for root in _reads(group, plan.aliases)):
            groups[source] = group
    return groups


def _dies(root: Value, base: Value, group: Group, readers: dict[Value, set[int]]) -> bool:
    """Whether it does no harm to read a buffer later: nothing waits for its memory."""
    return root is base or (root.node is not None and readers[root] <= {id(group)})


def _reads(group: Group, aliases: Aliases) -> Iterator[Value]:
    inside = {v for n in group.nodes for v in n.outputs}
    for node in group.nodes:
        for value in node.inputs():
            root = aliases.of(value)[0]
            if root not in inside and root not in aliases.splats:
                yield root


def _readers(items: Sequence[Item], aliases: Aliases, results: Sequence[Operand]) -> dict[Value, set[int]]:
    readers: dict[Value, set[int]] = {}
    for item in items:
        for node in item.nodes:
            for value in node.reads():
                readers.setdefault(aliases.of(value)[0], set()).add(id(item))
    for result in results:
        for value in values_in(result):
            readers.setdefault(aliases.of(value)[0], set()).add(OUTSIDE)
    return readers


def reads_elsewhere(group: Group, aliases: Aliases, root: Value, dims: Sequence[object], place: Geometry) -> bool:
    """Whether a group reads a buffer anywhere but at a place in it, element by element."""
    for node in group.nodes:
        for value in node.inputs():
            buffer, geometry = aliases.of(value)
            if buffer is root and (dims_of(value), geometry.strides, geometry.offset) != (
                dims, place.strides, place.offset
            ):
                return True
    return False
