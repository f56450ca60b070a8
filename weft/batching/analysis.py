"""Which values of a program may differ from example to example, and which programs write to what they have."""

from __future__ import annotations

from collections.abc import Iterator

from weft.catalogue.language.entries import ORDERED
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.structure import IF, LOOP
from weft.ops.op import OPS
from weft.types.tensor_type import DictType, ListType

SET_ITEM = OPS["prim::tensor_setitem"]
_CREATE = OPS["prim::CreateObject"]


def holds_elements(value: Value) -> bool:
    """Whether a value is a list or dict, which can be written to."""
    return isinstance(value.type, (ListType, DictType))


def fills_container(node: Node) -> bool:
    """Whether a node writes to a list or dict: its first operand."""
    op = node.op
    inputs = node.inputs()
    return (
        op.host and op.effect == ORDERED and not op.observes and bool(inputs) and node.args[0] is inputs[0]
        and holds_elements(inputs[0])
    )


def makes_container(node: Node) -> bool:
    """Whether a node gives a list or dict that is new."""
    return node.op.host and node.op.observes == "pure" and all(map(holds_elements, node.outputs))


def makes_tensor(node: Node) -> bool:
    """Whether a node gives tensors with memory of their own."""
    op = node.op
    shares = any(r.alias for r in op.schema.returns)
    return not op.host and not node.blocks and op.writes is None and op.view is None and not shares


def writes_tensor(node: Node) -> bool:
    """Whether a node writes into a tensor: its first operand."""
    return node.op.writes is not None or node.op is SET_ITEM


def begin_alone(graph: Graph) -> set[Value]:
    """The tensors that are made to be what a loop begins with: nobody has them when it has begun."""
    alone: set[Value] = set()
    users: dict[Value, list[Node]] = {}
    for node in graph.walk():
        for value in node.needs():
            users.setdefault(value, []).append(node)
    results = {v for block in _blocks(graph.block) for v in values_in(block.results)}
    for block in _blocks(graph.block):
        fresh: set[Value] = set()
        before: set[Node] = set()
        for node in block.nodes:
            if node.op is LOOP:
                own = [v for v in node.args[2] if v in fresh and v not in results]
                alone.update(
                    v for v in own if node.inputs().count(v) == 1
                    and all(user is node or (user in before and makes_tensor(user)) for user in users[v])
                )
            before.add(node)
            fresh.update(node.outputs if makes_tensor(node) else ())
    return alone


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for node in block.nodes:
        for inner in node.blocks:
            yield from _blocks(inner)


class Analysis:
    """The values that may differ, of those parameters on: found by going through the program until nothing changes."""

    def __init__(self, graph: Graph, parameters: frozenset[int]) -> None:
        self.differ: set[Value] = {p for i, p in enumerate(graph.params) if i in parameters}
        self.writes_tensors = any(map(writes_tensor, graph.walk()))
        self.alone = begin_alone(graph) if self.writes_tensors else set()
        self.fills: bool = False  # whether only some examples write to a list or dict
        previous = -1
        while previous != len(self.differ) + self.fills:
            previous = len(self.differ) + self.fills
            self._block(graph.block, is_apart=False)

    def may_differ(self, operand: Operand) -> bool:
        """Whether an operand, or one in a tuple, may differ."""
        return any(v in self.differ for v in values_in(operand))

    def branches(self, node: Node) -> bool:
        """Whether examples may take different ways through a branch or loop."""
        if node.op is IF:
            return self.may_differ(node.args[0])
        return node.op is LOOP and (
            self.may_differ(node.args[0]) or self.may_differ(node.args[1])
            or self.may_differ(node.blocks[0].results[0])
        )

    def separates(self, node: Node) -> bool:
        """Whether what a node gives must be each example's own, since it is written to later."""
        if node.op is _CREATE or (self.fills and makes_container(node)):
            return True
        return self.writes_tensors and makes_tensor(node) and not self.may_differ(node.args)

    def _block(self, block: Block, is_apart: bool) -> None:
        for node in block.nodes:
            apart = is_apart or self.branches(node)
            for inner in node.blocks:
                self._block(inner, apart)
            if fills_container(node):
                self.fills |= is_apart
                if is_apart or self.may_differ(node.args):
                    self.differ.update(node.inputs()[:1])
            if node.op is IF:
                self._branch(node, apart)
            elif node.op is LOOP:
                self._loop(node, apart)
            elif node.op.effect == "random" or self.separates(node) or self.may_differ(node.args):
                self.differ.update(node.outputs)

    def _branch(self, node: Node, apart: bool) -> None:
        every = self.may_differ(node.args[0])
        for at, value in enumerate(node.outputs):
            if every or any(self.may_differ(b.results[at]) for b in node.blocks):
                self.differ.add(value)

    def _loop(self, node: Node, apart: bool) -> None:
        (body,) = node.blocks
        every = self.branches(node)
        for value, first, param, after in zip(
            node.outputs, node.args[2], body.params[1:], body.results[1:], strict=True
        ):
            if every or self.may_differ((first, after)) or param in self.differ:
                self.differ.update((value, param))
