"""Grouping: which nodes become one kernel. Linear in the number of nodes.

Items (groups, and nodes that stand alone) carry a stage, and what flows from one item to another
always goes to a higher stage; so joining a group whose stage exceeds that of every other input can never close a cycle.
Where a stage is in the way, the group may be put off (raised) with all that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.ir.graph import Node, Operand, Value, values_in
from weft.ops.cost import calls_functions
from weft.passes.alias import Aliases, ProvingEnv, dims_of_type
from weft.passes.effects import effect_order
from weft.passes.group import Group, Item, StandaloneKernel, TrailingMaps, is_fill, is_fusible, is_leaf
from weft.passes.stages import Stages
from weft.passes.unbacked import UnbackedSizes
from weft.support.progress import progress
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, Type

MAX_NODES = 64  # larger kernels gain nothing and compile slowly
MAX_DEPTH = 6  # a chain of constants longer than this is computed once


@dataclass
class Plan:
    """The items in a valid order, the aliases, and the values that must be in memory."""

    items: list[Item]
    aliases: Aliases
    stored: set[Value]


def group_nodes(
    nodes: Iterable[Node], results: Sequence[Operand], env: ProvingEnv, around: Aliases | None = None
) -> Plan:
    """Group a block's nodes. `env` answers questions about sizes. around: the views of what the block reads."""
    with shape_env.using(env):
        nodes = tuple(nodes)
        grouper = _Grouper(UnbackedSizes(env), effect_order(nodes))
        if around is not None:
            grouper.aliases.geometry.update(around.geometry)
        seen = progress()
        seen.stage("grouping", len(nodes))
        for order, node in enumerate(nodes):
            seen.done = order
            grouper.add(node, order)
        return grouper.finish(nodes, results)


class _Grouper:
    def __init__(self, sizes: UnbackedSizes, follows: dict[Node, tuple[Node, ...]]) -> None:
        self.sizes, self.follows = sizes, follows
        # of nodes that stand alone, as those with effects do, where any must follow another
        self.standalone_of: dict[Node, Item] = {}
        self.aliases = Aliases()
        self.items: list[Item] = []
        self.item_of: dict[Value, Item] = {}  # of roots; leaves and parameters have none
        self.spaces: dict[tuple[Dim, ...], TrailingMaps] = {}
        self.space_of: dict[Type, TrailingMaps] = {}
        self.readers: dict[tuple[Value, TrailingMaps], Group] = {}
        self.order: dict[Node, int] = {}
        self.roots_of: dict[Node, list[tuple[Value, Value]]] = {}
        self.made_of: dict[Value, tuple[Value, ...]] = {}  # of splats: the numbers of other items in them
        self.depth: dict[Value, int] = {}
        self.stages = Stages()

    def add(self, node: Node, order: int) -> None:
        """Place the next node."""
        self.sizes.note(node)
        if node.op.view is not None:
            self._add_view(node, order)
        elif is_leaf(node):
            if is_fill(node):
                self._add_splat(node)
        elif not is_fusible(node):
            self._add_standalone(node, order)
        elif self._is_splat(node):
            self._add_splat(node)
        else:
            self.order[node] = order
            self._add_fusible(node, order)

    def _is_splat(self, node: Node) -> bool:
        """Whether readers had better compute a pointwise node of constants and numbers themselves."""
        if node.op.scalar is None:
            return False
        depth = 0
        for value in node.inputs():
            root = self._root(value)
            is_number = value.node is None and not isinstance(value.type, TensorType)
            if root not in self.aliases.splats and not is_number:
                return False
            depth = max(depth, self.depth.get(root, 0))
        self.depth[node.outputs[0]] = depth + 1
        return depth < MAX_DEPTH and not calls_functions(node.op)

    def _add_splat(self, node: Node) -> None:
        self.aliases.splats.add(node.outputs[0])
        roots = list(map(self._root, node.inputs()))
        numbers = dict.fromkeys(n for root in roots for n in self.made_of.get(root, (root,) * (root in self.item_of)))
        if numbers:
            self.made_of[node.outputs[0]] = tuple(numbers)

    def _add_view(self, node: Node, order: int) -> None:
        if values_in(node.args[1:]) or not self.aliases.add_view(node):
            self._add_standalone(node, order)

    def _add_standalone(self, node: Node, order: int) -> None:
        roots = self._roots(node)
        before = [self.standalone_of[n] for n in self.follows.get(node, ())]
        item = StandaloneKernel(node, 1 + max([self._stage(roots), *(i.stage for i in before)]), order)
        for _, root in roots:
            self.stages.note(self.item_of.get(root), item)
        for earlier in before:
            self.stages.note(earlier, item)
        if self.follows:
            self.standalone_of[node] = item
        self._register(item, node.outputs)

    def _register(self, item: Item, outputs: Iterable[Value]) -> None:
        if not isinstance(item, Group) or len(item.nodes) == 1:
            self.items.append(item)  # (a group is registered again with each node)
        for value in outputs:
            self.item_of[value] = item

    def _root(self, value: Value) -> Value:
        place = self.aliases.geometry.get(value)
        return value if place is None else place[0]

    def _stage(self, roots: list[tuple[Value, Value]]) -> int:
        return max([item.stage for _, root in roots if (item := self.item_of.get(root)) is not None], default=0)

    def _add_fusible(self, node: Node, order: int) -> None:
        space = self._space((node.args[0] if node.op.reduce is not None else node.outputs[0]).type)
        may_wait = bool(space.space)
        roots = self._roots(node)
        candidates = self._candidates(roots, space)
        if len(candidates) > 1:
            candidates = self._joined(candidates, roots)
        for group in candidates:
            if len(group.nodes) < MAX_NODES and self._flows_into(group, roots, may_wait) and group.accept(node):
                break
        else:
            group = Group(space, 1 + self._stage(roots), order)
            if not group.accept(node):
                self._add_standalone(node, order)
                return
        self._register(group, node.outputs)
        for _, root in roots:
            self.readers[root, group.trailing] = group
            self.stages.note(self.item_of.get(root), group)

    def _space(self, kind: Type) -> TrailingMaps:
        """The space of values of a type."""
        space = self.space_of.get(kind)
        if space is None:
            dims = dims_of_type(kind)
            space = self.space_of[kind] = self.spaces.setdefault(dims, TrailingMaps(dims))
        return space

    def _joined(self, candidates: list[Group], roots: list[tuple[Value, Value]]) -> list[Group]:
        """Merge the groups that a node reads into the latest of them, where no other item stands between."""
        producers = {self.item_of.get(root) for _, root in roots}
        target = candidates[0]
        out = [target]
        for group in candidates[1:]:
            if group in producers and target in producers and self._merge(group, target):
                continue
            out.append(group)
        return out

    def _merge(self, group: Group, target: Group) -> bool:
        if (
            len(group.nodes) + len(target.nodes) > MAX_NODES or not (group.nodes and target.nodes)
            or _are_unlike(group, target)
        ):
            return False
        after = target.stage + 1
        raised = self.stages.raised(
            [(r, after) for r in self.stages.early_readers(group, after) if r is not target], (target, group)
        )
        if raised is None:
            return False
        nodes = sorted([*group.nodes, *target.nodes], key=self.order.__getitem__)
        if not _take_over(target, nodes, group):
            return False
        for item, stage in raised:
            item.stage = stage
        for node in group.nodes:
            self.item_of[node.outputs[0]] = target
        self.stages.merged(group, target)
        group.nodes = []
        return True

    def _candidates(self, roots: list[tuple[Value, Value]], space: TrailingMaps) -> list[Group]:
        """Groups of the producers, latest first, then groups that read the same value over the same space."""
        groups: list[Group] = []
        for _, root in roots:
            item = self.item_of.get(root)
            if isinstance(item, Group) and item not in groups:
                groups.append(item)
        groups.sort(key=lambda g: -g.stage)
        for _, root in roots:
            reader = self.readers.get((root, space))
            sibling = None if reader is None else self.stages.current(reader)
            if isinstance(sibling, Group) and sibling not in groups:
                groups.append(sibling)
        return groups

    def _flows_into(self, group: Group, roots: list[tuple[Value, Value]], may_wait: bool) -> bool:
        """Whether what the node reads besides the group can be there before the group runs;
        if `may_wait`, by running the group later."""
        needed = group.stage
        others: list[Item] = []
        for value, root in roots:
            item = self.item_of.get(root)
            if item is None:
                continue
            if item is group:
                if group.axis_map_of(value) is None or group.is_cross_row(value):
                    return False
                continue
            if not may_wait:
                return False
            others.append(item)
            needed = max(needed, item.stage + 1)
        return needed == group.stage or self.stages.raise_all([(group, needed)], others)

    def finish(self, nodes: Sequence[Node], results: Sequence[Operand]) -> Plan:
        """Merge groups into their only readers, add leaves that must be in memory, and order everything."""
        self._sink_groups()
        live = [i for i in self.items if i.nodes]
        stored, deps = self._flows(live, results)
        computed = self.aliases.splats  # by their readers
        leaves = [
            StandaloneKernel(n, 0, -1) for n in nodes
            if not stored.isdisjoint(n.outputs[:1]) and (n.outputs[0] in computed or is_leaf(n))
        ]
        if leaves:
            self.item_of.update((leaf.node.outputs[0], leaf) for leaf in leaves)
            live += leaves
            stored, deps = self._flows(live, results)
        return Plan(_in_order(live, deps), self.aliases, stored)

    def _sink_groups(self) -> None:
        """Merge each group into the only group that reads it.
        Always legal: its inputs have lower stages than its readers."""
        readers: dict[Item, set[Item]] = {}
        sources: dict[Item, set[Item]] = {}
        for item in self.items:
            for node in item.nodes:
                for value in self._read(node):
                    source = self.item_of.get(self._root(value))
                    if source is not None and source is not item:
                        readers.setdefault(source, set()).add(item)
                        sources.setdefault(item, set()).add(source)
        for item in sorted(self.items, key=lambda i: -i.stage):
            targets = readers.get(item, set())
            if not isinstance(item, Group) or not item.nodes or item.cross_row or len(targets) != 1:
                continue
            (target,) = targets
            if not isinstance(target, Group) or len(target.nodes) + len(item.nodes) > MAX_NODES:
                continue
            if not _take_over(target, [*item.nodes, *target.nodes], item):
                continue
            for node in item.nodes:
                self.item_of[node.outputs[0]] = target
            for origin in sources.get(item, ()):
                readers[origin].discard(item)
                readers[origin].add(target)
                sources.setdefault(target, set()).add(origin)
            item.nodes = []

    def _flows(self, items: list[Item], results: Sequence[Operand]) -> tuple[set[Value], dict[Item, list[Item]]]:
        """Values that flow between items (or out), and what each item waits for."""
        stored = {self._root(v) for r in results for v in values_in(r)}
        deps: dict[Item, list[Item]] = {}
        for item in items:
            waits: dict[Item, None] = {}  # (a dict is a set in order)
            is_alone = isinstance(item, StandaloneKernel)
            for node in item.nodes:
                if self.follows:
                    waits.update(dict.fromkeys(self.standalone_of[n] for n in self.follows.get(node, ())))
                for _, root in self._roots(node):
                    source = self.item_of.get(root)
                    if source is item and not is_alone:
                        continue
                    if is_alone or source is not None:
                        stored.add(root)
                    if source is not None and source is not item:
                        waits[source] = None
            deps[item] = list(waits)
        return stored, deps

    def _read(self, node: Node) -> Sequence[Value]:
        """What a node reads, the numbers in what it computes itself among it."""
        reads = node.reads()
        if not self.made_of:
            return reads
        return (*reads, *(n for v in reads for n in self.made_of.get(self._root(v), ())))

    def _roots(self, node: Node) -> list[tuple[Value, Value]]:
        """What must be there before a node, what it reads and what finds the sizes that it has; each with its root."""
        roots = self.roots_of.get(node)
        if roots is None:
            reads = (*self._read(node), *self.sizes.awaited(node, self.aliases))
            roots = [(v, self._root(v)) for v in reads]
            if not self.sizes.exist:  # (else it may await more later)
                self.roots_of[node] = roots
        return roots


def _are_unlike(a: Group, b: Group) -> bool:
    """Whether no space suits both: without rows, each value varies over all axes of its group's space
    (numbers that thousands of groups read are asked)."""
    return a.inner is None and b.inner is None and len(a.axes) != len(b.axes)


def _take_over(target: Group, nodes: Sequence[Node], other: Group) -> bool:
    """Make the target a group of these nodes (its own and the other's), if they fit into one;
    else leave it as it is."""
    for trailing in dict.fromkeys((target.trailing, other.trailing)):
        merged = Group(trailing, target.stage, min(other.order, target.order))
        if not all(merged.accept(node) for node in nodes) or _is_misread(merged):
            continue
        if merged.cross_row != target.cross_row | other.cross_row:
            continue
        if (
            (merged.inner != target.inner and target.inner is not None)
            or (merged.inner != other.inner and other.inner is not None)
        ):
            continue
        target.trailing, target.inner, target.nodes, target.axes = trailing, merged.inner, merged.nodes, merged.axes
        target.axis_maps, target.cross_row, target.order = merged.axis_maps, merged.cross_row, merged.order
        return True
    return False


def _is_misread(group: Group) -> bool:
    """Whether a node reads a value of its own group in a way that the group cannot follow."""
    inside = {v for n in group.nodes for v in n.outputs}
    return any(_source_in(v, inside) and group.axis_map_of(v) is None for n in group.nodes for v in n.inputs())


def _source_in(value: Value, inside: set[Value]) -> bool:
    while value.node is not None and value.node.op.is_view and value not in inside:
        value = value.node.args[0]
    return value in inside


def _in_order(items: list[Item], deps: dict[Item, list[Item]]) -> list[Item]:
    """Items in program order as far as what they wait for allows."""
    done: set[Item] = set()
    out: list[Item] = []
    for item in sorted(items, key=lambda i: i.order):
        stack: list[tuple[Item, int]] = [(item, 0)]
        while stack:
            current, at = stack.pop()
            if current in done:
                continue
            waits = deps.get(current, [])
            while at < len(waits) and waits[at] in done:
                at += 1
            if at < len(waits):
                stack += [(current, at), (waits[at], 0)]
                continue
            done.add(current)
            out.append(current)
    return out
