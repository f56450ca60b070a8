"""Backward under capture: the ordinary engine walks, and each built-in node is recorded as one opaque call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.anomaly import anomaly
from weft.autograd.evaluator import Evaluator, Step, Steps
from weft.autograd.function import FunctionNode
from weft.autograd.node import Edge, InputMetadata, Node, OpNode, sequence_numbers
from weft.autograd.saved import SavedTensor
from weft.autograd.views import CopySlices
from weft.guards.watching import unwatched, watched
from weft.ir.graph import Value
from weft.ir.opaque import VALIDATE, WHERE_REACHED, opaque_op
from weft.ops.overrides import override_classes
from weft.ops.packet import aten
from weft.record.gradients import LeafGradients
from weft.record.older_histories import refuse_to_go_on
from weft.record.python_call import LooksForAnomalies
from weft.record.recorder import GraphRecorder, refusal
from weft.record.tensors import SymbolicTensors
from weft.record.wrappers import involves
from weft.support.locations import Location, user_location
from weft.tensor.modes import modes
from weft.tensor.wrapper import wrapper_classes
from weft.types.tensor_type import TENSOR, tensor_type

_ADD = aten.add.Tensor.op


class OpaqueEvaluator(Evaluator):
    """Records what the engine would compute."""

    def __init__(
        self, recorder: GraphRecorder, tensors: SymbolicTensors, gradients: LeafGradients,
        note_saved: Callable[[Node, Any], None], resting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """note_saved: is told what a node whose formula is recorded had saved. resting: within such a block no calls of
        operators are the function's own."""
        self.resting = resting
        self.recorder, self.tensors, self.gradients, self.note_saved = recorder, tensors, gradients, note_saved
        self.begin = next(sequence_numbers)  # nodes from before have smaller numbers
        self.ran: set[Node] = set()
        self.given_none: set[tuple[Node, int]] = set()  # edges that custom Functions gave no gradient for
        self.walks = 0
        self.has_own_walks = False  # whether the function itself goes backward
        self.is_for_callers = False  # whether it records what callers may run, whose own histories go on behind it
        self.hooks: list[Any] = []  # that ran, and the rules of custom Functions that did
        self.rules: list[Any] = []  # what else custom Functions have

    def walk(self, steps: Steps, step: Step, roots: Sequence[Edge], wanted: Sequence[Edge] | None) -> None:
        """Only a step that may call something of the user's is watched (half of a backward's cost would be the profile
        hook's); the others stand at the line of the call.
        """
        self.walks += 1
        if not self.is_for_callers:
            unwatched(refuse_to_go_on, self.gradients, roots, wanted, self.begin)
            self.has_own_walks = True
            if anomaly.enabled:
                raise refusal("backward() looks for anomalies, node by node", 2, LooksForAnomalies)
        builder = self.recorder.builder
        where = user_location() if builder.track_locations else None

        def take(node: Node) -> Node | None:
            if not _calls_users(node):
                return step(node)
            self.rules += _rules_of(node)
            self.hooks += _hooks_of(node)
            builder.where = before
            try:
                following: Node | None = watched(step, node)
                return following
            finally:
                builder.where = where

        before, builder.where = builder.where, where
        try:
            with self.resting(), self.recorder.histories.walk():
                unwatched(steps, take)
        finally:
            builder.where = before

    # ---- gradients: values of the graph, tensors where code that takes tensors is to see them
    def run(self, node: Node, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """One opaque call; with create_graph, within a transform, or for nodes that are not an operator's, the formulas
        run as ordinary operators.
        """
        self.ran.add(node)
        if modes.special is not None or modes.grad:  # (tensors of a level are no values of the graph)
            return node.apply(self._shown(grads), needs)
        histories = self.recorder.histories
        if node.post_hooks or isinstance(node, (CopySlices, FunctionNode)) or node in histories.functions:
            # (hooks see what the formulas give, whose sizes an opaque call does not know)
            grads, operand = self._shown(grads), self.tensors.operand
            with histories.of_formulas(grads):
                gradients = node.apply(grads, needs)
                is_noted = node in histories.functions and not self.tensors.has_wrappers((*grads, *gradients))
                if is_noted:
                    gradients = tuple(self.tensors.of_formula(gradients))
            if isinstance(node, FunctionNode):
                self.given_none.update((node, i) for i, g in enumerate(gradients) if g is None and needs[i])
            if is_noted:
                histories.note_rule(node, operand(grads), operand(gradients))
            return gradients
        if not isinstance(node, OpNode) or not any(needs):
            return node.apply(self._shown(grads), needs)
        saved = node.unpack()  # here alone: a checkpoint gives each tensor out once
        if wrapper_classes and (involves(grads) or involves(saved)):
            return node.apply(self._shown(grads), needs, saved)  # formulas of wrappers are their class's business
        results: tuple[Any, ...] = unwatched(self._record, node, saved, grads, needs)
        return results

    def _record(
        self, node: OpNode, saved: tuple[Any, ...], grads: tuple[Any, ...], needs: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        needed, counts = node.needs_per_argument(needs), node.argument_counts
        self.note_saved(node, saved)
        operand = self.tensors.operand
        args = (operand(grads), needed, operand(saved))
        total = sum([count for count, wanted in zip(counts, needed, strict=True) if wanted])
        call = self.recorder.builder.emit_raw(
            opaque_op(node.plan), args, (TENSOR,) * total, where=node.where or self._line()
        )
        self.recorder.histories.note_saved(call, saved)
        if total == len(needs):
            return call.outputs
        results = iter(call.outputs)
        return tuple([
            next(results) if wanted else None for count, wanted in zip(counts, needed, strict=True)
            for _ in range(count)
        ])

    def _line(self) -> Location | None:
        builder = self.recorder.builder
        return builder.where or (user_location(2) if builder.track_locations else None)

    def validate(self, node: Node, index: int, gradient: Any, metadata: InputMetadata) -> Any:
        """The check of an edge: recorded for opaque results, done at once for typed ones."""
        if type(gradient) is not Value:
            return unwatched(super().validate, node, index, gradient, metadata)
        args = (gradient, metadata.dims, metadata.dtype)
        kind = tensor_type(metadata.dtype, metadata.dims)
        return self.recorder.builder.emit_raw(VALIDATE, args, (kind,), where=self._line()).output

    def add(self, a: Any, b: Any) -> Any:
        """The sum of two contributions."""
        if type(a) is not Value or type(b) is not Value:
            return super().add(*self._shown((a, b)))
        return self.recorder.builder.emit(_ADD, (a, b, 1)).output

    def handed_out(self, gradient: Any) -> Any:
        """A gradient that was asked for, as a tensor."""
        return self.tensors.fresh(gradient) if type(gradient) is Value else gradient

    def _shown(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([self.handed_out(g) for g in grads])

    def tensor_hooks(self, node: Node, grads: list[Any], walk: Any) -> None:
        """Hooks on the tensors that a node made, then gradients that are kept. Changes `grads`."""
        if node.tensor_hooks or node.retain_hooks:
            grads[:] = self._shown(grads)
            super().tensor_hooks(node, grads, walk)

    def pre_hooks(self, node: Node, grads: list[Any]) -> None:
        """Hooks of a node before it runs. Changes `grads`."""
        if node.pre_hooks:
            grads[:] = self._shown(grads)
            super().pre_hooks(node, grads)

    def post_hooks(self, node: Node, out: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """What hooks of a node after it ran make of its gradients."""
        if not node.post_hooks:
            return out
        out, grads, histories = self._shown(out), self._shown(grads), self.recorder.histories
        with histories.of_formulas((*out, *grads)):
            gradients = super().post_hooks(node, out, grads)
            is_noted = not (self.recorder.depth or modes.grad or self.tensors.has_wrappers((*grads, *gradients)))
            if is_noted:
                gradients = tuple(self.tensors.of_formula(gradients))
        if is_noted:
            histories.note_hooked_step(node, self.tensors.operand(grads), self.tensors.operand(gradients))
            if self.is_for_callers:
                return unwatched(self._where_reached, node, out, gradients)  # type: ignore[no-any-return]
        return gradients

    def _where_reached(self, node: Node, out: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """What hooks made of gradients, in runs that come to the node that these hooks wait for."""
        other: Node | None = getattr(node, "waits_for", None)
        reached = () if other is None else self.recorder.histories.arrivals(other)
        if not any(type(g) is Value for g in reached):
            return gradients
        emit, operand = self.recorder.builder.emit, self.tensors.operand
        return tuple([
            g if g is None or was is None or g is was
            else self.handed_out(emit(WHERE_REACHED, (operand(g), operand(was), reached)).output)
            for g, was in zip(gradients, out, strict=True)
        ])


def _calls_users(node: Node) -> bool:
    """Whether a node's step may run code that is not weft's: hooks, a custom Function, a class with a will of its own.
    """
    if override_classes or wrapper_classes:
        return True
    if node.hook_tables is not None and (node.tensor_hooks or node.pre_hooks or node.post_hooks):
        return True
    if isinstance(node, OpNode):
        return any([_is_unpacked_by_hook(value) for value in node.saved_values or ()])
    return node.is_awaited if isinstance(node, AccumulateGrad) else True


def _is_unpacked_by_hook(saved: Any) -> bool:
    if type(saved) is SavedTensor:
        return saved.unpack_hook is not None
    return type(saved) is tuple and any(map(_is_unpacked_by_hook, saved))


def _rules_of(node: Node) -> list[Any]:
    if not isinstance(node, FunctionNode):
        return []
    return [node.function.setup_context]


def _hooks_of(node: Node) -> list[Any]:
    functions: list[Any] = []
    if isinstance(node, FunctionNode):
        functions += [node.function.forward, node.function.backward, node.function.vjp]
    variable = node.variable if isinstance(node, AccumulateGrad) else None
    state = None if variable is None else variable._autograd
    tables = (node.tensor_hooks or {}).values()
    for hooks in (*tables, node.pre_hooks, node.post_hooks, None if state is None else state.post_accumulate):
        functions += (hooks or {}).values()
    return functions
