"""Which values of a program are which tensor: views and results of writes lead to the value that has the memory. And
whether a write can be seen through another value of which nobody knows more than that it may be the same tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.structure import IF, LOOP
from weft.passes.scripted.entries import SLICE, TENSOR_GETITEM
from weft.passes.scripted.memory import Memory, can_be_written, writes_tensor
from weft.support.errors import StateError
from weft.types.tensor_type import INT, TensorType

Loops = tuple[int, ...]  # of a place: the positions at which the loops around it begin


@dataclass(eq=False)
class _Place:
    position: int
    loops: Loops


@dataclass(eq=False)
class Aliases:
    """The facts of one graph; positions count nodes, and the ends of blocks, in program order."""

    graph: Graph
    memory: Memory = field(init=False)
    parent: dict[Value, Value] = field(default_factory=dict)  # what a view shows, the target of a write
    same: set[Value] = field(default_factory=set)  # those that are their parents, not views of them
    made: dict[Value, int] = field(default_factory=dict)
    reads: dict[Value, list[_Place]] = field(default_factory=dict)  # by root
    writes: list[tuple[Node, Value, _Place]] = field(default_factory=list)  # with what is written
    begins: dict[Node, int] = field(default_factory=dict)
    of_loop: dict[Value, int] = field(default_factory=dict)  # what a loop carries: where the loop begins

    def __post_init__(self) -> None:
        self.memory = Memory(self.graph)
        self._count = 0
        self._block(self.graph.block, ())

    def root(self, value: Value) -> Value:
        """The value whose memory this one shows."""
        while value in self.parent:
            value = self.parent[value]
        return value

    def written_roots(self, node: Node) -> list[Value]:
        """The tensors made before a node that it or its blocks write."""
        inside = {n for b in node.blocks for n in b.walk()}
        begin = self.begins[node]
        roots = dict.fromkeys(self.root(v) for n, v, _ in self.writes if n in inside)
        return [r for r in roots if self.made[r] < begin]

    def refuse_what_is_shared(self) -> None:
        """Raise StateError, with the line, for a write that others may see through a value of their own."""
        roots = {self.root(v) for v in self.made if can_be_written(v.type)}  # lists hold what they were given
        for node, target, place in self.writes:
            root = self.root(target)
            if self.memory.is_outside(root):
                raise _refused(node, "to a tensor that its caller, or somebody else, has; clone it before")
            for other in roots - {root}:
                if self.memory.may_share(root, other) and self._is_seen(other, place):
                    name = f"%{other.name}" if other.name else "another value"
                    raise _refused(node, f"and {name} may be the same tensor; clone it before")

    def _is_seen(self, other: Value, place: _Place) -> bool:
        """Whether a value made before a write is read after it."""
        if self.made[other] > place.position:
            return False
        again = [b for b in place.loops if self.made[other] < b or self.of_loop.get(other) == b]
        return any(
            r.position > place.position or any(b in r.loops for b in again) for r in self.reads.get(other, ())
        )

    # ---- finding them
    def _next(self) -> int:
        self._count += 1
        return self._count

    def _block(self, block: Block, loops: Loops) -> None:
        at = self._next()
        self.made.update(dict.fromkeys(block.params, at))
        for node in block.nodes:
            self._node(node, loops)
        self._read(_Place(self._next(), loops), values_in(block.results))

    def _node(self, node: Node, loops: Loops) -> None:
        place = _Place(self._next(), loops)
        self.begins[node] = place.position
        target = node.args[0] if node.args else None
        if writes_tensor(node) and isinstance(target, Value):
            self.writes.append((node, target, place))
        self._read(place, node.inputs())
        if node.op is LOOP:
            self.of_loop.update(dict.fromkeys(node.blocks[0].params, place.position))
            self._carried_as_it_is(node)
        for block in node.blocks:
            self._block(block, (*loops, place.position) if node.op is LOOP else loops)
        self.made.update(dict.fromkeys(node.outputs, self._next() if node.blocks else place.position))
        if node.op is IF:
            self._yielded_as_it_is(node)
        elif isinstance(target, Value) and len(node.outputs) == 1 and (node.op.writes is not None or is_view(node)):
            self.parent[node.output] = target
            if node.op.writes is not None:
                self.same.add(node.output)

    def _carried_as_it_is(self, node: Node) -> None:
        """What a loop carries and gives on is one tensor all the time."""
        (block,) = node.blocks
        for i, start in enumerate(node.args[2]):
            param = block.params[1 + i]
            if isinstance(start, Value) and isinstance(param.type, TensorType) and (
                _written_alone(block.results[1 + i]) is param
            ):
                self.parent.update(((param, start), (node.outputs[i], start)))
                self.same.update((param, node.outputs[i]))

    def _yielded_as_it_is(self, node: Node) -> None:
        """What both blocks yield is the same tensor."""
        for value, first, second in zip(node.outputs, *(b.results for b in node.blocks), strict=True):
            source = _written_alone(first)
            if isinstance(value.type, TensorType) and source is not None and _written_alone(second) is source:
                self.parent[value] = source
                self.same.add(value)

    def _read(self, place: _Place, values: Iterable[Value]) -> None:
        for value in values:
            if can_be_written(value.type):
                self.reads.setdefault(self.root(value), []).append(place)


def _written_alone(operand: Operand) -> Value | None:
    """The tensor that a value is the written form of; itself, if it is that of none."""
    while isinstance(operand, Value) and operand.node is not None and operand.node.op.writes is not None:
        operand = operand.node.args[0]
    return operand if isinstance(operand, Value) else None


def is_view(node: Node) -> bool:
    """Whether the only result shows the memory of the first argument, in a way that the node tells."""
    if node.op is TENSOR_GETITEM:
        index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        return all(not isinstance(p, Value) or p.type is INT or _is_slice(p) for p in index) and not any(
            isinstance(p, (tuple, bool)) for p in index
        )
    return node.op.view is not None and not node.op.schema.returns_list


def _is_slice(value: Value) -> bool:
    return value.node is not None and value.node.op is SLICE


def _refused(node: Node, why: str) -> StateError:
    line = "" if node.where is None else f" (line {node.where.line})"
    return StateError(f"functionalize: {node.op.name} writes in place{line}, {why}")

