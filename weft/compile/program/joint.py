"""A compiled forward used with an eager backward: one CompiledFunctionBackward node, whose gradients are a second
program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from weft.autograd import engine
from weft.autograd.accumulate import AccumulateGrad, accumulator_of
from weft.autograd.dependencies import nodes_behind
from weft.autograd.function import FunctionNode, given_once
from weft.autograd.node import InputMetadata, Node, OpNode
from weft.autograd.record import gradient_edge
from weft.autograd.saved import FREED
from weft.compile.capture.capture import Capture
from weft.compile.capture.older_histories import Given
from weft.compile.capture.symbolic import SymbolicPayload
from weft.compile.capture.wrappers import Desugared, UnwrapBackward, desugar, resugar
from weft.compile.program.argument_histories import Before, end_at_what_is_given
from weft.compile.program.arguments import leaf_of
from weft.compile.program.executable import Compiled, Interpreted, chosen
from weft.compile.program.higher_order import input_of, version_of
from weft.compile.program.inlining import Inlined, Whole
from weft.compile.program.kept import save
from weft.compile.program.program_io import ArgumentSource, StateSource
from weft.compile.program.tensor_program import Gradients, ProgramBackward
from weft.ir.graph import Graph
from weft.passes.partition import Halves, partition
from weft.passes.stop_gradients import Notes
from weft.runtime.storage import root_of
from weft.support import pytree
from weft.support.errors import StateError
from weft.tensor.dense import dense_array
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor


@dataclass(eq=False)
class JointRecord:
    """What the joint capture found: which results carry gradients, which tensors receive them, and how many tangents
    there are.

    start: how many nodes had been recorded before the backward. places: which argument a receiver is, where it took
    part as itself (arguments that share memory have no stand-ins). returned: which result a receiver is, where the
    function made it. A leaf that it makes and keeps to itself is no receiver: nobody can see its `.grad`. reach: for
    each output the receivers that it depends on. freed_with: for each output those whose graph eager mode frees
    together with its own. gives_once: whether a custom Function refuses a second gradient.
    """

    outputs: list[Tensor]
    primals: list[Tensor]
    places: list[int | None]
    returned: list[int | None]
    tangents: int
    reach: list[frozenset[int]]
    freed_with: list[frozenset[int]]
    spec: pytree.TreeSpec  # of the gradients: a list, in which those that are wrapper subclasses are taken apart
    start: int
    gives_once: bool


def unfinished(capture: Capture, leaves: list[Any]) -> list[Tensor]:
    """Returned tensors whose backward can be run: none of the nodes behind them was freed by a run of the function's
    own."""
    found: dict[int, Tensor] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload:
            node = history_of(leaf)
            if node is not None and type(node) is not Given and not _is_freed(capture, node):
                found[id(leaf)] = leaf
    return list(found.values())


def is_spent(capture: Capture, leaf: Any) -> bool:
    """Whether a tensor has a history that the function has run backward through, and not kept."""
    return (
        isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload and leaf.requires_grad
        and history_of(leaf) in capture.evaluator.ran and _is_freed(capture, history_of(leaf))
    )


def _is_freed(capture: Capture, node: Any) -> bool:
    return any(n.is_freed for n in nodes_behind([node], capture.outside.histories))


def history_of(leaf: Tensor) -> Any:
    """The node of a returned tensor; None where autograd refuses to say (one of several views whose base
    was written since)."""
    try:
        node = leaf.grad_fn
    except StateError:
        return None
    while isinstance(node, UnwrapBackward):  # a part of a returned wrapper
        edge: Any = node.edges[0]
        node = edge[0]
    return node


def made_leaves(capture: Capture, results: list[Any]) -> list[int]:
    """Which results are leaves that the function made and that require grad."""
    return [
        i for i, out in enumerate(results) if isinstance(out, Tensor) and _is_made(capture, out) and wants_own_grad(out)
    ]


def wants_own_grad(tensor: Tensor) -> bool:
    """Whether a tensor is a leaf that requires grad."""
    state = tensor._autograd
    return state is not None and state.requires_grad and state.node is None


def _is_made(capture: Capture, tensor: Tensor) -> bool:
    """Whether the function made a tensor, or made it a leaf that requires grad; others stand for what is there before
    it."""
    real = capture.outside.stand_ins.get(id(tensor))
    wants_more = real is not None and wants_own_grad(tensor) and not real.requires_grad
    return type(tensor._data) is SymbolicPayload and (real is None or wants_more)


def record_backward(
    capture: Capture, outputs: list[Tensor], leaves: list[Any], results: list[Any]
) -> tuple[JointRecord, list[Any]]:
    """Record the backward of `outputs` for symbolic tangents. Returns the record and the gradients' operands
    (None where there is none)."""
    made = {id(results[i]): i for i in made_leaves(capture, results)}
    given = end_at_what_is_given(outputs, capture.outside.histories)
    primals = [p for p in _leaves_behind(outputs) if id(p) in made or not _is_made(capture, p)]
    graphs = [nodes_behind([out.grad_fn]) for out in outputs]  # taken before the run frees them
    saving = [{n for n in nodes if _saves(n)} for nodes in graphs]
    once = any(isinstance(n, FunctionNode) and n.gives_once for nodes in graphs for n in nodes)
    builder = capture.recorder.builder
    start = len(builder.nodes)
    tangents = [builder.param(capture.tensors.payload_of(out).type, f"tangent{i}") for i, out in enumerate(outputs)]
    del builder.params[-len(tangents) :]  # they come last, behind what only hooks and custom Functions read
    seeds = [capture.tensors.fresh(value) for value in tangents]
    with _without_hooks(primals), capture.writes.settled(results):
        grads = engine.run_backward(outputs, seeds, False, False, primals, False) if primals else ()
    builder.params.extend(tangents)
    kept = [(p, g) for p, g in zip(primals, grads, strict=True) if g is not None]
    parts, spec = pytree.flatten(desugar([g for _, g in kept]))
    receivers = [p for p, _ in kept]
    variables = [{id(n.variable) for n in nodes if isinstance(n, AccumulateGrad)} for nodes in graphs]
    reach = [frozenset(i for i, p in enumerate(receivers) if id(p) in found) for found in variables]
    freed_with = [frozenset(j for j, other in enumerate(saving) if mine & other) for mine in saving]
    received = [given[id(p)][1] if id(p) in given else p for p in receivers]
    places, returned = [leaf_of(p, leaves) for p in received], [made.get(id(p)) for p in received]
    record = JointRecord(outputs, received, places, returned, len(seeds), reach, freed_with, spec, start, once)
    return record, [capture.tensors.operand(g) for g in parts]


@contextmanager
def _without_hooks(leaves: list[Tensor]) -> Iterator[None]:
    """Hooks of the leaves rest: they run at each call, when the eager engine hands them the gradients
    of the compiled backward."""
    nodes = [accumulator_of(leaf) for leaf in leaves]
    hooks = [node.tensor_hooks for node in nodes]
    for node in nodes:
        node.tensor_hooks = None
    try:
        yield
    finally:
        for node, own in zip(nodes, hooks, strict=True):
            node.tensor_hooks = own


def _leaves_behind(outputs: list[Tensor]) -> list[Tensor]:
    """The leaves that the outputs depend on, in a fixed order."""
    found: dict[int, Tensor] = {}
    for node in nodes_behind([out.grad_fn for out in outputs]):
        variable = node.variable if isinstance(node, AccumulateGrad) else None
        if variable is not None:
            found.setdefault(id(variable), variable)
    return list(found.values())


def _saves(node: Node) -> bool:
    """Whether a second backward through the node is an error in eager mode."""
    if isinstance(node, OpNode):
        return node.saves
    return not isinstance(node, (AccumulateGrad, UnwrapBackward, Given))


@dataclass(eq=False)
class JointProgram:
    """The backward half of an entry, and how a call's tensors are tied to it. outputs: which results have a history."""

    record: JointRecord
    gradients: Gradients
    results: int
    outputs: list[int]

    @classmethod
    def build(
        cls, graph: Graph, record: JointRecord, results: int, outputs: list[int], backend: str | None,
        without: Notes,
    ) -> JointProgram:
        """Cut the joint graph and compile its backward half. without: which operands of nodes and results of blocks had
        no history."""
        halves = chosen(partition(graph, results, record.tangents, record.start), results, backend)
        gradients = Gradients(graph, results, record.tangents, halves, backend, without)
        return cls(record, gradients, results, outputs)

    @property
    def halves(self) -> Halves:
        """The joint graph, cut in two."""
        return self.gradients.halves

    @property
    def backward(self) -> Interpreted | Compiled:
        """The program of the backward half."""
        return self.gradients.executable

    @cached_property
    def has_wrappers(self) -> bool:
        """Whether some gradient is put together from those of its inner tensors."""
        return any(c.kind is not None for c in self.record.spec.children)

    def attach(
        self, capture: Capture, sources: list[Any], leaves: list[Any], inputs: list[Any], results: list[Any],
        symbols: dict[str, int], made: list[Any], before: Before,
    ) -> None:
        """Give the returned tensors (some of what the call made), and arguments that were written, their common node.
        """
        receivers = [self._receiver(i, capture, sources, leaves, made) for i in range(len(self.record.primals))]
        edges = [before.edges[id(t)] if id(t) in before.edges else gradient_edge(t) for t in receivers]
        sizes = {name: symbols[found] for name, found in self.halves.sizes.items()}
        saved = self._saved(sources, leaves, inputs, results, made)
        node = CompiledFunctionBackward(tuple(edges), self, saved, {**symbols, **sizes}, sources, leaves, before.values)
        node.attach([made[at] for at in self.outputs])

    def _receiver(self, i: int, capture: Capture, sources: list[Any], leaves: list[Any], made: list[Any]) -> Tensor:
        """The tensor of this call that receives gradient number i."""
        primal, place, returned = self.record.primals[i], self.record.places[i], self.record.returned[i]
        if place is not None:
            return leaves[place]  # type: ignore[no-any-return]
        if returned is not None:
            return made[returned]  # type: ignore[no-any-return]
        return primal if id(primal) not in capture.outside.stand_ins else _argument(capture, sources, primal, leaves)

    def _saved(
        self, sources: list[Any], leaves: list[Any], inputs: list[Any], results: list[Any], made: list[Any]
    ) -> list[Any]:
        positions = {id(v): i for i, v in enumerate(self.halves.forward.params)}
        arrays = [(dense_array(t), t) for t in made if isinstance(t, Tensor)]
        returned = {id(root_of(array)): t for array, t in arrays if array is not None}
        saved: list[Any] = []
        extra = self.results
        for value in self.halves.saved:
            at = positions.get(id(value))
            if at is None:
                array = results[extra]
                # what the caller has too may be written; numbers that the program computes are nobody's
                shown = None if isinstance(array, (bool, int, float, complex)) else returned.get(id(root_of(array)))
                saved.append(save(array, shown, True))
                extra += 1
                continue
            tensor = _tensor_of(sources[at], leaves)
            saved.append(save(inputs[at], tensor))
        return saved


def _argument(capture: Capture, sources: list[Any], stand_in: Tensor, leaves: list[Any]) -> Tensor:
    param = stand_in._data.storage.param
    leaf: Tensor = leaves[sources[param].leaf]
    return leaf


def _tensor_of(source: Any, leaves: list[Any]) -> Tensor | None:
    if type(source) is ArgumentSource:
        leaf: Tensor = leaves[source.leaf]
        return leaf
    if type(source) is not StateSource:
        return None
    return source.slot.tensor if source.slot.leaf is None else leaves[source.slot.leaf]


def _part(spec: pytree.TreeSpec, places: Iterator[int]) -> int | Whole:
    """How a gradient of this structure is made of results: the next of `places`, nested wrappers inside out."""
    if spec.kind is None:
        return next(places)
    return Whole(Rewrapped(spec.meta), tuple([_part(child, places) for child in spec.children]))


class Rewrapped:
    """Makes the gradient of a wrapper's class of the gradients of its inner tensors."""

    def __init__(self, facts: tuple[Any, ...]) -> None:
        self.facts = facts

    def apply(self, inner: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The wrapper, in a tuple."""
        return (resugar(Desugared(self.facts, list(inner))),)


class PlainOfWrapper(Node):
    """The history of a plain tensor whose gradient is a wrapper, as an input of gradients that are differentiated
    again: the program knows the inner tensors alone, and has one second gradient where their class has one for each."""

    @classmethod
    def before(cls, tensor: Tensor) -> Tensor:
        """The same tensor with this history."""
        node = cls((gradient_edge(tensor),))
        node.metadata_of_inputs += (InputMetadata(tensor.dims, tensor.dtype),)
        out = tensor.detach()
        out._autograd = AutogradState(False, node, 0)
        return out

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        raise StateError(
            "a second gradient, through a compiled forward, of a plain tensor whose gradient is a wrapper: compile the "
            "whole step, the function that calls backward or autograd.grad, instead of the model alone"
        )


class CompiledFunctionBackward(ProgramBackward):
    """The gradient of a compiled forward: its saved values, its tangents, one program."""

    def __init__(
        self, edges: tuple[Any, ...], program: JointProgram, saved: list[Any], symbols: dict[str, int],
        sources: list[Any], leaves: list[Any], before: Mapping[int, Any],
    ) -> None:
        self.program, self.sources, self.leaves = program, sources, leaves
        self.read = [(sources[i], before.get(i)) for i in program.gradients.read if i < len(sources)]
        super().__init__(edges, program.gradients, saved, symbols, ())
        self.freed: frozenset[int] = frozenset()  # outputs through which eager mode would refuse to go (again)
        self.last: list[int] = []  # the outputs whose gradients came in the latest run

    def begin(self, grads: Sequence[Any]) -> None:
        self.last = [i for i, g in enumerate(grads) if g is not None]
        if self.saved is None or not self.freed.isdisjoint(self.last):
            raise StateError(FREED)

    def reached(self, grads: Sequence[Any]) -> frozenset[int]:
        reach = self.program.record.reach
        return frozenset().union(*(reach[i] for i, g in enumerate(grads) if g is not None))

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        if not self.program.has_wrappers:
            return super().apply(grads, needs)
        self.begin(grads)
        gradients = resugar(pytree.unflatten(self.computed(grads), self.program.record.spec))
        reached = self.reached(grads)
        return tuple([g if i in reached else None for i, g in enumerate(gradients)])

    def computed(self, grads: Sequence[Any]) -> list[Any]:
        if not (modes.grad and self.program.record.gives_once):
            return super().computed(grads)
        with no_grad():
            return list(given_once((*grads, *self.primals()), tuple(super().computed(grads)), True))

    def inlined(self, grads: Sequence[Any], needs: Sequence[bool]) -> Inlined | None:
        return None if modes.grad and self.program.record.gives_once else super().inlined(grads, needs)

    def gives(self, edges: Sequence[int]) -> tuple[dict[int, int | Whole], tuple[int, ...]]:
        first = list(accumulate([0, *(c.size for c in self.program.record.spec.children)]))
        wanted = [first[e] + i for e in edges for i in range(first[e + 1] - first[e])]
        places = iter(range(len(wanted)))
        return {e: _part(self.program.record.spec.children[e], places) for e in edges}, tuple(wanted)

    def primals(self) -> list[Any]:
        super().primals()  # asks for versions
        found = [input_of(source, self.leaves, self.symbols, was) for source, was in self.read]
        if not self.program.has_wrappers:
            return found
        children = self.program.record.spec.children
        wrapped = {edge for edge, child in zip(self.edges, children, strict=True) if child.kind is not None}
        return [PlainOfWrapper.before(x) if gradient_edge(x) in wrapped else x for x in found]

    def versions_now(self) -> list[int]:
        return [0 if was is not None else version_of(source, self.leaves) for source, was in self.read]

    def release(self) -> None:
        """Free what was saved, unless outputs are left whose graph no run has freed."""
        freed_with = self.program.record.freed_with
        self.freed = self.freed.union(*(freed_with[i] for i in self.last))
        if all(i in self.freed for i in range(len(freed_with))):
            super().release()
            self.leaves, self.read = [], []
