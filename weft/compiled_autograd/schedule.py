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
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numpy import ndarray

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.engine import Walk
from weft.autograd.node import Edge, InputMetadata, Node, OpNode
from weft.autograd.saved import SavedTensor
from weft.autograd.validate import validate
from weft.autograd.views import CopySlices
from weft.compiled_autograd.evaluate import undefined
from weft.compiled_autograd.steps import (
    ACCUMULATE,
    ADD,
    CALL,
    CHECK,
    FLOAT,
    INT,
    INTO_BASE,
    OP,
    POST_HOOK,
    PRE_HOOK,
    RETAIN,
    SIZE,
    SLICE,
    TENSOR_HOOK,
    UNPACK,
    VALIDATE,
    Constant,
    Pattern,
    Ref,
    Saved,
    Schedule,
    Step,
)
from weft.ir.opaque import opaque_op
from weft.ops.backward import ARG, DIMS, Plan, Source, needed_slots
from weft.ops.op import Op
from weft.runtime.storage import root_of

# Of what a node saved: whether it is read, whether it is sizes, and for a number which values decide what is computed.
Slots = tuple[tuple[bool, bool, "Callable[[Any], bool] | None"], ...]


class _Place(NamedTuple):
    """A saved tensor by its number."""

    ref: Ref


def schedule(walk: Walk, patterns: Mapping[int, Pattern], earlier: Schedule | None = None) -> Schedule:
    """The steps of a backward call. patterns: by the number of a step that calls Python, which of its results are there
    (all that are wanted, if not given).
    earlier: another schedule of the same call, of which the tensors keep their numbers."""
    return _Scheduler(walk, patterns, earlier).run()


class _Scheduler:
    """The engine's walk (autograd/engine.py) with numbers of values in place of gradients."""

    def __init__(self, walk: Walk, patterns: Mapping[int, Pattern], earlier: Schedule | None) -> None:
        self.walk, self.patterns = walk, patterns
        self.out = Schedule()
        if earlier is not None:
            self.out.tensors, self.out.saved = earlier.tensors, earlier.saved
            self.out.places, self.out.known = earlier.places, earlier.known
        self.steps = self.out.steps
        self.count = 0  # of values
        self.ticket = 0
        self.slots: dict[tuple[Plan, tuple[bool, ...]], Slots] = {}
        self.leaves: list[tuple[int, Any]] = []  # steps that accumulate, and the gradients that are there
        self.dependencies = dict(walk.dependencies)
        self.buffers: dict[Node, list[Ref | None]] = {}
        self.queue: list[tuple[int, int, Node]] = []
        self.captured: dict[Edge, Ref | None] = {}
        self.current: Node = walk.roots[0][0]

    def run(self) -> Schedule:
        walk = self.walk
        for (node, index), seed in zip(walk.roots, walk.seeds, strict=False):
            metadata = node.metadata_of_inputs[index] if index < len(node.metadata_of_inputs) else None
            self._deliver(
                node, index, self._tensor(seed if metadata is None else validate("root", index, seed, metadata), None)
            )
        for node in dict.fromkeys(edge[0] for edge in walk.roots):
            if self.dependencies.get(node, 0) == 0:
                self._push(node)
        while self.queue:
            self._step(heapq.heappop(self.queue)[2])
        self._cut_where_gradients_were_saved()
        if walk.wanted is not None and not walk.accumulate:
            self.out.outputs = tuple([self.captured.get(edge) for edge in walk.wanted])
        return self.out

    def _cut_where_gradients_were_saved(self) -> None:
        """Adding to a gradient that a node has saved changes what the node will read: such a leaf takes its turn,
        as where hooks follow."""
        present = [(i, gradient) for i, gradient in self.leaves if type(gradient._data) is ndarray]
        if present:
            saved = {id(root_of(t._data)) for t in self.out.tensors if type(t._data) is ndarray}
            for i, gradient in present:
                if id(root_of(gradient._data)) in saved:
                    self.steps[i] = (*self.steps[i][:2], True)

    # ---- the walk
    def _push(self, node: Node) -> None:
        self.ticket += 1
        heapq.heappush(self.queue, (-node.sequence, self.ticket, node))

    def _deliver(self, node: Node, index: int, gradient: Ref | None) -> None:
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * max(len(node.metadata_of_inputs), index + 1)
        if gradient is not None:
            present = buffer[index]
            buffer[index] = gradient if present is None else self._emit((ADD, present, gradient))

    def _step(self, node: Node) -> None:
        self.current = node
        grads = self.buffers.pop(node, None) or [None] * max(1, len(node.metadata_of_inputs))
        out = self._compute(node, grads)
        dependencies = self.dependencies
        for i, edge in enumerate(node.edges):
            if edge is None:
                continue
            target, index = edge
            if out is not None:
                self._deliver(target, index, self._fit(node, i, out[i], target, index))
            left = dependencies[target] = dependencies[target] - 1
            if left == 0:
                self._push(target)

    def _fit(self, node: Node, i: int, gradient: Ref | None, target: Node, index: int) -> Ref | None:
        metadata = target.metadata_of_inputs[index] if index < len(target.metadata_of_inputs) else None
        if gradient is None or metadata is None:
            return gradient
        if self._is_typed(node):
            return self._validate(gradient, metadata)
        self.out.objects.append(node)
        self.out.ints.append(i)
        self.out.sizes.extend(metadata.dims)
        return self._emit((CHECK, gradient, len(metadata.dims), metadata.dtype))

    def _is_typed(self, node: Node) -> bool:
        """Whether formulas gave a node's gradients, which fit up to broadcasting; what Python gave may be anything."""
        return (
            not node.post_hooks
            and (isinstance(node, OpNode) or (type(node) is CopySlices and isinstance(node.inner, OpNode)))
        )

    def _validate(self, gradient: Ref, metadata: InputMetadata) -> Ref:
        self.out.sizes.extend(metadata.dims)
        return self._emit((VALIDATE, gradient, len(metadata.dims), metadata.dtype))

    def _compute(self, node: Node, grads: list[Ref | None]) -> tuple[Ref | None, ...] | None:
        walk = self.walk
        if node.tensor_hooks or node.retain_hooks:
            self._tensor_hooks(node, grads)
        if walk.needed is not None:
            self._capture(node, grads)
            if not walk.needed.get(node, False) and not (walk.accumulate and walk.is_wanted(node)):
                return None
        if node.pre_hooks:
            for hook in list(node.pre_hooks.values()):
                grads = self._python((PRE_HOOK, tuple(grads)), (hook,), tuple([g is not None for g in grads]))
        if grads.count(None) == len(grads) and not getattr(node, "runs_on_nothing", False):
            self.out.nodes.append((len(self.steps), node))
            return None
        if walk.needed is None:
            needs = tuple([e is not None for e in node.edges])
        else:
            needs = tuple([e is not None and walk.leads_on(e) for e in node.edges])
        given = tuple(grads)
        out = self._gradients(node, given, needs)
        if node.post_hooks:
            for hook in list(node.post_hooks.values()):
                out = tuple(self._python((POST_HOOK, out, given), (hook,), tuple([g is not None for g in out])))
        self.out.nodes.append((len(self.steps), node))
        return out

    def _gradients(self, node: Node, grads: tuple[Ref | None, ...], needs: tuple[bool, ...]) -> tuple[Ref | None, ...]:
        if isinstance(node, OpNode):
            return self._formula(node, grads, needs)
        if type(node) is AccumulateGrad:
            self._accumulate(node, grads[0])
            return ()
        if type(node) is CopySlices and (isinstance(node.inner, OpNode)):
            return self._copy_slices(node, grads[0], needs)
        return tuple(self._python((CALL, grads, needs), (node,), (True,) * len(node.edges)))

    def _capture(self, node: Node, grads: list[Ref | None]) -> None:
        for edge in self.walk.wanted or ():
            if edge[0] is node:
                self.captured[edge] = grads[edge[1]] if edge[1] < len(grads) else None

    # ---- nodes
    def _formula(self, node: OpNode, grads: tuple[Ref | None, ...], needs: tuple[bool, ...]) -> tuple[Ref | None, ...]:
        if True not in needs:
            return (None,) * len(needs)
        counts = node.argument_counts
        wanted = needs if len(counts) == len(needs) else node.needs_per_argument(needs)
        packed = self._packed(node, wanted)
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
        there = undefined(opaque_op(node.plan.op), grads, wanted, packed)
        first = self.count
        self._emit((OP, node.plan.op, grads, wanted, packed, counts, there), at - self.count)
        return tuple(out) if there is None else tuple([None if r is None or not there[r - first] else r for r in out])

    def _copy_slices(self, node: CopySlices, grad: Ref | None, needs: tuple[bool, ...]) -> tuple[Ref | None, ...]:
        """The prologue (the part of the gradient that the view shows), the inner node, and the epilogue
        (its gradient in the place of that part)."""
        if grad is None:
            return (None,) * len(node.edges)
        shown = self._emit((SLICE, grad, self._path(node)))
        out = list(self._formula(node.inner, (shown,), node.inner_needs(needs)))
        into_self = out.pop(node.self_slot) if node.self_slot is not None else None
        if not needs[0]:
            return (None, *out)
        if into_self is not None:
            into_self = self._validate(into_self, node.view_metadata)
        return (self._emit((INTO_BASE, grad, shown, into_self, self._path(node))), *out)

    def _path(self, node: CopySlices) -> tuple[tuple[Op, Any, int], ...]:
        return tuple([(op, tuple([self._value(a, node) for a in args]), index) for op, args, index in node.path])

    def _packed(self, node: OpNode, wanted: tuple[bool, ...]) -> tuple[Any, ...]:
        """What the wanted formulas of a node read of what it saved."""
        plan = node.plan
        slots = self.slots.get((plan, wanted))
        if slots is None:
            read = needed_slots(plan, wanted)
            slots = self.slots[plan, wanted] = tuple(
                [(i in read, slot.kind == DIMS, _question(plan, slot)) for i, slot in enumerate(plan.slots)]
            )
        known = self.out.known.get(node)
        if known is None:
            known = self.out.known[node] = self._placed(node.raw_values(), slots, node)
        packed: list[Any] = []
        for value, (is_read, is_size, decides) in zip(known, slots, strict=True):
            kind = type(value)
            if value is None or not is_read:
                packed.append(None)
            elif kind is _Place:
                packed.append(value[0])
            elif decides is not None and kind in (int, float) and decides(value):
                packed.append(Constant(kind, value))  # (a formula takes another way for it)
            else:
                packed.append(self._sizes(value) if is_size else self._value(value, node))
        return tuple(packed)

    def _placed(self, values: tuple[Any, ...], slots: Slots, node: OpNode) -> tuple[Any, ...]:
        """Saved values with tensors by number, None for those that are not read."""
        out: list[Any] = []
        for value, (is_read, _, _) in zip(values, slots, strict=True):
            kind = type(value)
            if not is_read or value is None:
                out.append(None)
            elif kind is SavedTensor and value.unpack_hook is None:
                out.append(_Place(self._tensor(value.unpack(node), Saved(value, node))))
            elif kind is tuple:
                out.append(self._placed(value, ((True, False, None),) * len(value), node))
            else:
                out.append(value)
        return tuple(out)

    def _value(self, value: Any, node: Node) -> Any:
        """A saved value as structure."""
        kind = type(value)
        if kind is int:
            self.out.ints.append(value)
            return INT
        if kind is float:
            self.out.floats.append(value)
            return FLOAT
        if kind is _Place:
            return value.ref
        if kind is tuple:
            return tuple([self._value(v, node) for v in value])
        if kind is SavedTensor:
            return self._python((UNPACK,), (value, node), (True,))[0]
        return None if value is None else Constant(kind, value)

    def _sizes(self, value: Any) -> Any:
        """The dims of one tensor, or of each of a list."""
        if type(value) is int:
            self.out.sizes.append(value)
            return SIZE
        return None if value is None else tuple([self._sizes(v) for v in value])

    # ---- Python
    def _tensor_hooks(self, node: Node, grads: list[Ref | None]) -> None:
        if node.tensor_hooks and any(g is not None for g in grads):
            for index, registered in node.tensor_hooks.items():
                for hook in list(registered.values()):
                    if index < len(grads):
                        grads[index] = (
                            self._python((TENSOR_HOOK, grads[index]), (hook,), (grads[index] is not None,))[0]
                        )
        for index, retain in (node.retain_hooks or {}).items():
            if grads[index] is not None:
                self._python((RETAIN, grads[index]), (retain,), ())

    def _accumulate(self, node: AccumulateGrad, grad: Ref | None) -> None:
        if grad is None:
            return
        variable = node.variable
        state = None if variable is None else variable._autograd
        self.out.objects.append(node)
        if state is not None and state.grad is not None:
            self.leaves.append((len(self.steps), state.grad))
        self._emit((ACCUMULATE, grad, bool(state is not None and state.post_accumulate)), 0)

    def _python(self, step: Step, objects: tuple[Any, ...], expected: Pattern) -> list[Ref | None]:
        """A step that calls Python. Which of its results are there is looked up, or taken to be as `expected`."""
        self.out.objects.extend(objects)
        pattern = self.patterns.get(len(self.steps), expected)
        first = self.count
        self._emit((*step, pattern), len(pattern))
        return [first + i if there else None for i, there in enumerate(pattern)]

    # ---- values
    def _tensor(self, tensor: Any, saved: Saved | None) -> Ref:
        """The number of a tensor beside the steps: one for each payload and history, however often it was saved."""
        state = tensor._autograd
        place = (
            id(tensor._data), 0 if state is None else id(state.node), state is not None and state.index,
            state is not None and state.requires_grad,
        )
        found = self.out.places.get(place)
        if found is None:
            found = self.out.places[place] = ~len(self.out.tensors)
            self.out.tensors.append(tensor)
            self.out.saved.append(saved)
        return found

    def _emit(self, step: Step, results: int = 1) -> Ref:
        self.steps.append(step)
        self.out.origins.append(self.current)
        self.count += results
        return self.count - 1


def _question(plan: Plan, slot: Source) -> Callable[[Any], bool] | None:
    """What the entry asks of a number that decides what is computed."""
    return dict(plan.op.specialized_positions).get(slot.position) if slot.kind == ARG else None
