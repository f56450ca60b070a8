"""Inner results: those of a program's results that others of its results are computed from, with history.

All results of a call have one node, whose program makes the gradients of the call's leaves from those of all results.
Nobody hears there what gradient an inner result gets from the others. Once somebody asks (a hook, retain_grad,
autograd.grad by it), the node is cut there, as often as somebody asks:

    users of z, users of y -> node -> (z, all of y) -> last node -> leaves

The first node then makes all of the gradient of y, and hands on what else comes in; the last one takes that in place of
what users of y alone would hand in. Both are parts of the backward program as it was recorded, compiled when they are
first run. What nobody asks for costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from weft.autograd.hooks import is_heard
from weft.autograd.node import Node
from weft.ir.graph import Block, Graph, Value
from weft.passes.dce import dce
from weft.passes.partition import Halves
from weft.passes.rebuild import with_values
from weft.passes.stop_gradients import Notes
from weft.programs.freed import Graphs, saving_down_to
from weft.programs.tensor_program import Gradients
from weft.support import limits
from weft.support.memo import Memo
from weft.tensor.tensor import Tensor, tensor_around


@dataclass(frozen=True, eq=False)
class InnerResult:
    """output: its number among the results that have a history; above: those that are computed from it; saving: for
    each result, the nodes of its graph down to this one that save something, as bits. value: in the graph; is_heard:
    whether hooks of the function's own change its gradient; is_returned: whether the caller has it, and not just views
    of it."""

    output: int
    above: frozenset[int]
    saving: tuple[int, ...]
    value: Value
    is_heard: bool
    is_returned: bool


def places_of_inner(outputs: Sequence[Tensor], graphs: Graphs) -> list[int]:
    """Which results others are computed from, or hooks of the function's own are on, the latest first."""
    nodes = [out._node for out in outputs]
    inner = [
        i for i, node in enumerate(nodes)
        if is_heard(outputs[i])
        or any(node in graph and node is not other for other, graph in zip(nodes, graphs, strict=True))
    ]
    return sorted(inner, key=lambda i: -nodes[i].sequence)


def inner_result(
    outputs: Sequence[Tensor], graphs: Graphs, bits: Mapping[Node, int], at: int, value: Value, is_returned: bool
) -> InnerResult:
    """What is noted of one. bits: of the nodes that save something; is_returned: whether the caller has it."""
    node = outputs[at]._node
    above = frozenset(
        i for i, (out, graph) in enumerate(zip(outputs, graphs, strict=True)) if node in graph and out._node is not node
    )
    return InnerResult(at, above, saving_down_to(node, graphs, bits), value, is_heard(outputs[at]), is_returned)


class Returned:
    """A result of a call, for as long as somebody has it. What has its state is the result: where the caller has it as
    one of a subclass, that is another object over its bytes."""

    def __init__(self, tensor: Tensor) -> None:
        storage = tensor.storage()
        self._state, self._bytes, self._storage = ref(tensor._state()), ref(tensor._data), ref(storage)
        self._version = storage.version

    def now(self, node: Node) -> Tensor | None:
        """The result, if somebody has it, and its bytes and its node are those of the call."""
        state, data, storage = self._state(), self._bytes(), self._storage()
        if state is None or data is None or storage is None:
            return None
        if state.node is not node or storage.version != self._version:
            return None
        tensor = tensor_around(data)
        tensor._storage, tensor._autograd = storage, state
        return tensor


@dataclass(eq=False)
class CutPrograms:
    """The programs of the parts of a backward that is cut at inner results.

    joint, halves: of the whole, whose last results are all of the gradients of inner results, in their order.
    """

    inner: Sequence[InnerResult]
    joint: Graph
    halves: Halves
    results: int
    tangents: int
    backend: str | None
    without: Notes
    has_users: bool

    def __post_init__(self) -> None:
        self._parts: Memo[tuple[tuple[int, ...], int | None], Gradients] = Memo(limits.GRADIENTS_OF_A_GRAPH)

    def part(self, before: tuple[int, ...], upto: int | None) -> Gradients:
        """What makes all of the gradient of one inner result (by number), or those of the leaves, from what comes in
        behind others."""
        key = (before, upto)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._make(before, upto)
        return part

    def _make(self, before: tuple[int, ...], upto: int | None) -> Gradients:
        if not self.inner:
            return Gradients(
                self.joint, self.results, self.tangents, self.halves, self.backend, self.without,
                has_users=self.has_users,
            )
        backward, count = self.halves.backward, len(self.inner)
        mine = self._chosen(backward.results, 0, upto)
        seeds = backward.params[len(backward.params) - self.tangents :]
        totals = backward.results[len(backward.results) - count :]
        places = {totals[i]: seeds[self.inner[i].output] for i in before if isinstance(totals[i], Value)}
        graph = Graph(backward.name, Block(backward.params, backward.nodes, mine), backward.env)
        halves = Halves(
            self.halves.forward, dce(with_values(graph, places)), self.halves.saved, self.halves.sizes
        )
        whole = self.joint.results
        block = Block(
            self.joint.params, self.joint.nodes, (*whole[: self.results], *self._chosen(whole, self.results, upto))
        )
        joint = Graph(self.joint.name, block, self.joint.env, self.joint.writes)
        ends = {whole[len(whole) - count + i]: self.inner[i].output for i in before}
        return Gradients(
            joint, self.results, self.tangents, halves, self.backend, self.without,
            tuple([one.value for one in self.inner]), {v: at for v, at in ends.items() if isinstance(v, Value)},
            self.has_users,
        )

    def _chosen(self, results: tuple[Any, ...], first: int, upto: int | None) -> tuple[Any, ...]:
        totals = len(results) - len(self.inner)
        return results[first:totals] if upto is None else (results[totals + upto],)
