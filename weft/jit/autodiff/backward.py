"""The backward of a program: autograd's engine walks over values of its graph in place of tensors.

Each node of the graph that gradients flow through has a node of autograd as its history, and what the engine asks its
evaluator for is emitted: an opaque call of an operator's formulas, a branch for a branch, or prim::gradients_of of what
has no formulas (a loop, a region, an operator that others make up), which runs again as a whole. Which gradients are
undefined is decided when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from weft.autograd.engine import install, run_between
from weft.autograd.evaluator import Evaluator
from weft.autograd.node import Edge
from weft.autograd.node import Node as HistoryNode
from weft.ir.builder import Builder
from weft.ir.copies import Copy
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand, values_in
from weft.ir.opaque import opaque_op
from weft.ir.structure import GRADIENTS_OF, IF
from weft.jit.autodiff.regions import RANDOM_STATE, REGION, holds_tensors, refuse_effects, silent
from weft.ops.backward import ARG, DIMS, RESULT, Plan, Source, needed_slots, plan_of
from weft.ops.op import OPS, Op
from weft.passes.scripted.entries import CAST, SET_GRAD
from weft.passes.scripted.grad_modes import unrecorded
from weft.types import tensor_type as tt
from weft.types.tensor_type import (
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    dict_of,
    list_of,
    optional,
    tuple_of,
)

GRAD: Type = optional(TENSOR)
_ADD, _FIT, _METADATA, _FILL = (
    OPS[f"prim::{n}"] for n in ("AutogradAdd", "fit_gradient", "metadata_if_not_equal", "fill_gradients")
)
_METADATA_TYPE = _METADATA.type(TENSOR, TENSOR)  # type: ignore[misc]
_SET_STATE = OPS["prim::set_random_state"]
STATE: Type = RANDOM_STATE.type()  # type: ignore[misc]
_SIZE, _DTYPE = OPS["aten::size"], OPS["prim::dtype"]
Saved = Callable[[Operand], Operand]


def carries_gradient(kind: Type) -> bool:
    """Whether gradients flow to a value of the type: a tensor of a floating dtype, or what holds tensors."""
    kind = kind.inner if isinstance(kind, OptionalType) else kind
    if isinstance(kind, TensorType):
        return kind.dtype is None or kind.dtype.is_differentiable
    return holds_tensors(kind)


def gradient_type(kind: Type) -> Type:
    """The type of gradients of values of a type: undefined ones are None, those of a list are a list."""
    kind = kind.inner if isinstance(kind, OptionalType) else kind
    if isinstance(kind, ListType):
        return optional(list_of(gradient_type(kind.element)))
    if isinstance(kind, DictType):
        return optional(dict_of(kind.key, gradient_type(kind.value)))
    if isinstance(kind, TupleType):
        return optional(tuple_of(*map(gradient_type, kind.elements)))
    return GRAD


def formulas_of(node: Node) -> Plan | None:
    """The formulas of a node's derivative; None of one that runs again as a whole."""
    return plan_of(node.op) if node.op.is_differentiable and not node.blocks else None


# ---- histories
class FormulasOf(HistoryNode):
    """The history of an operator with formulas. targets: the values of those arguments that gradients flow to."""

    def __init__(self, of: Node, plan: Plan, edges: Mapping[Value, Edge]) -> None:
        self.of, self.plan = of, plan
        self.needs = tuple([any(v in edges for v in values_in(of.args[i])) for i in plan.differentiable])
        self.targets = [
            v for i, need in zip(plan.differentiable, self.needs, strict=True) if need for v in values_in(of.args[i])
        ]
        super().__init__(tuple(map(edges.get, self.targets)))
        self.metadata_of_inputs = (None,) * len(of.outputs)


class Branch(HistoryNode):
    """The history of a prim::If. targets: the values around its blocks that gradients flow to; edges: the histories
    within each block, which begin at these.
    """

    def __init__(self, of: Node, edges: Mapping[Value, Edge], unrecorded_nodes: Set[Node]) -> None:
        self.of = of
        self.targets = [v for v in dict.fromkeys(f for b in of.blocks for f in b.free_values()) if v in edges]
        super().__init__(tuple(map(edges.get, self.targets)))
        self.metadata_of_inputs = (None,) * len(of.outputs)
        self.inner = [_histories(block.nodes, _beginning(self.targets), unrecorded_nodes) for block in of.blocks]

    def flows_to(self, index: int) -> bool:
        """Whether a result has a history in one of the blocks."""
        results = (block.results[index] for block in self.of.blocks)
        return any(v in edges for result, edges in zip(results, self.inner, strict=True) for v in values_in(result))


class RunAgain(HistoryNode):
    """The history of what runs again as a whole: `block`, of the values `inputs` around it."""

    def __init__(self, of: Node, edges: Mapping[Value, Edge], records: bool) -> None:
        """records: whether history is recorded where the node stands."""
        self.of = of
        block = silent(of.blocks[0] if of.op is REGION else _alone(of, records))
        self.inputs = block.free_values()
        self.block = Block(self.inputs, block.nodes, block.results)
        self.targets = [v for v in self.inputs if v in edges]
        super().__init__(tuple(map(edges.get, self.targets)))
        self.metadata_of_inputs = (None,) * len(of.outputs)


def _alone(node: Node, records: bool) -> Block:
    """A block of one node, in the mode in which it runs."""
    nodes: tuple[Node, ...] = (node,)
    if not records:
        off = Node(SET_GRAD, (False,), (tt.BOOL,), (), node.where)
        nodes = (off, node, Node(SET_GRAD, (off.output,), (tt.BOOL,), (), node.where))
    return Block((), nodes, node.outputs)


def histories(graph: Graph) -> dict[Value, Edge]:
    """Where the gradient of each value that has one flows. Nothing has a history that is computed while none is
    recorded, but what is handed on has its own.
    """
    params = [p for p in graph.params if carries_gradient(p.type)]
    return _histories(graph.nodes, _beginning(params), unrecorded(graph))


def _beginning(values: Sequence[Value]) -> dict[Value, Edge]:
    """Edges of values that the walk is to end at, into one node that has no formula."""
    end = HistoryNode(())
    end.metadata_of_inputs = (None,) * len(values)
    return {v: (end, i) for i, v in enumerate(values)}


def _histories(nodes: Iterable[Node], edges: dict[Value, Edge], unrecorded_nodes: Set[Node]) -> dict[Value, Edge]:
    """`edges`, with those of the results of nodes. unrecorded_nodes: those that run while no history is recorded."""
    for node in nodes:
        records = node not in unrecorded_nodes
        if edges.keys().isdisjoint(node.needs()) or not (records or node.blocks or node.op is CAST):
            continue
        plan = formulas_of(node)
        history: FormulasOf | Branch | RunAgain
        if plan is not None:
            history = FormulasOf(node, plan, edges)
        elif node.op is IF:
            history = Branch(node, edges, unrecorded_nodes)
        elif _flows(node):
            history = RunAgain(node, edges, records)
        else:
            continue
        if any(history.edges):
            edges.update({
                v: (history, i) for i, v in enumerate(node.outputs)
                if carries_gradient(v.type) and (not isinstance(history, Branch) or history.flows_to(i))
            })
    return edges


def _flows(node: Node) -> bool:
    """Whether the results of what has no formulas hang on its arguments in a way that has a derivative."""
    return bool(node.blocks) or node.op.host or node.op.opens_above_autograd


def draws(node: Node) -> bool:
    """Whether a node, or one in its blocks, draws random numbers."""
    return any(n.op.effect == "random" for n in node.walk())


# ---- the walk
class GraphEvaluator(Evaluator):
    """Emits what the engine would compute. A gradient is a value of the graph of the backward."""

    computes = False

    def __init__(
        self, builder: Builder, saved: Saved, remember: Callable[[Node], Operand], states: Mapping[Node, Value]
    ) -> None:
        """saved: what stands for a value of the program. remember: what stands for a fact that the program is to find.
        states: where the stream of random numbers was before nodes that draw and run again."""
        self.builder, self.saved, self.remember, self.states = builder, saved, remember, states

    def gradients(
        self, seeds: Sequence[tuple[Edge, Operand]], wanted: Sequence[Edge]
    ) -> tuple[Operand, ...]:
        """The gradients that arrive at the `wanted` edges of parameters for those that flow into some edges."""
        with install(self):
            return run_between([edge for edge, _ in seeds], [seed for _, seed in seeds], wanted, frozenset(wanted))

    def seed(self, node: HistoryNode, index: int, seed: Operand, metadata: object) -> Operand:
        """A gradient that the walk begins with."""
        return seed

    def add(self, a: Value, b: Value) -> Operand:
        """The sum of two parts of a value's gradient."""
        return self.builder.emit_raw(_ADD, (a, b), (a.type,)).output

    def run(self, node: HistoryNode, grads: tuple[Operand, ...], needs: tuple[bool, ...]) -> tuple[Operand, ...]:
        """The gradients of a node's targets."""
        assert isinstance(node, (FormulasOf, Branch, RunAgain))
        self.builder.where = node.of.where
        if isinstance(node, FormulasOf):
            return self._formulas(node, grads)
        state = self.states.get(node.of)
        if state is None:
            return self._branch(node, grads) if isinstance(node, Branch) else self._again(node, grads)
        now = self.builder.emit_raw(RANDOM_STATE, (), (STATE,)).output
        self.builder.emit_raw(_SET_STATE, (self.saved(state),), ())  # what runs again draws what it drew
        gradients = self._branch(node, grads) if isinstance(node, Branch) else self._again(node, grads)
        self.builder.emit_raw(_SET_STATE, (now,), ())
        return gradients

    # ---- operators
    def _formulas(self, node: FormulasOf, grads: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """A call of the operator's formulas, with what they read."""
        of, plan = node.of, node.plan
        if len(grads) > 1:
            results = tuple(map(self.saved, of.outputs))
            grads = self.builder.emit_raw(_FILL, (grads, results), (GRAD,) * len(grads)).outputs
        wanted = needed_slots(plan, node.needs)
        packed = tuple([self._slot(of, s) if i in wanted else None for i, s in enumerate(plan.slots)])
        call = self.builder.emit_raw(opaque_op(plan), (grads, node.needs, packed), (GRAD,) * len(node.targets))
        return tuple([self._fitted(of, v, g) for v, g in zip(node.targets, call.outputs, strict=True)])

    def _slot(self, node: Node, source: Source) -> Operand:
        if source.kind == ARG:
            return self._saved(node.args[source.position])
        if source.kind == RESULT:
            return self.saved(node.outputs[source.position])
        return self._fact(node.args[source.position], _SIZE if source.kind == DIMS else _DTYPE)

    def _fact(self, operand: Operand, op: Op) -> Operand:
        """Sizes or dtype of an argument, of each tensor if it is a list."""
        if isinstance(operand, tuple):
            return tuple(self._fact(o, op) for o in operand)
        if not isinstance(operand, Value):
            return operand
        return self.remember(Node(op, (operand,), (list_of(tt.INT) if op is _SIZE else tt.DTYPE,)))

    def _saved(self, operand: Operand) -> Operand:
        return map_operand(operand, {v: self.saved(v) for v in values_in(operand)})

    def _fitted(self, node: Node, target: Value, gradient: Operand) -> Operand:
        """A gradient with the sizes and dtype of what it belongs to: broadcasting and promotion are taken back."""
        if node.op.how != "scalar" or len(node.op.tensor_positions) < 2 or _have_one_type(target, node.outputs[0]):
            return gradient
        fact = self.remember(Node(_METADATA, (target, node.outputs[0]), (_METADATA_TYPE,)))
        return self.builder.emit_raw(_FIT, (gradient, fact), (GRAD,)).output

    # ---- what runs again
    def _branch(self, node: Branch, grads: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """A branch whose blocks run again, and go back."""
        blocks = [
            self._block(node, silent(block), edges, grads)
            for block, edges in zip(node.of.blocks, node.inner, strict=True)
        ]
        types = tuple([gradient_type(v.type) for v in node.targets])
        condition = self._saved(node.of.args[0])
        return self.builder.emit_raw(IF, (condition,), types, tuple(blocks)).outputs

    def _block(
        self, node: Branch, block: Block, edges: Mapping[Value, Edge], grads: tuple[Operand, ...]
    ) -> Block:
        """The nodes of a block, and behind them its backward: gradients of the branch's targets."""
        into = Builder()
        values: dict[Value, Operand] = {}
        for one in block.nodes:
            refuse_effects(one, within=True)
            values.update((v, self.saved(v)) for v in one.needs() if v not in values)
            into.nodes.append(Copy(values).node(one))

        def saved(operand: Operand) -> Operand:
            return values[operand] if isinstance(operand, Value) and operand in values else self.saved(operand)

        def remember(fact: Node) -> Operand:
            args = tuple([map_operand(a, {v: saved(v) for v in values_in(a)}) for a in fact.args])
            return into.emit_raw(fact.op, args, tuple([v.type for v in fact.outputs])).output

        seeds = [
            (edges[result], g) for result, g in zip(block.results, grads, strict=True)
            if isinstance(result, Value) and result in edges and g is not None
        ]
        inside = GraphEvaluator(into, saved, remember, self.states)
        gradients = inside.gradients(seeds, [edges[v] for v in node.targets])
        return Block((), tuple(into.nodes), gradients)

    def _again(self, node: RunAgain, grads: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """What has no formulas runs again as a whole, and the engine goes back through it."""
        if node.of.op is not REGION:
            refuse_effects(node.of)
        needs = tuple([v in node.targets for v in node.inputs])
        types = tuple([gradient_type(v.type) for v in node.targets])
        inputs = tuple(map(self.saved, node.inputs))
        return self.builder.emit_raw(GRADIENTS_OF, (grads, inputs, needs), types, (Copy().block(node.block),)).outputs


def _have_one_type(a: Value, b: Value) -> bool:
    kind = a.type
    return kind is b.type and isinstance(kind, TensorType) and kind.is_complete
