"""recompute: what a forward saves for its backward, chosen anew: as few bytes as may be, where what is cheap is
computed again from what is there anyway.

A value that the backward needs is saved or computed again. Computing it again needs its operands, and so on: the choice
that costs least is a cheapest cut. Costs: of a value that is kept its bytes, and of an input too unless the backward
needs it anyway; of a node that is done twice its arithmetic, at a rate at which two exponentials are worth one float32
that is written and read again. An input that the program writes is gone. Only pointwise operators, casts, views and
constants are done twice; products, sums, random draws and whatever has an effect never are.

Both halves are opened before, so that it is seen what formulas need and what large operators are made of. Random draws
stay whole, for their parts would look cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ops.cost import body_weight
from weft.ops.op import Op
from weft.passes.dce import dce
from weft.passes.decompose import decompose
from weft.passes.min_cut import INFINITE, Network
from weft.passes.open_opaque import open_opaque
from weft.passes.partition import Halves
from weft.passes.rebuild import append
from weft.types import dims
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType

WEIGHT_OF_A_BYTE = 8  # in simple instructions: 16 of them are an exponential
SMALLEST = 2  # sizes of the example that are smaller say nothing about those of other calls


def recompute(halves: Halves, results: int) -> Halves:
    """The halves with another choice of what is saved. results: how many of the forward's results come before what
    it saves. Halves that find sizes while they run stay as they are."""
    env = halves.forward.env
    if env.has_unbacked:
        return halves
    forward, backward = _opened(halves.forward), _opened(halves.backward)
    extra = iter(forward.results[results:])
    inputs = set(forward.params)
    now = {v: v if v in inputs else next(extra) for v in halves.saved}
    count = len(halves.saved)
    read = {v for node in backward.walk() for v in node.reads()} | set(backward.results)
    needed = [now[v] for v in backward.params[:count] if v in read]
    if not all(isinstance(v, Value) for v in needed):
        return halves  # a value that is a number now
    again = _Choice(forward, results, set(needed), _bytes_at(env)).done_twice()
    body = [n for n in forward.nodes if n in again]
    return _cut(halves, forward, backward, results, {old: now[old] for old in backward.params[:count]}, body, needed)


def _opened(graph: Graph) -> Graph:
    return dce(decompose(dce(open_opaque(graph)), keep=lambda op: op.effect == "random"))


def _cut(
    halves: Halves, forward: Graph, backward: Graph, results: int, now: dict[Value, Operand], body: list[Node],
    needed: list[Operand],
) -> Halves:
    """The halves where the nodes of `body` are in both."""
    recomputed = {v for node in body for v in node.outputs}
    wanted = [*needed, *(v for node in body for v in node.needs())]
    saved = tuple(dict.fromkeys(v for v in wanted if v not in recomputed))
    inputs = set(forward.params)
    kept = tuple([v for v in saved if v not in inputs])
    first = dce(Graph(
        forward.name, Block(forward.params, forward.nodes, (*forward.results[:results], *kept)), forward.env,
        forward.writes,
    ))
    seeds = backward.params[len(now) :]
    builder = Builder(backward.name, backward.env)
    builder.params = [*saved, *seeds]
    with builder.active():
        results_now = append(builder, Block((), (*body, *backward.nodes), backward.results), dict(now))
    second = dce(builder.graph(results_now))
    return Halves(first, second, saved, halves.sizes)


# ---- the choice
class _Choice:
    """What is kept and what is done twice, as a network: a vertex on the sink's side is done (a node) or known
    (a value) in the backward. Between a node and its value lies what it costs to keep the value."""

    def __init__(
        self, forward: Graph, results: int, needed: Collection[Value], bytes_of: Callable[[Value], int]
    ) -> None:
        self.needed, self.bytes_of = needed, bytes_of
        self.network = Network()
        self.nodes: dict[Node, int] = {}
        self.values: dict[Value, int] = {}
        # the caller may write them, and no formula asks for them
        self.returned = {v for r in forward.results[:results] for v in values_in(r)}.difference(needed)
        written = {forward.params[at] for _, at in forward.writes}
        self.inputs = {p: INFINITE if p in written else WEIGHT_OF_A_BYTE * self._size(p) for p in forward.params}

    def done_twice(self) -> set[Node]:
        """The nodes that the backward does again."""
        stack = [v.node for v in self.needed if v.node is not None]
        if not stack:
            return set()
        while stack:
            node = stack.pop()
            if node not in self.nodes:
                self._enter(node)
                if _is_cheap(node):
                    stack.extend(v.node for v in node.inputs() if v.node is not None)
        for node, at in self.nodes.items():
            for value in node.inputs() if _is_cheap(node) else ():
                if value.node is not None or value not in self.needed:
                    self.network.connect(self._vertex(value), at, INFINITE)
        for value in self.needed:
            if value.node is not None:
                self.network.connect(self.values[value], Network.SINK, INFINITE)
        sink_side = self.network.behind_cut()
        return {node for node, at in self.nodes.items() if at in sink_side}

    def _enter(self, node: Node) -> None:
        at = self.nodes[node] = self.network.vertex()
        self.network.connect(Network.SOURCE, at, _weight(node, self.bytes_of) if _is_cheap(node) else INFINITE)
        for value in node.outputs:
            self.values[value] = self.network.vertex()
            cost = INFINITE if value in self.returned else WEIGHT_OF_A_BYTE * self._size(value)
            self.network.connect(at, self.values[value], cost)

    def _vertex(self, value: Value) -> int:
        """The vertex of a value; of an input made when it is first asked for."""
        if value not in self.values:
            self.values[value] = self.network.vertex()
            self.network.connect(Network.SOURCE, self.values[value], self.inputs[value])
        return self.values[value]

    def _size(self, value: Value) -> int:
        return self.bytes_of(value) if isinstance(value.type, TensorType) else 8


def _is_cheap(node: Node) -> bool:
    """Whether a node may be done twice: a constant, a view, or one body for each element."""
    op: Op = node.op
    if op.effect != "pure" or node.blocks or not all(isinstance(v.type, TensorType) for v in node.outputs):
        return False
    return op.how in ("scalar", "view") or not node.inputs()


def _weight(node: Node, bytes_of: Callable[[Value], int]) -> int:
    """What it costs to do a node again, in simple instructions."""
    if node.op.how != "scalar":
        return 1  # it is made where it is read
    kind = node.output.tensor_type
    assert kind.dtype is not None
    elements = bytes_of(node.output) // kind.dtype.itemsize
    return max(1, elements * body_weight(node.op, kind.dtype))


def _bytes_at(env: ShapeEnv) -> Callable[[Value], int]:
    """The bytes of a value at the example's sizes."""
    sizes = {name: max(n, SMALLEST) for name, n in env.examples.items()}

    def bytes_of(value: Value) -> int:
        kind = value.tensor_type
        assert kind.dtype is not None
        return max(1, dims.evaluate(dims.product(kind.shape), sizes)) * kind.dtype.itemsize

    return bytes_of
