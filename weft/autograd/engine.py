"""The engine: a ready queue by sequence number, input buffers, hooks in their order, and a check on every edge.

A compiler may be installed (`install`): it then runs nodes, checks and sums in the engine's place (see Evaluator),
so that a walk over the graph records instead of computing. The engine never imports one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.accumulate import accumulate as accumulate_into
from weft.autograd.anomaly import anomaly, check_nan, describe_failure, evaluating
from weft.autograd.dependencies import between, count_dependencies, nodes_behind, present, runs_on_nothing
from weft.autograd.evaluator import Evaluator, Step
from weft.autograd.node import Edge, Node
from weft.autograd.ownership import is_owned, nobody_else_has
from weft.autograd.record import arrival_edge
from weft.autograd.saved import default_hooks
from weft.autograd.seeds import input_edge, retain_inputs, run_by_backend, seeds_of
from weft.autograd.validate import wrong_count
from weft.guards.watching import unwatched
from weft.ops import overrides
from weft.support import seams
from weft.support.asides import put_aside_by
from weft.support.errors import StateError
from weft.support.observers import observers
from weft.support.warn import warn
from weft.tensor.modes import AT_WORK, modes, set_grad_enabled
from weft.tensor.tensor import Tensor

MAX_DEPTH = 40  # nested backward calls on one Python stack; deeper ones continue on a fresh thread


Runner = Callable[["Walk"], "tuple[Any, ...]"]


class _Local(threading.local):
    evaluators: tuple[Evaluator, ...] = (Evaluator(),)
    runners: tuple[list[Runner | None], ...] = ()  # of the blocks that are open, the innermost one last
    depth: int = 0
    callbacks: list[Callable[[], None]] | None = None
    walk: Walk | None = None


_local = _Local()


@contextmanager
def install(evaluator: Evaluator) -> Iterator[None]:
    """Let a compiler run the nodes of backward calls on this thread, within a block. Blocks nest."""
    previous = _local.evaluators
    _local.evaluators = (*previous, evaluator)
    try:
        yield
    finally:
        _local.evaluators = previous


@put_aside_by
@contextmanager
def _run_by_itself() -> Iterator[None]:
    """Within the block backward calls are the engine's own."""
    with install(Evaluator()), run_by(None):
        yield


@contextmanager
def run_by(runner: Runner | None) -> Iterator[None]:
    """Let `runner(walk)` run the backward calls of this thread as a whole, within a block; None: the engine itself.
    Blocks nest."""
    block = [runner]
    _local.runners = (*_local.runners, block)
    try:
        yield
    finally:  # those within it end with it, and have nothing to bring back later
        open_blocks = [each is block for each in _local.runners]
        if True in open_blocks:
            _local.runners = _local.runners[: open_blocks.index(True)]


def current_runner() -> Runner | None:
    """What runs the backward calls of this thread, if not the engine itself."""
    return _local.runners[-1][0] if _local.runners else None


def queue_callback(callback: Callable[[], None]) -> None:
    """Run `callback` once at the end of the running backward, after all accumulation."""
    if _local.callbacks is None:
        raise StateError("Final callbacks can only be installed during backward pass.")
    _local.callbacks.append(callback)


def current_walk() -> Walk | None:
    """The backward call that runs on this thread (the innermost one)."""
    return _local.walk


def meet(node: Node, rest: Node) -> None:
    """A node goes on in another one, which takes its edges over: in the backward call that runs on this thread too."""
    walk = _local.walk
    if walk is not None and node in walk.dependencies and rest not in walk.dependencies:
        walk.dependencies[rest] = len(node.edges)
        if walk.needed is not None and node in walk.needed:
            walk.needed.add(rest)


def run_backward(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Sequence[Any] | None,
    accumulate: bool,
    allow_unused: bool = True,
) -> tuple[Any, ...]:
    """Walk the graph from the roots. With `inputs` and not `accumulate`, returns their gradients
    (None where unused)."""
    edges, seeds = seeds_of(roots, grads)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else [input_edge(t) for t in inputs]
    if inputs is not None and not inputs:
        raise StateError(
            "`inputs` argument to `backward()` cannot be empty." if accumulate
            else "`inputs` argument to `grad()` cannot be empty."
        )
    retains = accumulate and inputs is not None and modes.capture is None
    if retains:
        retain_inputs(inputs)
    if create_graph and accumulate and modes.capture is None:
        warn(_CYCLE)
    is_plain = type(_local.evaluators[-1]) is Evaluator and current_runner() is None
    if wanted is None and accumulate and not create_graph and is_plain and run_by_backend(edges, seeds, keep):
        return ()
    walk = unwatched(Walk, edges, seeds, keep, create_graph, wanted, accumulate)
    out = _on_fresh_thread(walk) if _local.depth >= MAX_DEPTH else _run(walk)
    if accumulate and inputs is not None and not retains:
        _accumulate_non_leaves(inputs, walk, create_graph)
    return out


def run_between(
    roots: Sequence[Edge], seeds: Sequence[Any], wanted: Sequence[Edge], border: Collection[Edge],
    arrived: Mapping[Edge, Any] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """Walk from the roots up to a border, whose nodes do not run: the gradients that arrive at `wanted` edges of it
    (None where none does). arrived: what has arrived there before.

    What was saved is kept, and the walk is itself recorded if grad mode is on.
    """
    if not roots:
        return tuple([arrived.get(edge) for edge in wanted])
    walk = Walk(list(roots), list(seeds), True, modes.grad, list(wanted), False, border)
    walk.captured.update(arrived)
    return _run(walk)


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
    "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. "
    "If you have to use this function, make sure to reset the .grad fields of your parameters to None after use to "
    "break the cycle and avoid the leak."
)


def _accumulate_non_leaves(inputs: Sequence[Any], walk: Walk, create_graph: bool) -> None:
    """backward(inputs=[non-leaf]) adds to its .grad too."""
    with set_grad_enabled(create_graph):
        for tensor in dict.fromkeys(i for i in inputs if isinstance(i, Tensor)):
            edge = arrival_edge(tensor)
            if edge is not None and not isinstance(edge[0], AccumulateGrad) and walk.captured.get(edge) is not None:
                accumulate_into(tensor, walk.captured[edge])


seams.run_backward.install(run_backward)


def _run(walk: Walk) -> tuple[Any, ...]:
    previous_mode, previous_callbacks, previous_walk = modes.grad, _local.callbacks, _local.walk
    previous_hooks = default_hooks.stack
    _local.depth += 1
    _local.walk = walk
    modes.grad = walk.create_graph or (modes.grad and AT_WORK)
    _local.callbacks = [] if previous_callbacks is None else previous_callbacks
    try:
        runner = current_runner()
        out = walk.run() if runner is None or walk.border or type(walk.evaluator) is not Evaluator else runner(walk)
        if previous_callbacks is None:
            for callback in _drain(_local.callbacks):
                callback()
        return out
    finally:
        modes.grad, _local.callbacks, _local.walk = previous_mode, previous_callbacks, previous_walk
        _local.depth -= 1
        default_hooks.stack = previous_hooks  # what backward entered and did not leave ends with it


def _drain(callbacks: list[Callable[[], None]]) -> Iterator[Callable[[], None]]:
    at = 0
    while at < len(callbacks):  # callbacks may queue callbacks
        yield callbacks[at]
        at += 1


def _on_fresh_thread(walk: Walk) -> tuple[Any, ...]:
    """Continue deep re-entrant backward calls on another Python stack."""
    outcome: list[Any] = []
    state = (modes.grad, modes.inference, modes.capture, modes.special, _local.evaluators, _local.runners)
    overriding = overrides.state()

    def body() -> None:
        modes.grad, modes.inference, modes.capture, modes.special, _local.evaluators, _local.runners = state
        overrides.carry(overriding)
        try:
            outcome.append((_run(walk), None))
        except BaseException as error:  # carried to the caller's thread
            outcome.append((None, error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


class Walk:
    """One backward call: dependencies, buffers, queue."""

    def __init__(
        self, roots: list[Edge], seeds: list[Any], keep: bool, create_graph: bool, wanted: list[Edge] | None,
        accumulate: bool, border: Collection[Edge] = (),
    ) -> None:
        self.border = border  # edges that gradients arrive at and do not flow through
        self.roots, self.seeds, self.keep, self.create_graph = roots, seeds, keep, create_graph
        self.wanted, self.accumulate = wanted, accumulate
        self.buffers: dict[Node, list[Any]] = {}
        self.queue: list[tuple[int, int, Node]] = []
        self.captured: dict[Edge, Any] = {}
        self.sole_gradients: set[Node] = set()  # leaves whose gradient nobody else has
        self.evaluator = _local.evaluators[-1]
        self.is_plain = type(self.evaluator) is Evaluator  # nobody records what the walk computes
        self.tickets = count(1)
        self.notes: dict[Any, Any] = {}  # what hooks remember during this call
        self.asked: dict[Node, list[Edge]] = {}  # the wanted edges of each node
        for edge in wanted or ():
            self.asked.setdefault(edge[0], []).append(edge)
        # the nodes that have a turn, and how many edges have still to be followed to each; which of them have to run,
        # where not all do
        self.dependencies: dict[Node, int]
        self.needed: set[Node] | None = None
        self.reached: Collection[Node] | None = None  # the nodes that it comes to, once somebody asks
        self.leading: dict[Edge, bool] = {}  # of edges to nodes that stand for many: whether what is wanted is behind
        nodes = [n for n, _ in roots]
        if wanted is None:
            self.dependencies = count_dependencies(nodes, border)
        else:
            self.needed = set()
            self.dependencies, self.needed = between(nodes, self)
        self.runs_all = self.is_plain and wanted is None

    def with_evaluator(self, evaluator: Evaluator) -> Walk:
        """The same backward call, not begun yet, as another evaluator runs it; nodes keep what they saved."""
        walk = copy(self)
        walk.evaluator, walk.is_plain, walk.runs_all, walk.keep = evaluator, False, False, True
        walk.dependencies, walk.tickets = dict(self.dependencies), count(1)
        walk.buffers, walk.queue, walk.captured, walk.sole_gradients, walk.notes = {}, [], {}, set(), {}
        return walk

    def reaches(self, edge: Edge) -> bool:
        """Whether this call computes the gradient that flows into an edge: hooks of others hear nothing."""
        node, index = edge
        return node in self.dependencies and node.is_met(index, self)

    def runs(self, node: Node) -> bool:
        """Whether a node runs: not where what flows into it is all that is wanted. (backward() runs the nodes of its
        inputs.)"""
        return self.needed is None or node in self.needed or (self.accumulate and node in self.asked)

    def run(self) -> tuple[Any, ...]:
        for (node, index), seed in zip(self.roots, self.seeds, strict=False):
            metadata = node.metadata_of_inputs[index] if index < len(node.metadata_of_inputs) else None
            self._deliver(node, index, self.evaluator.seed(node, index, seed, metadata))
        for node in dict.fromkeys(edge[0] for edge in self.roots if edge not in self.border):
            if self.dependencies.get(node) == 0:
                self._push(node)
        step = self._step if observers.steps is None else observers.steps(self._step)
        self.evaluator.walk(self._take_steps, step, self.roots, self.wanted)
        for edge, gradient in self.captured.items():
            self.captured[edge] = self.evaluator.handed_out(gradient)
        if self.wanted is None or self.accumulate:
            return ()
        return tuple(self.captured.get(edge) for edge in self.wanted)

    def _take_steps(self, step: Step) -> None:
        """A step for each node, the latest that is ready first."""
        queue = self.queue
        while queue:
            current: Node | None = heappop(queue)[2]
            while current is not None:
                current = step(current)

    def _push(self, node: Node) -> None:
        heappush(self.queue, (-node.sequence, next(self.tickets), node))

    def _deliver(self, node: Node, index: int, gradient: Any) -> None:
        """Add a gradient to those that wait for a node, or that have arrived at the border."""
        if self.border and (node, index) in self.border:
            present = self.captured.get((node, index))
            self.captured[node, index] = gradient if present is None else self.evaluator.add(present, gradient)
            return
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * max(len(node.metadata_of_inputs), index + 1)
        present = buffer[index]
        if present is None:
            buffer[index] = gradient
            return
        buffer[index] = self.evaluator.add(present, gradient)
        if type(node) is AccumulateGrad:
            self.sole_gradients.add(node)

    def _step(self, node: Node) -> Node | None:
        """Run a node and hand on what it gives; the node whose turn is next, where that is known."""
        buffers, border, dependencies, queue = self.buffers, self.border, self.dependencies, self.queue
        grads, edges = buffers.pop(node, None) or [None] * max(1, len(node.metadata_of_inputs)), node.edges
        hooked, is_part = node.hook_tables is not None, self.needed is not None
        if self.runs_all and not hooked and edges and grads[0] is not None and not anomaly.enabled:
            formula = node.formula  # (what _compute does, where there is nothing to ask)
            out = node.apply(tuple(grads), present(edges) if formula is None else formula.needs)
            if len(out) != len(edges):
                raise wrong_count(node, out)
            if not self.keep and node.inner not in dependencies:
                node.release()
        else:
            out, edges = self._compute(node, grads)  # (hooks may have cut the node)
        following: Node | None = None
        for i, edge in enumerate(edges):
            if edge is None:
                continue
            target, index = edge
            gradient = out[i]
            if gradient is not None:
                inputs = target.metadata_of_inputs
                metadata = inputs[index] if index < len(inputs) else None
                if metadata is not None and not (
                    self.is_plain and type(gradient) is Tensor
                    and gradient._data.dtype is metadata.dtype.numpy  # (no other payload has NumPy's)
                    and gradient._data.shape == metadata.dims
                ):
                    gradient = self.evaluator.validate(node, i, gradient, metadata)
                if is_part and target not in dependencies and edge not in border:
                    continue
                if border or target in buffers or len(inputs) != 1:
                    self._deliver(target, index, gradient)
                else:
                    buffers[target] = [gradient]
                    makes = type(target) is AccumulateGrad and node.makes_gradients and not hooked and self.is_plain
                    if makes and is_owned(gradient, i, out, grads):  # (it may be taken: nobody else has it)
                        self.sole_gradients.add(target)
            if (border and edge in border) or (is_part and target not in dependencies):
                continue  # (nothing behind it is wanted)
            left = dependencies[target] = dependencies[target] - 1
            if not left:
                if following is not None:
                    self._push(following)
                following = target
        if following is None or not queue or -following.sequence < queue[0][0]:
            return following
        heappush(queue, (-following.sequence, next(self.tickets), following))
        return None

    def _compute(self, node: Node, grads: list[Any]) -> tuple[tuple[Any, ...], tuple[Edge | None, ...]]:
        """The node's gradients, none when it does not run (only captured, or nothing flows in), and its edges."""
        evaluator, hooked = self.evaluator, node.hook_tables is not None or not self.is_plain
        if grads[0] is None and all([g is None for g in grads]) and not self._comes_to(node):
            return (None,) * len(node.edges), node.edges
        if hooked:
            evaluator.tensor_hooks(node, grads, self)
        if self.needed is not None:
            for edge in self.asked.get(node, ()):
                self.captured[edge] = grads[edge[1]] if edge[1] < len(grads) else None
            if not self.runs(node):
                return (None,) * len(node.edges), node.edges
        if hooked:
            evaluator.pre_hooks(node, grads)
        edges = node.edges
        if grads[0] is None and all([g is None for g in grads]) and not runs_on_nothing(node):
            self._let_go(node)
            return evaluator.run_on_nothing(node, grads), edges
        if type(node) is AccumulateGrad and self.is_plain:
            if node in self.sole_gradients and not node.has_hooks:
                return node.take(grads[0]), edges
            if nobody_else_has(grads, 0):
                out = node.take(grads[0])
                return evaluator.post_hooks(node, out, tuple(grads)) if hooked else out, edges
        needs = present(edges) if self.needed is None else tuple([e is not None and self.leads_on(e) for e in edges])
        if anomaly.enabled and evaluator.computes:
            out = self._watched(node, tuple(grads), needs)
        elif self.is_plain:
            out = node.apply(tuple(grads), needs)
        else:
            out = evaluator.run(node, tuple(grads), needs)
        if len(out) != len(edges):
            raise wrong_count(node, out)
        if hooked:
            out = evaluator.post_hooks(node, out, tuple(grads))
        self._let_go(node)
        return out, edges

    def _comes_to(self, node: Node) -> bool:
        """Whether a way leads to a node that nothing flows into, and not only past a node that stands for many."""
        if self.reached is None:
            is_passed = any([n.stands_for_many for n in self.dependencies])
            self.reached = nodes_behind(self.roots) if is_passed else self.dependencies
        return node in self.reached or node.stands_for_many

    def _let_go(self, node: Node) -> None:
        """The node has run. (A write's node that CopySlices ran may have a turn of its own still, at order two.)"""
        if not self.keep and node.inner not in self.dependencies:
            node.release()

    def _watched(self, node: Node, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The node's gradients in anomaly mode."""
        try:
            with evaluating(node):
                out = self.evaluator.run(node, grads, needs)
        except Exception as error:
            describe_failure(node, error)
            raise
        if anomaly.check_nan and len(out) == len(node.edges):
            check_nan(node, out)
        return out

    def leads_on(self, edge: Edge) -> bool:
        """Whether a gradient along an edge is wanted."""
        assert self.needed is not None
        return (edge[0] in self.needed and self.leads(edge)) or edge in self.asked.get(edge[0], ())

    def leads(self, edge: Edge) -> bool:
        """Whether a node that has to run has to for this edge."""
        node, index = edge
        if not node.stands_for_many:
            return True
        if edge not in self.leading:
            self.leading[edge] = node.leads(index, self)
        return self.leading[edge]
