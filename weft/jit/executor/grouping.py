"""Groups: runs of operators on tensors that become one program. A graph with groups has nodes whose block is the body,
printed in place; it does what the graph does without them.

A node joins a group that it reads from: it moves up to where the group stands, or the group moves down to it. Nothing
moves over what it reads from, over a write to memory, or, if it may be seen itself (it raises, draws, writes), over
anything else that may be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from weft.catalogue.language.entries import NATIVE
from weft.ir.copies import Copy, stand_for
from weft.ir.graph import Block, Graph, Node, Value, values_in
from weft.ir.structure import GROUPS, IF, LATER, LOOP
from weft.jit.native.kinds import is_native
from weft.ops.op import OPS, Op
from weft.passes.scripted.memory import Memory, is_writer, writes_tensor
from weft.types.tensor_type import ListType, TensorType, TupleType, Type

DIFFERENTIABLE, COMPILED, FUSED = GROUPS
_SOFT = frozenset(
    OPS[name] for name in (
        "prim::TupleConstruct", "prim::TupleIndex", "prim::TupleUnpack", "prim::ListConstruct", "prim::ListUnpack",
        "prim::Uninitialized", "aten::size.int", "prim::tensor_getitem", "prim::unchecked_cast",
    )
)
_SET, _TUPLE, _SLICE = (OPS[f"prim::{name}"] for name in ("tensor_setitem", "TupleConstruct", "make_slice"))
_SHOWS = frozenset((OPS["prim::Print"], OPS["prim::RaiseException"]))  # seen, but what is in memory stays
OPEN = 12  # groups that a node may still join


@dataclass(eq=False)
class _Group:
    """A group as it grows. outside: the nodes after its place that are not in it, each once. produced: what its nodes
    give.
    """

    nodes: list[Node] = field(default_factory=list)
    outside: dict[Node, None] = field(default_factory=dict)
    produced: set[Value] = field(default_factory=set)

    def add(self, node: Node) -> None:
        """One more node, the last."""
        self.nodes.append(node)
        self.produced.update(node.outputs)


# ---- what a node does
def writes(node: Node) -> bool:
    """Whether it, or what is in its blocks, changes memory or objects, or does what nobody knows."""
    return any(map(is_writer, node.walk()))


def is_seen(node: Node) -> bool:
    """Whether its place among others that are seen matters."""
    if node.blocks:
        return any(is_seen(n) for b in node.blocks for n in b.nodes)
    return writes(node) or node.op in _SHOWS or (node.op.observes or node.op.effect) not in ("pure", "io")


def is_tensor_work(node: Node) -> bool:
    """Whether it computes a tensor without touching memory that others see."""
    return (
        not node.op.host and node.op not in _SOFT and node.op.effect in ("pure", "random", "raises")
        and node.op.writes is None and bool(node.outputs) and all(isinstance(v.type, TensorType) or _is_list(v.type)
                                                                  for v in node.outputs)
    )


def _is_list(kind: Type) -> bool:
    return isinstance(kind, ListType) and isinstance(kind.element, TensorType)


def _is_known(kind: Type) -> bool:
    """Whether values of the type may go in and out of a group."""
    if isinstance(kind, TupleType):
        return all(map(_is_known, kind.elements))
    return isinstance(kind, TensorType) or _is_list(kind) or is_native(kind)


def _is_slice(value: Value) -> bool:
    """Whether a value is a slice of numbers: a group that reads it makes one of its own."""
    producer = value.node
    return producer is not None and producer.op is _SLICE and all(_is_known(v.type) for v in producer.inputs())


def may_be_grouped(node: Node) -> bool:
    """Whether a node can be part of a native program: operators on tensors, numbers, branches and loops over them."""
    if not all(_is_known(v.type) or _is_slice(v) for v in (*node.outputs, *node.inputs())):
        return False
    if node.blocks:
        inner = [n for b in node.blocks for n in b.nodes]
        return node.op in (IF, LOOP) and all(n.op is _SLICE or may_be_grouped(n) for n in inner)
    return is_tensor_work(node) or node.op in _SOFT or node.op in NATIVE or _writes_tensor(node)


def _writes_tensor(node: Node) -> bool:
    """A write to a row within a loop: out[i] = ..."""
    return node.op is _SET


def is_pointwise(node: Node) -> bool:
    """Whether it fuses: an operator element by element."""
    return not node.blocks and is_tensor_work(node) and node.op.scalar is not None


def work(nodes: Sequence[Node]) -> int:
    """How many operators on tensors there are."""
    return sum(
        work([n for b in node.blocks for n in b.nodes]) if node.blocks else is_tensor_work(node) for node in nodes
    )


def has_loop(nodes: Sequence[Node]) -> bool:
    """Whether there is a loop over tensors."""
    return any((n.op is LOOP and work([n])) or has_loop([m for b in n.blocks for m in b.nodes]) for n in nodes)


# ---- groups of a graph
Fits = Callable[[Node], bool]


def grouped(graph: Graph, op: Op, fits: Fits = may_be_grouped, least: int = 2) -> Graph:
    """The graph with groups of nodes that fit; those of less work than `least` are left as they are."""
    separate = _passing_on_what_is_written(graph)

    def fits_here(node: Node) -> bool:
        return fits(node) and not (node.blocks and any(n in separate for n in node.walk()))

    return Graph(graph.name, _Grouping(op, fits_here, least).block(graph.block), graph.env, graph.writes)


def _passing_on_what_is_written(graph: Graph) -> set[Node]:
    """The branches and loops whose results may be tensors that they were given (a loop of no iterations gives what it
    begins with), which something writes, and which are read otherwise too: in a group they would be tensors of
    their own, and nobody else would see the write.
    """
    position = {node: i for i, node in enumerate(graph.walk())}
    if not any(n.op in (IF, LOOP) for n in position) or not any(map(writes_tensor, position)):
        return set()
    memory = Memory(graph)
    written = {c for node in graph.block.nodes for c in memory.tensors_written(node)}
    readers: dict[Value, list[Node | None]] = {v: [None] for v in values_in(graph.results)}
    for node in position:
        for value in node.inputs():
            readers.setdefault(value, []).append(node)
        for value in values_in([b.results for b in node.blocks]):
            readers.setdefault(value, []).append(node)
    separate = set()
    for node, place in position.items():
        if node.op not in (IF, LOOP):
            continue
        inside = set(node.walk())
        passed = [v for v in node.outputs if memory.is_one_of(v, written)]
        for other, by in readers.items() if passed else ():
            is_older = isinstance(other.type, TensorType) and (other.node is None or position[other.node] < place)
            if is_older and any(memory.may_share(v, other) for v in passed) and (
                memory.is_outside(other) or any(reader not in inside for reader in by)
            ):
                separate.add(node)
                break
    return separate


def _order(block: Block, fits: Fits) -> list[_Group | Node]:
    """Groups of what fits, and the other nodes, in the order in which they run."""
    order: list[_Group | Node] = []
    open_groups: list[_Group] = []
    position = {n: i for i, n in enumerate(block.nodes)}
    for node in block.nodes:
        group = _home(node, open_groups, order, position) if fits(node) else None
        if group is None and fits(node):
            group = _Group()
            open_groups = [*open_groups, group][-OPEN:]
            order.append(group)
        if group is None:
            order.append(node)
        else:
            group.add(node)
        for other in open_groups:
            if other is not group:
                other.outside[node] = None
    return order


def _home(
    node: Node, groups: list[_Group], order: list[_Group | Node], position: dict[Node, int]
) -> _Group | None:
    """The group that a node joins. Those that it reads from become one where they can."""
    needs = _reads(node)
    sources = [g for g in groups if any(v in g.produced for v in needs)]
    if len(sources) > 1 and node.op is _TUPLE and not _read_alike(sources):
        return None  # what a program gives together need not be computed together
    if len(sources) > 1:
        joined = _joined(sources, groups, order, position) or _joined_above(node, sources, order, position)
        if joined is not None:
            groups[:] = [*(g for g in groups if g not in sources), joined]
            return joined
    for group in reversed(sources):
        if _can_rise(node, needs, group):
            return group
        if _can_sink(group.nodes, group.produced, group.outside):
            _put_last(group, [group], groups, order)
            return group
    return None


def _reads(node: Node) -> tuple[Value, ...]:
    """What a node reads; of slices, their numbers."""
    values = node.needs()
    if not any(map(_is_slice, values)):
        return values
    return tuple([v for one in values for v in (one.node.inputs() if _is_slice(one) and one.node else (one,))])


def _read_alike(groups: Sequence[_Group]) -> bool:
    """Whether groups read something in common."""
    reads = [{v for n in g.nodes for v in _reads(n)} - g.produced for g in groups]
    return all(any(mine & other for other in reads if other is not mine) for mine in reads)


def _joined(
    sources: Sequence[_Group], groups: Sequence[_Group], order: list[_Group | Node], position: dict[Node, int]
) -> _Group | None:
    """Several groups as one, at the end; None if one of them cannot move there."""
    mine = {n for g in sources for n in g.nodes}
    produced = {v for g in sources for v in g.produced}
    if not all(_can_sink(g.nodes, produced, [n for n in g.outside if n not in mine]) for g in sources):
        return None
    joined = _Group(sorted(mine, key=position.__getitem__), {}, produced)
    _put_last(joined, sources, groups, order)
    return joined


def _joined_above(
    node: Node, sources: Sequence[_Group], order: list[_Group | Node], position: dict[Node, int]
) -> _Group | None:
    """Several groups as one, at the place of the first; None if one of the others, or the node, cannot move there."""
    first, *others = sorted(sources, key=order.index)
    rising = [*(n for g in others for n in g.nodes), node]
    outside = {n: None for n in first.outside if n not in rising}
    later = {v for n in outside for v in n.outputs}
    if any(v in later for n in rising for v in _reads(n)) or not _may_pass(rising, outside):
        return None
    nodes = sorted({n for g in sources for n in g.nodes}, key=position.__getitem__)
    joined = _Group(nodes, outside, {v for g in sources for v in g.produced})
    order[order.index(first)] = joined
    order[:] = [item for item in order if item not in others]
    return joined


def _put_last(
    group: _Group, places: Sequence[_Group], groups: Sequence[_Group], order: list[_Group | Node]
) -> None:
    """Put a group behind everything, the other groups too, in place of those that it was."""
    order[:] = [item for item in order if item not in places]
    order.append(group)
    group.outside.clear()
    for other in groups:
        if other not in places:
            other.outside.update(dict.fromkeys(group.nodes))


def _can_rise(node: Node, needs: Sequence[Value], group: _Group) -> bool:
    later = {v for n in group.outside for v in n.outputs}
    return not any(v in later for v in needs) and _may_pass([node], group.outside)


def _may_pass(moving: Collection[Node], others: Collection[Node]) -> bool:
    """Whether nodes may move over others that give them nothing: not over writes, not over what may read what they
    write, and where they are seen not over what is seen too."""
    if any(map(writes, others)) or (any(map(writes, moving)) and any(map(_reads_tensors, others))):
        return False
    return not (any(map(is_seen, moving)) and any(map(is_seen, others)))


def _reads_tensors(node: Node) -> bool:
    return any([isinstance(v.type, TensorType) or _is_list(v.type) for v in node.needs()])


def _can_sink(nodes: Sequence[Node], produced: set[Value], outside: Collection[Node]) -> bool:
    return not any(v in produced for n in outside for v in n.needs()) and _may_pass(nodes, outside)


def written_behind(graph: Graph) -> set[Node]:
    """The groups that read memory which the program writes when they have run: their gradients, as a function of what
    they read, can be asked for no more, where those of single operators can.
    """
    memory = Memory(graph)
    groups: set[Node] = set()

    def look(block: Block, written: set[Value]) -> None:
        for node in reversed(block.nodes):
            mine = memory.tensors_written(node)
            if node.op in GROUPS:
                if any(memory.is_one_of(v, written) for v in node.blocks[0].free_values()):
                    groups.add(node)
            else:
                for inner in node.blocks:
                    look(inner, written | mine if node.op is LOOP else written)
            written = written | mine

    if any(n.op in GROUPS for n in graph.walk()) and any(memory.tensors_written(n) for n in graph.block.nodes):
        look(graph.block, set())
    return groups


class _Grouping(Copy):
    """A copy with a node for each group; inner blocks of what is in no group are grouped by themselves."""

    def __init__(self, op: Op, fits: Fits, least: int) -> None:
        super().__init__()
        self.op, self.fits, self.least = op, fits, least

    def block(self, block: Block) -> Block:
        """The block with its groups."""
        sequence: list[_Group | Node] = []
        for item in _order(block, self.fits):
            # a node of a group that came to nothing may stand in front of the slices that it reads
            is_one = isinstance(item, Node) or work(item.nodes) >= self.least or has_loop(item.nodes)
            sequence += [item] if is_one else _with_slices(item.nodes)  # type: ignore[union-attr]
        read: set[Value] = set()
        for item in sequence:
            if isinstance(item, _Group):
                read.update(v for n in item.nodes for v in _reads(n) if v not in item.produced)
            else:
                read.update(item.needs())
        read.update(Block((), (), block.results).free_values())
        params = tuple([Value(p.type, p.name) for p in block.params])
        self.values.update(zip(block.params, params, strict=True))
        nodes: list[Node] = []
        for item in sequence:
            if isinstance(item, _Group):
                nodes.append(self._group(item, read))
            elif item.op is not _SLICE or (item.output in read and item.output not in self.values):
                nodes.append(self.node(item))
        return Block(params, tuple(nodes), tuple(map(self.operand, block.results)))

    def node(self, node: Node) -> Node:
        """A copy of a node. What others call later stays as it is: it may run under transforms."""
        if node.op not in LATER:
            return super().node(node)
        copied = Copy(dict(self.values)).node(node)
        stand_for(node.outputs, copied.outputs, self.values)
        return copied

    def _group(self, group: _Group, read: set[Value]) -> Node:
        """The node of a group."""
        copy = Copy(dict(self.values))
        body = tuple(map(copy.node, _with_slices(group.nodes)))
        results = [v for n in group.nodes for v in n.outputs if v in read]
        block = Block((), body, tuple(map(copy.operand, results)))
        is_constant = self.op is DIFFERENTIABLE and not any(isinstance(v.type, TensorType) or _is_list(v.type)
                                                            for v in block.free_values())
        op = COMPILED if is_constant else self.op  # what reads no tensor has no gradient
        node = Node(op, (), tuple([v.type for v in results]), (block,), group.nodes[0].where)
        stand_for(results, node.outputs, self.values)
        return node


def _with_slices(nodes: Sequence[Node]) -> list[Node]:
    """Nodes with the slices that they read in front of them."""
    ordered: dict[Node, None] = {}
    for node in nodes:
        ordered.update((v.node, None) for v in node.needs() if _is_slice(v) and v.node is not None)
        ordered[node] = None
    return list(ordered)


def fused_within(graph: Graph) -> Graph:
    """The graph with groups of what fuses, in groups and outside of them."""
    return grouped(graph, FUSED, is_pointwise)


def body_of(node: Node, name: str) -> tuple[Graph, tuple[Value, ...]]:
    """The body of a group as a graph of its own, and the values that it takes."""
    outer = node.blocks[0].free_values()
    block = node.blocks[0]
    return Graph(name, Copy().block(Block(outer, block.nodes, block.results))), outer
