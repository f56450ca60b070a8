"""A backward call as a list of steps: what the engine would do, in its order, without doing it.

The steps are structure alone: operators, who reads whom, which gradients are wanted, how many hooks there are where.
Tensors, sizes, numbers, hooks, nodes and leaves stand in lists beside them, in the order in which the steps take them.
So the steps are the whole key of what is captured: the graph is built from them and from nothing else (graph.py),
and can depend on nothing that they do not say.

A value is named by a number: the result of an earlier step counts from 0 up, ~0, ~1,
... are the tensors beside the steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.engine import Walk
from weft.autograd.node import Edge, InputMetadata, Node, OpNode
from weft.autograd.run_hooks import is_heard
from weft.autograd.validate import validate
from weft.autograd.views import CopySlices
from weft.compiled_autograd.evaluate import undefined
from weft.compiled_autograd.inline import inline
from weft.compiled_autograd.live_hooks import AFTER, BEFORE, EDGES, LEAF, RETAINED, Stage, calls_hooks
from weft.compiled_autograd.steps import (
    ACCUMULATE,
    ADD,
    CALL,
    CHECK,
    INNER_TENSORS,
    INTO_BASE,
    MAKE_SUBCLASS,
    OP,
    POST_HOOK,
    PRE_HOOK,
    RETAIN,
    SLICE,
    TENSOR_HOOK,
    VALIDATE,
    Pattern,
    Ref,
    Schedule,
    kind_of,
)
from weft.compiled_autograd.writer import Writer
from weft.ir.opaque import opaque_op
from weft.ops.op import Op
from weft.programs.tensor_program import ProgramBackward
from weft.record.wrappers import PartBackward, UnwrapBackward, WrapBackward
from weft.runtime.storage import root_of
from weft.tensor.dense import is_dense


def schedule(walk: Walk, patterns: Mapping[int, Pattern], earlier: Schedule | None = None) -> Schedule:
    """The steps of a backward call. patterns: by the number of a step that calls Python, which of its results are there
    (all that are wanted, if not given).
    earlier: another schedule of the same call, of which the tensors keep their numbers."""
    return Scheduler(walk, patterns, earlier).run().out


class Visit(NamedTuple):
    """What happened at a node, for whoever walks the same structure again (recall.py)."""

    grads: tuple[Ref | None, ...]  # that came in
    first: int  # number of its first step
    values: int  # before it
    # of each edge, if the node ran: what was delivered, and what was there already
    delivered: list[tuple[Ref | None, Ref | None]]


class Scheduler(Writer):
    """The engine's walk (autograd/engine.py) with numbers of values in place of gradients."""

    def __init__(self, walk: Walk, patterns: Mapping[int, Pattern], earlier: Schedule | None = None) -> None:
        super().__init__(patterns, earlier)
        self.walk = walk
        self.ends: list[int] = []
        self.out.ends = self.ends
        self.visits: list[Visit] = []
        self.seeds: list[Ref] = []
        self.cut: list[int] = []
        self.ticket = 0
        self.inlined: dict[Node, frozenset[int]] = {}  # with the edges whose gradients Python makes
        self.leaves: list[tuple[int, Any]] = []  # steps that accumulate, and the gradients that are there
        self.dependencies: dict[Node, int] = {}
        self.buffers: dict[Node, list[Ref | None]] = {}
        self.queue: list[tuple[int, int, Node]] = []
        self.captured: dict[Edge, Ref | None] = {}

    def run(self) -> Scheduler:
        """Walk all of the graph."""
        walk = self.walk
        self.dependencies = dict(walk.dependencies)
        for (node, index), seed in zip(walk.roots, walk.seeds, strict=False):
            ref = self.seed(node, index, seed)
            self.seeds.append(ref)
            self._deliver(node, index, ref)
        for node in dict.fromkeys(edge[0] for edge in walk.roots):
            if self.dependencies.get(node) == 0:
                self._push(node)
        while self.queue:
            self._step(heapq.heappop(self.queue)[2])
        self.cut = self.cuts()
        for i in self.cut:
            self.steps[i] = (*self.steps[i][:2], True)
        if not self.continues:  # (else its tensors are gone)
            self.out.kind = kind_of(self.out.tensors, walk.create_graph)
        if walk.wanted is not None and not walk.accumulate:
            self.out.outputs = tuple([self.captured.get(edge) for edge in walk.wanted])
        return self

    def restart(self, visit: Visit) -> None:
        """Go on as if all before a visit had been written down."""
        self.base, self.count = visit.first, visit.values
        self.steps.clear()

    def seed(self, node: Node, index: int, seed: Any) -> Ref:
        """The number of a gradient that the call begins with."""
        metadata = node.metadata_of_inputs[index] if index < len(node.metadata_of_inputs) else None
        return self.tensor(seed if metadata is None else validate("root", index, seed, metadata), None)

    def note_gradient(self, node: AccumulateGrad, step: int) -> None:
        """Remember that a step adds to a gradient that is there."""
        variable = node.variable
        state = None if variable is None else variable._autograd
        if state is not None and state.grad is not None:
            self.leaves.append((step, state.grad))

    def cuts(self) -> list[int]:
        """Steps that add to a gradient that a node has saved, which changes what the node will read: such a leaf
        takes its turn, as where hooks follow."""
        present = [(i, gradient) for i, gradient in self.leaves if is_dense(gradient)]
        if not present:
            return []
        # (of a schedule that goes on where another one stopped, tensors that nobody reads any more are gone)
        saved = {id(root_of(t._data)) for t in self.out.tensors if t is not None and is_dense(t)}
        return [i for i, gradient in present if id(root_of(gradient._data)) in saved]

    # ---- the walk
    def _push(self, node: Node) -> None:
        self.ticket += 1
        heapq.heappush(self.queue, (-node.sequence, self.ticket, node))

    def _deliver(self, node: Node, index: int, gradient: Ref | None) -> Ref | None:
        """Put a gradient where a node will find it. Gives what was there."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * max(len(node.metadata_of_inputs), index + 1)
        if gradient is None:
            return None
        present = buffer[index]
        buffer[index] = gradient if present is None else self.emit((ADD, present, gradient))
        return present

    def _step(self, node: Node) -> None:
        self.place = len(self.out.live)
        self.out.live.append(node)
        grads = self.buffers.pop(node, None) or [None] * max(1, len(node.metadata_of_inputs))
        delivered: list[tuple[Ref | None, Ref | None]] = []
        self.visits.append(Visit(tuple(grads), len(self.steps), self.count, delivered))
        out = self.compute(node, grads)
        dependencies = self.dependencies
        for i, edge in enumerate(node.edges):
            if edge is None:
                continue
            target, index = edge
            left = dependencies.get(target)
            if out is not None:
                gradient = self.fit(node, i, out[i], target, index)
                delivered.append((gradient, None if left is None else self._deliver(target, index, gradient)))
            if left is None:  # nothing behind it is wanted
                continue
            left = dependencies[target] = left - 1
            if left == 0:
                self._push(target)

    def fit(self, node: Node, i: int, gradient: Ref | None, target: Node, index: int) -> Ref | None:
        metadata = target.metadata_of_inputs[index] if index < len(target.metadata_of_inputs) else None
        if gradient is None or metadata is None or isinstance(node, PartBackward):  # (it gives what it was given)
            return gradient
        if self._is_typed(node, i):
            return self._validate(gradient, metadata, *([i] if node in self.inlined else []))
        self.out.objects.append(node)
        self.out.ints.append(i)
        self.out.sizes.extend(metadata.dims)
        return self.emit((CHECK, gradient, len(metadata.dims), metadata.dtype))

    def _is_typed(self, node: Node, i: int) -> bool:
        """Whether formulas gave a node's gradient number i, so that it fits up to broadcasting; what Python gave may be
        anything."""
        if node.post_hooks:
            return False
        if isinstance(node, OpNode):
            return True
        if node in self.inlined:
            return i not in self.inlined[node]
        return type(node) is CopySlices and isinstance(node.inner, OpNode)

    def _validate(self, gradient: Ref, metadata: InputMetadata, *edge: int) -> Ref:
        """edge: which gradient of its node it is, where the steps do not say so otherwise."""
        self.out.sizes.extend(metadata.dims)
        return self.emit((VALIDATE, gradient, len(metadata.dims), metadata.dtype, *edge))

    def compute(self, node: Node, grads: list[Ref | None]) -> tuple[Ref | None, ...] | None:
        """The gradients of a node's edges; None where it does not run."""
        walk = self.walk
        if node.tensor_hooks or node.retain_hooks:
            self._tensor_hooks(node, grads)
        for edge in walk.asked.get(node, ()):
            self.captured[edge] = grads[edge[1]] if edge[1] < len(grads) else None
        if not walk.runs(node):
            return None
        if node.pre_hooks:
            for hook in self._hooks(node, BEFORE, node.pre_hooks.values()):
                grads = self.python((PRE_HOOK, tuple(grads)), (hook,), tuple([g is not None for g in grads]))
        if grads.count(None) == len(grads) and not getattr(node, "runs_on_nothing", False):
            return self._on_nothing(node, tuple(grads))
        if walk.needed is None:
            needs = tuple([e is not None for e in node.edges])
        else:
            needs = tuple([e is not None and walk.leads_on(e) for e in node.edges])
        given = tuple(grads)
        out = self._gradients(node, given, needs)
        out = self._post_hooks(node, out, given)
        self._end(node)
        return out

    def _on_nothing(self, node: Node, grads: tuple[Ref | None, ...]) -> tuple[Ref | None, ...] | None:
        """What is left of a node's step where nothing flows into it: hooks behind it."""
        if type(node) is AccumulateGrad and self._calls_hooks(node):
            self.out.objects.append(node)
            self.emit((ACCUMULATE, None, True), 0)
        out = self._post_hooks(node, (None,) * len(node.edges), grads) if node.post_hooks else None
        self._end(node)
        return out

    def _post_hooks(
        self, node: Node, out: tuple[Ref | None, ...], grads: tuple[Ref | None, ...]
    ) -> tuple[Ref | None, ...]:
        for hook in self._hooks(node, AFTER, node.post_hooks.values()) if node.post_hooks else ():
            out = tuple(self.python((POST_HOOK, out, grads), (hook,), tuple([g is not None for g in out])))
        return out

    def _end(self, node: Node) -> None:
        self.out.nodes.append(node)
        self.ends.append(len(self.steps))

    def _gradients(self, node: Node, grads: tuple[Ref | None, ...], needs: tuple[bool, ...]) -> tuple[Ref | None, ...]:
        if isinstance(node, OpNode):
            return self._formula(node, grads, needs)
        if type(node) is AccumulateGrad:
            self._accumulate(node, grads[0])
            return ()
        if type(node) is CopySlices and (isinstance(node.inner, OpNode)):
            return self._copy_slices(node, grads[0], needs)
        if isinstance(node, ProgramBackward):
            self._hooks(node, EDGES, node.edges)  # hooks may cut it
            if node.hands_on(grads, needs):
                self.inlined[node] = frozenset()
                return grads
            if True not in needs:
                return (None,) * len(needs)
            inlined = inline(self, node, grads, needs)
            if inlined is not None:
                self.inlined[node] = inlined.wholes
                return inlined.gradients
        if isinstance(node, PartBackward):
            return grads
        if isinstance(node, UnwrapBackward):
            return tuple(self.python((MAKE_SUBCLASS, grads), (node,), (True,)))
        kind = INNER_TENSORS if isinstance(node, WrapBackward) else CALL
        return tuple(self.python((kind, grads, needs), (node,), (True,) * len(node.edges)))

    # ---- nodes
    def _formula(self, node: OpNode, grads: tuple[Ref | None, ...], needs: tuple[bool, ...]) -> tuple[Ref | None, ...]:
        if True not in needs:
            return (None,) * len(needs)
        counts = node.argument_counts
        wanted = needs if len(counts) == len(needs) else node.needs_per_argument(needs)
        packed = self.packed(node, wanted)
        at = self.count
        out: list[Ref | None] = []
        for count, is_wanted in zip(counts, wanted, strict=True):
            if not is_wanted:
                out += [None] * count
            elif count == 1:
                out.append(at)
                at += 1
            else:
                out += range(at, at + count)
                at += count
        there = undefined(opaque_op(node.plan), grads, wanted, packed)
        first = self.count
        self.emit((OP, node.plan, grads, wanted, packed, counts, there), at - self.count)
        return tuple(out) if there is None else tuple([None if r is None or not there[r - first] else r for r in out])

    def _copy_slices(self, node: CopySlices, grad: Ref | None, needs: tuple[bool, ...]) -> tuple[Ref | None, ...]:
        """The prologue (the part of the gradient that the view shows), the inner node, and the epilogue
        (its gradient in the place of that part)."""
        if grad is None:
            return (None,) * len(node.edges)
        shown = self.emit((SLICE, grad, self._path(node)))
        out = list(self._formula(node.inner, (shown,), node.inner_needs(needs)))
        into_self = out.pop(node.self_slot) if node.self_slot is not None else None
        if not needs[0]:
            return (None, *out)
        if into_self is not None:
            into_self = self._validate(into_self, node.view_metadata)
        return (self.emit((INTO_BASE, grad, shown, into_self, self._path(node))), *out)

    def _path(self, node: CopySlices) -> tuple[tuple[Op, Any, int], ...]:
        return tuple([(op, tuple([self.value(a, node) for a in args]), index) for op, args, index in node.path])

    # ---- Python
    def _tensor_hooks(self, node: Node, grads: list[Ref | None]) -> None:
        if node.tensor_hooks:
            for index, registered in node.tensor_hooks.items():
                if not is_heard(node, index, grads[index] if index < len(grads) else None, self.walk):
                    continue
                for hook in self._hooks(node, index, registered.values()):
                    if index < len(grads):
                        grads[index] = (
                            self.python((TENSOR_HOOK, grads[index]), (hook,), (grads[index] is not None,))[0]
                        )
        for index, retain in self._hooks(node, RETAINED, node.retain_hooks.items()) if node.retain_hooks else ():
            if grads[index] is not None and is_heard(node, index, grads[index], self.walk):
                self.python((RETAIN, grads[index]), (retain,), ())

    def _accumulate(self, node: AccumulateGrad, grad: Ref | None) -> None:
        if grad is None:
            return
        self.out.objects.append(node)
        self.note_gradient(node, self.base + len(self.steps))
        self.emit((ACCUMULATE, grad, self._calls_hooks(node)), 0)

    def _calls_hooks(self, node: AccumulateGrad) -> bool:
        return bool(self._hooks(node, LEAF, (True,) if calls_hooks(node) else ()))

    def _hooks(self, node: Node, stage: Stage, live: Collection[Any]) -> tuple[Any, ...]:
        """The hooks of a stage of a node whose turn it is."""
        return self.out.hooks.at(node, stage, live, self.base + len(self.steps))
