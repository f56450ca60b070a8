"""Blocks of a graph with their histories: how a branch or a loop body is recorded, and how the engine goes
backward through it.

A block is recorded with the autograd graph that its operators made. The backward of a branch is a branch, that
of a loop a loop the other way over what the forward one found at each step; in their blocks the nodes of the forward
block are emitted once more, and the ordinary engine walks the graph that was made in it, up to its border.
Being recorded by the same two functions (`choose` and `repeat`), they have a backward too, at every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.autograd import engine
from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.checkpoint import region_now
from weft.autograd.function import FunctionNode
from weft.autograd.node import Edge, InputMetadata, Node, OpNode, sequence_numbers
from weft.autograd.saved import FREED, only_captured_hooks
from weft.guards.watching import unwatched
from weft.ir.builder import Builder, Handle
from weft.ir.graph import Block, Operand, Value, map_operand, values_in
from weft.ir.graph import Node as GraphNode
from weft.ops.packet import aten
from weft.passes.effects import ORDERED
from weft.record.blocks.memory import Memory, end_of
from weft.record.recorder import refusal
from weft.record.writes import ArgumentChange
from weft.support.errors import CaptureError, StateError
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.record.capture import Capture
    from weft.record.recorder import GraphRecorder

Spans = tuple[range, ...]


@dataclass(eq=False)
class Recorded:
    """A block and the autograd graph made in it: where each result's gradient flows.

    spans: the numbers of the nodes that belong to it. memory: what it leaves in outer tensors.
    values: what stood for values of blocks recorded earlier when this one was.
    """

    block: Block
    ends: tuple[Edge | None, ...]
    spans: Spans
    values: dict[Value, Operand]
    memory: Memory
    around: tuple[Memory, ...] = ()  # of the blocks that it goes back through

    @property
    def results(self) -> tuple[Operand, ...]:
        return self.block.results

    def border(self, ends: Sequence[Edge | None] | None = None) -> dict[Edge, None]:
        """The edges that lead out of the block's own graph, from some of its ends (default: all)."""
        return unwatched(self._border, self.ends if ends is None else ends)  # type: ignore[no-any-return]

    def _border(self, ends: Sequence[Edge | None]) -> dict[Edge, None]:
        return self._split(ends)[0]

    def saves(self) -> bool:
        """Whether the block's graph saves something, which eager mode frees as it goes backward."""
        nodes = unwatched(self._split, self.ends)[1]
        return any([
            bool(n.ctx._saved) if isinstance(n, FunctionNode) else isinstance(n, (OpNode, ControlBackward)) and n.saves
            for n in nodes
        ])

    def _split(self, ends: Sequence[Edge | None]) -> tuple[dict[Edge, None], set[Node]]:
        """The edges that lead out of the block's own graph, and the nodes of that."""
        border: dict[Edge, None] = {}
        stack = [e for e in ends if e is not None]
        own: set[Node] = set()
        while stack:
            node, index = stack.pop()
            if not self._has(node):
                border[node, index] = None
            elif node not in own:
                own.add(node)
                stack.extend(e for e in reversed(node.edges) if e is not None)
        return border, own

    def _has(self, node: Node) -> bool:
        return not isinstance(node, AccumulateGrad) and any(node.sequence in span for span in self.spans)

    def rerun(self, capture: Capture, params: Sequence[Operand] = ()) -> None:
        """Emit the block's nodes once more into the open block.
        From there on, tensors of the block are their new values."""
        unwatched(self._rerun, capture, params)

    def _rerun(self, capture: Capture, params: Sequence[Operand]) -> None:
        values = {**capture.recorder.values, **dict(zip(self.block.params, params, strict=True))}
        _copy_nodes(capture.recorder, capture.recorder.builder, self.block, values)
        values.update([(old, map_operand(new, values)) for old, new in self.values.items()])
        # types stay: what has as many rows goes on saying so
        for old in capture.recorder.lengths.keys() & values.keys():
            capture.recorder.lengths.setdefault(values[old], capture.recorder.lengths[old])
        capture.recorder.values = values

    def tensors(self, capture: Capture) -> list[Any]:
        """The block's results after it was run again, with their histories."""
        return unwatched(self._tensors, capture)  # type: ignore[no-any-return]

    def _tensors(self, capture: Capture) -> list[Any]:
        return [
            tensor_of(capture, map_operand(r, capture.recorder.values), end)
            for r, end in zip(self.results, self.ends, strict=True)
        ]

    def pull_back(
        self, capture: Capture, params: Sequence[Operand], grads: Sequence[Any], wanted: Sequence[Edge],
        unreached: list[Edge] | None = None,
    ) -> list[Tensor]:
        """In an open block: run again, and the gradients of edges of the border for gradients of the results;
        zeros where none arrives, which `unreached` is told of."""
        self.rerun(capture, params)
        seeded = [(end, g) for end, g in zip(self.ends, grads, strict=True) if end is not None and g is not None]
        with ExitStack() as stack:
            for memory in (*self.around, self.memory):
                stack.enter_context(memory.in_place(capture.recorder))
            gradients = engine.run_between([end for end, _ in seeded], [g for _, g in seeded], wanted, self.border())
        if unreached is not None:
            unreached.extend(edge for edge, g in zip(wanted, gradients, strict=True) if g is None)
        return [zeros_at(capture, edge) if g is None else g for edge, g in zip(wanted, gradients, strict=True)]


def record(capture: Capture, body: Callable[[Builder], Sequence[Any]], through: Recorded | None = None) -> Recorded:
    """What `body` does, as a block with the results that it returns. through: the block recorded earlier that it
    goes back through. What a block saves belongs to it and is computed anew in its backward: hooks that keep what a
    program saves, or compute it again (checkpoint), are not asked.
    """
    first = next(sequence_numbers)
    with only_captured_hooks(), capture.block() as (inner, writes):
        results = body(inner)
        operands = [capture.tensors.operand(r) for r in results]
        ends = tuple([end_of(r) for r in results])
        memory = writes.left()
        spans = (*(through.spans if through else ()), range(first, next(sequence_numbers)))
        around = (*through.around, through.memory) if through else ()
        return Recorded(inner.block(operands), ends, spans, capture.recorder.values, memory, around)


def _copy_nodes(recorder: GraphRecorder, builder: Builder, block: Block, values: dict[Value, Operand]) -> None:
    over = _has_been_done(block)
    for node in block.nodes:
        if node in over:
            continue
        if node.blocks:
            args = tuple([map_operand(a, values) for a in node.args])
            types = tuple([v.type for v in node.outputs])
            copied = builder.emit_raw(
                node.op, args, types, tuple([_copy(recorder, builder, b, values) for b in node.blocks]), node.where
            )
            recorder.histories.note_copy(copied, node, values)
        else:
            copied = recorder.emit_again(builder, node, values)
        values.update(zip(node.outputs, copied.outputs, strict=True))


def _has_been_done(block: Block) -> set[GraphNode]:
    """The nodes that a second run of a block leaves out: what they do (a print) has been done."""
    effects = {node for node in block.nodes if node.op.effect in ORDERED}
    if not effects:
        return effects
    read = {v for node in block.nodes for v in node.needs()} | set(values_in(block.results))
    return {node for node in effects if read.isdisjoint(node.outputs)}


def _copy(recorder: GraphRecorder, builder: Builder, block: Block, values: dict[Value, Operand]) -> Block:
    with builder.inner() as inner:
        scope = {**values, **{p: inner.param(p.type, p.name) for p in block.params}}
        _copy_nodes(recorder, inner, block, scope)
        copied = inner.block([map_operand(r, scope) for r in block.results])
    recorder.histories.note_copy(copied, block, scope)
    return copied


def tensor_of(capture: Capture, value: Operand, edge: Edge | None = None) -> Any:
    """A tensor around a value, whose gradient flows into `edge`; a handle of a number; what is no value as it is."""
    if not isinstance(value, Value):
        return value
    if not isinstance(value.type, TensorType):
        return Handle(value, capture.recorder.builder)
    out = capture.tensors.fresh(value)
    if edge is not None:
        out._autograd = AutogradState(False, *edge)
    return out


def zeros_at(capture: Capture, edge: Edge) -> Tensor:
    """The gradient of what nothing flowed into."""
    metadata = edge[0].metadata_of_inputs[edge[1]]
    assert metadata is not None
    with capture.recorder.builder.active():
        return capture.tensors.fresh(aten.zeros(metadata.dims, dtype=metadata.dtype).value)


# ---- histories
class ControlBackward(Node):
    """The history of what a branch or a loop gave: its edges are those over which its blocks' graphs are left."""

    _is_freed = False

    def __init__(self, capture: Capture, edges: tuple[Edge | None, ...]) -> None:
        super().__init__(edges)
        self.capture = capture
        self.region = region_now()
        self._recorded: GraphNode | None = None
        if self.region is not None:
            self.region.has_blocks = True

    def attach(self, outputs: Sequence[Tensor], flows: Sequence[bool]) -> None:
        """Make this the history of the results that have one."""
        self._recorded = outputs[0]._data.read().node if self.region is not None else None
        for i, (out, has_one) in enumerate(zip(outputs, flows, strict=True)):
            self.metadata_of_inputs += (InputMetadata(out.dims, out.dtype),)
            if has_one:
                out._autograd = AutogradState(False, self, i)
        self.capture.note_history(outputs)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """One gradient per edge."""
        if self.is_freed:
            raise StateError(FREED)
        if modes.capture is not self.capture:
            raise CaptureError(f"{self.name()}: the function that recorded this branch or loop is over")
        if self.region is not None:
            self.region.refuse_blocks()
            self._refuse_written(self.region.end)
        gradients = iter(self.pull_back(grads, needs))
        return tuple([next(gradients) if wanted else None for wanted in needs])

    def _refuse_written(self, end: int) -> None:
        """A block computes anew what it saves from what it read in the forward; in a checkpoint, whose second run reads
        memory as it is by then, that must be the same. end: when the first run ended. Raises ArgumentChange."""
        overwritten = self.capture.recorder.overwritten
        stack = [] if self._recorded is None or not overwritten else list(self._recorded.needs())
        while stack:
            value = stack.pop()
            if overwritten.get(value, 0) > end:
                raise refusal(
                    "a checkpoint with a branch or a loop runs again for backward, and what it reads was written since",
                    kind=ArgumentChange,
                )
            if value.node is not None and value.node.op.view is not None:
                stack += value.node.needs()

    def pull_back(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> Sequence[Tensor]:
        """The gradients of the edges that need one."""
        raise NotImplementedError

    @property
    def blocks(self) -> Sequence[Recorded]:
        """Its blocks, of which one runs."""
        raise NotImplementedError

    @property
    def saves(self) -> bool:
        """Whether whatever runs saves something."""
        return all([block.saves() for block in self.blocks])

    @property
    def is_freed(self) -> bool:
        return self._is_freed

    def release(self) -> None:
        self._is_freed = self._is_freed or self.saves
