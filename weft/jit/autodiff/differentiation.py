"""differentiate: a program and its backward, as two graphs."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.autograd.node import Edge
from weft.ir import graph as core
from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value, map_operand, readers
from weft.ir.structure import IF, LOOP
from weft.jit.autodiff.backward import STATE, GraphEvaluator, draws, formulas_of, gradient_type, histories
from weft.jit.autodiff.regions import RANDOM_STATE, REGION, with_region, without_regions
from weft.jit.program import Program
from weft.jit.torchscript.graph import Graph
from weft.passes.dce import dce
from weft.passes.rebuild import rebuild
from weft.passes.scripted.constants import propagate_constants
from weft.passes.scripted.cse import eliminate_common_subexpressions
from weft.passes.scripted.entries import BLANK, CAST, LIST_UNPACK, TUPLE
from weft.passes.scripted.functionalize import functionalize
from weft.passes.scripted.lists import lower_lists
from weft.passes.scripted.tuples import lower_tuples
from weft.types.tensor_type import TensorType, optional


@dataclass
class Gradient:
    """A program and its backward.

    f: the program; its results are those that it had (`f_real_outputs` of them), then temporaries for the backward.
    df: takes gradients of f's results at the places `df_input_vjps` (None: undefined), then f's arguments at
        `df_input_captured_inputs`, then f's results at `df_input_captured_outputs`; gives gradients of f's arguments at
        `df_output_vjps`, None for an undefined one.
    """

    f: Graph
    df: Graph
    f_real_outputs: int
    df_input_vjps: list[int] = field(default_factory=list)
    df_input_captured_inputs: list[int] = field(default_factory=list)
    df_input_captured_outputs: list[int] = field(default_factory=list)
    df_output_vjps: list[int] = field(default_factory=list)


def differentiate(graph: Graph) -> Gradient:
    """The backward of a graph, branches and loops included. Calls of other scripted functions are inlined.

    Gradients flow to every parameter that is a tensor and to what hangs on one. Constants are copied, never captured.
    Writes to the program's own tensors become values. Raises StateError with the line for what cannot be a part of a
    backward: writes that others may see, calls of Python. What is run again draws the random numbers that it drew.
    """
    whole = graph.inlined()
    derivation = _Making(_prepared(functionalize(whole.ir)))
    return derivation.gradient(whole.program)


def _prepared(graph: core.Graph) -> core.Graph:
    """The program with elements in place of tuples and lists, its results one by one."""
    for transform in (lower_tuples, propagate_constants, _unpacked, lower_lists, eliminate_common_subexpressions, dce):
        graph = transform(graph)
    results = graph.results
    while len(results) == 1 and isinstance(results[0], Value) and _is_tuple(results[0]):
        assert results[0].node is not None
        results = results[0].node.args[0]
    whole = dce(core.Graph(graph.name, core.Block(graph.params, graph.nodes, tuple(results)), graph.env))
    return _with_states(with_region(whole))


def _with_states(graph: core.Graph) -> core.Graph:
    """Before each node that draws and may have to be run again: where the stream of random numbers is."""

    def noted(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        if not draws(node) or formulas_of(node) or not any(isinstance(v.type, TensorType) for v in node.needs()):
            return None
        builder.emit_raw(RANDOM_STATE, (), (STATE,))
        builder.nodes.append(node)
        return node.outputs

    return rebuild(graph, noted, keep_order=True)


def _states_of(block: core.Block) -> dict[Node, Value]:
    states: dict[Node, Value] = {}
    for before, node in zip((None, *block.nodes), block.nodes, strict=False):
        if before is not None and before.op is RANDOM_STATE:
            states[node] = before.output
        for inner in node.blocks:
            states.update(_states_of(inner))
    return states


def _is_tuple(value: Value) -> bool:
    return value.node is not None and value.node.op is TUPLE


def _unpacked(graph: core.Graph) -> core.Graph:
    """Operators that give lists which are unpacked at once give several results."""
    read_by = readers(graph)

    def spread(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        source = args[0] if node.op is LIST_UNPACK else None
        producer = source.node if isinstance(source, Value) else None
        if (
            producer is None or producer.op.host or not producer.op.schema.returns_list
            or len(read_by[producer.output]) != 1
        ):
            return None
        return builder.emit_raw(producer.op, producer.args, tuple([v.type for v in node.outputs])).outputs

    return rebuild(graph, spread, keep_order=True)


class _Making:
    """What a gradient is made of, while it is made."""

    def __init__(self, graph: core.Graph) -> None:
        self.graph, self.states = graph, _states_of(graph.block)
        self.edges = histories(graph)
        self.more: dict[tuple[object, ...], Node] = {}  # facts that the forward program keeps for the backward

    def gradient(self, program: Program | None) -> Gradient:
        """The whole."""
        params, real = self.graph.params, list(self.graph.results)
        seeds = {i: r for i, r in enumerate(real) if isinstance(r, Value) and r in self.edges}
        temporaries: list[Value] = []
        while True:  # what the backward reads of the program has a gradient too, which may lead to further reads
            backward = _Backward(self, [*seeds.values(), *(t for t in temporaries if t in self.edges)])
            needed = [v for v in self._in_order(backward.captured) if v not in params and v not in real]
            if needed == temporaries:
                break
            temporaries = needed
        outputs = [*real, *temporaries]
        inputs = [i for i, p in enumerate(params) if p in backward.captured]
        captured = [i for i, v in enumerate(outputs) if isinstance(v, Value) and v in backward.captured and not (
            v in params or v in outputs[:i])]
        targets = [i for i, p in enumerate(params) if backward.gradients.get(p) is not None]
        nodes = (*self.graph.nodes, *self.more.values())
        f = core.Graph(self.graph.name, core.Block(params, nodes, tuple(outputs)), self.graph.env)
        taken = [*backward.vjps, *(backward.captured[params[i]] for i in inputs),
                 *(backward.captured[outputs[i]] for i in captured)]
        results = tuple(backward.gradients[params[i]] for i in targets)
        body = core.Block(tuple(taken), (*backward.casts, *backward.builder.nodes), results)
        df = dce(eliminate_common_subexpressions(core.Graph(f"{self.graph.name}_backward", body)))
        return Gradient(
            Graph(without_regions(f), program), Graph(df, program), len(real),
            [*seeds, *(outputs.index(t) for t in temporaries if t in self.edges)], inputs, captured, targets,
        )

    def remember(self, node: Node) -> Value:
        """A fact that the forward program finds, once."""
        key = (node.op, *node.args)
        return self.more.setdefault(key, node).output

    def _in_order(self, captured: dict[Value, Value]) -> list[Value]:
        """Values in the order in which the program computes them."""
        order = {v: i for i, v in enumerate(
            v for n in (*self.graph.nodes, *self.more.values()) for v in n.outputs)}
        return sorted((v for v in captured if v in order), key=order.__getitem__)


class _Backward:
    """One walk back: its nodes, its parameters for gradients, what it captures, the gradients of parameters."""

    def __init__(self, making: _Making, outputs: list[Value]) -> None:
        self.builder = Builder()
        self.captured: dict[Value, Value] = {}
        self.seen: dict[Value, Value] = {}  # what its nodes read of what it captures
        self.casts: list[Node] = []
        self.vjps = [Value(gradient_type(v.type), f"g{i}") for i, v in enumerate(outputs)]
        evaluator = GraphEvaluator(
            self.builder, self._saved, lambda node: self._saved(making.remember(node)), making.states
        )
        targets: dict[Value, Edge] = {p: making.edges[p] for p in making.graph.params if p in making.edges}
        gradients = evaluator.gradients(
            [(making.edges[v], vjp) for v, vjp in zip(outputs, self.vjps, strict=True)], tuple(targets.values())
        )
        self.gradients = dict(zip(targets, gradients, strict=True))

    def _saved(self, operand: Operand) -> Operand:
        """What stands for a value of the program: a parameter of the backward."""
        if not isinstance(operand, Value):
            return map_operand(operand, {})
        if operand not in self.captured:
            kind = optional(operand.type) if _may_be_unset(operand) else operand.type
            self.captured[operand] = self.seen[operand] = Value(kind, operand.name)
            if kind is not operand.type:  # where nobody reads it, it may be None
                cast = Node(CAST, (self.captured[operand], str(operand.type)), (operand.type,))
                self.casts.append(cast)
                self.seen[operand] = cast.output
        return self.seen[operand]


def _may_be_unset(value: Value) -> bool:
    """Whether a branch or loop gives nothing for it in some run, in which nobody reads it."""
    node = value.node
    if node is None:
        return False
    if node.op in (IF, REGION):
        sources = [b.results[value.index] for b in node.blocks]
    elif node.op is LOOP and value.index < len(node.args[2]):
        sources = [node.args[2][value.index], node.blocks[0].results[1 + value.index]]
    else:
        return node.op is BLANK
    return any(isinstance(s, Value) and _may_be_unset(s) for s in sources)
