"""Graph, Block, Node, Value: ordered nodes, nested blocks, lexical scope, single assignment, functional operators only.

A node's `args` are its operator's arguments in schema order. Each is an operand: a Value, or an immediate (int, float,
bool, complex, str, None, DType, a symbolic integer Expr, or a tuple of operands). There are no attributes besides.
Frozen after the builder is done with it: a pass makes a new graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from weft.ops.op import Op
from weft.support.locations import Location
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType, Type

Operand = Any


class Value:
    """One result of a node, or a parameter of a block. `name` is the user's name for it, if known."""

    __slots__ = ("index", "name", "node", "type")

    def __init__(self, type: Type, name: str = "", node: Node | None = None, index: int = 0) -> None:
        self.type, self.name, self.node, self.index = type, name, node, index

    @property
    def tensor_type(self) -> TensorType:
        """The type, which must be a tensor's."""
        assert isinstance(self.type, TensorType), f"%{self.name} has type {self.type}, not a tensor type"
        return self.type

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Node:
    """One operator call. `blocks` are the bodies of prim::If and prim::Loop."""

    __slots__ = ("_inputs", "args", "blocks", "op", "outputs", "where")

    def __init__(
        self, op: Op, args: tuple[Operand, ...], types: tuple[Type, ...], blocks: tuple[Block, ...] = (),
        where: Location | None = None,
    ) -> None:
        self.op, self.args, self.blocks, self.where = op, args, blocks, where
        self.outputs = (
            (Value(types[0], "", self, 0),) if len(types) == 1
            else tuple([Value(t, "", self, i) for i, t in enumerate(types)])
        )
        self._inputs: tuple[Value, ...] | None = None

    @property
    def output(self) -> Value:
        """The only result."""
        assert len(self.outputs) == 1, f"{self.op.name} has {len(self.outputs)} results"
        return self.outputs[0]

    def arg(self, name: str) -> Operand:
        """An argument by its schema name. Raises KeyError that lists the names."""
        return self.args[self.op.schema.index(name)]

    def inputs(self) -> tuple[Value, ...]:
        """Every Value among the arguments, in order, repeats included."""
        values = self._inputs
        if values is None:  # listed once, read by every pass
            listed: list[Value] = []
            each_value(self.args, listed.append)
            values = self._inputs = tuple(listed)
        return values

    def take(self, args: tuple[Operand, ...]) -> None:
        """Take other arguments, in a graph that a user edits; a pass makes a new graph."""
        self.args, self._inputs = args, None

    def needs(self) -> tuple[Value, ...]:
        """The Values that the node needs from outside, each once: its inputs, and what its blocks
        read of outer blocks."""
        if not self.blocks:
            return self.inputs() if len(self.inputs()) < 2 else tuple(dict.fromkeys(self.inputs()))
        return tuple(dict.fromkeys((*self.inputs(), *(v for block in self.blocks for v in block.free_values()))))

    def reads(self) -> Sequence[Value]:
        """Every Value that the node or anything in its blocks reads, those defined inside included."""
        if not self.blocks:
            return self.inputs()
        values = list(self.inputs())
        for block in self.blocks:
            for node in block.nodes:
                values += node.reads()
            values += values_in(block.results)
        return values

    def walk(self) -> Iterator[Node]:
        """The node, and those of its blocks."""
        yield self
        for block in self.blocks:
            yield from block.walk()

    def __repr__(self) -> str:
        return f"<node {self.op.name} -> {', '.join(map(repr, self.outputs))}>"


class Block:
    """A sequence of nodes with parameters and results. Inner blocks see the values of outer ones."""

    __slots__ = ("nodes", "params", "results")

    def __init__(
        self, params: tuple[Value, ...] = (), nodes: tuple[Node, ...] = (), results: tuple[Operand, ...] = ()
    ) -> None:
        self.params, self.nodes, self.results = params, nodes, results

    def free_values(self) -> tuple[Value, ...]:
        """The Values that the block reads and does not define, each once, in order."""
        inside: set[Value] = set(self.params)
        free: dict[Value, None] = {}
        for node in self.nodes:
            free.update(dict.fromkeys(v for v in node.needs() if v not in inside))
            inside.update(node.outputs)
        free.update(dict.fromkeys(v for v in values_in(self.results) if v not in inside))
        return tuple(free)

    def walk(self) -> Iterator[Node]:
        """All nodes, those of inner blocks included, in order."""
        for node in self.nodes:
            yield from node.walk()

    def operators(self) -> set[Op]:
        """The operators of all nodes, those of inner blocks included: most passes need no more to know that there is
        nothing to do."""
        operators = {node.op for node in self.nodes}
        for node in self.nodes:
            for block in node.blocks:
                operators |= block.operators()
        return operators


@dataclass(frozen=True, eq=False)
class Graph:
    """A program: a name, its top block, and the environment of its symbols.

    Parameters are the inputs; `block.results` the outputs. `writes` pairs an output's position with the parameter
    position whose storage receives it after the last node (state that the program updates in place).
    """

    name: str
    block: Block
    env: ShapeEnv = field(default_factory=ShapeEnv)
    writes: tuple[tuple[int, int], ...] = ()

    @property
    def params(self) -> tuple[Value, ...]:
        return self.block.params

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.block.nodes

    @property
    def results(self) -> tuple[Operand, ...]:
        return self.block.results

    def walk(self) -> Iterator[Node]:
        """Every node in order, nested ones after their owner."""
        return self.block.walk()

    def __str__(self) -> str:
        from weft.ir.printer import print_graph  # the printer imports this module

        return print_graph(self)


def use_counts(graph: Graph) -> Counter[Value]:
    """How often each Value is an argument of a node, or a result of the graph."""
    uses = Counter(chain.from_iterable([node.inputs() for node in graph.walk()]))
    uses.update(values_in(graph.results))
    return uses


def readers(graph: Graph) -> dict[Value, list[Node | None]]:
    """Who reads each value; None stands for a result of a block."""
    by_value: dict[Value, list[Node | None]] = {}

    def visit(block: Block) -> None:
        for node in block.nodes:
            for value in node.inputs():
                by_value.setdefault(value, []).append(node)
            for inner in node.blocks:
                visit(inner)
        for value in values_in(block.results):
            by_value.setdefault(value, []).append(None)

    visit(graph.block)
    return by_value


def values_in(operand: Operand) -> list[Value]:
    """The Values inside an operand, in order."""
    values: list[Value] = []
    each_value((operand,), values.append)
    return values


def each_value(operands: tuple[Operand, ...], take: Callable[[Value], object]) -> None:
    """Hand over the Values inside operands, in order."""
    for operand in operands:
        kind = type(operand)
        if kind is Value:
            take(operand)
        elif kind is tuple:
            each_value(operand, take)


def map_operand(operand: Operand, values: dict[Value, Operand]) -> Operand:
    """The operand with Values replaced (those not in the map stay)."""
    kind = type(operand)
    if kind is Value:
        return values.get(operand, operand)
    return map_operands(operand, values) if kind is tuple else operand


def map_operands(operands: tuple[Operand, ...], values: dict[Value, Operand]) -> tuple[Operand, ...]:
    """The operands with Values replaced: the same tuple where none of them is."""
    replaced: list[Operand] | None = None
    for i, operand in enumerate(operands):
        kind = type(operand)
        if kind is Value:
            new = values.get(operand, operand)
        elif kind is tuple:
            new = map_operands(operand, values)
        else:
            continue
        if new is not operand:
            replaced = replaced or list(operands)
            replaced[i] = new
    return operands if replaced is None else tuple(replaced)
