"""Which operands had another history than their value when a node was recorded. A graph knows values. A value may be
seen with its history and without (detach, no_grad), and a tensor that was written under no_grad, or through a tensor
without its history, has the history of what it was before: where the graph is computed again to be differentiated, no
gradient may flow through the former, and that of the latter flows into the earlier value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.node import Edge, OpNode
from weft.autograd.node import Node as HistoryNode
from weft.autograd.record import gradient_edge
from weft.ir.graph import Block, Node, Operand, Value, map_operand
from weft.passes.stop_gradients import FunctionCall, Notes, OutputOf, Without, hooked
from weft.record.symbolic import SymbolicPayload
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor


class Histories:
    """of: for the nodes whose calls had a history, and for calls of backward nodes, which operands had none, or that of
    an earlier value; for blocks of such nodes, which results.

    given: the values that nodes of autograd are the history of. functions: the calls of what has a rule of its own;
    arrived: what came to those in the step that is recorded, where hooks changed it. givers: which node gave a value
    first; others: the nodes that gave it again (equal calls are one value), each as a call whose hooks are its own.

    before: of a leaf, an argument or a view what would be noted of an operand that shows it; value_of: the value that
    it shows. made: while formulas run that record no nodes of autograd, the storages of the gradients that they are
    given, and of all that is made since; in_grad_mode: whether what no_grad() is around in them has no history.
    is_detached: whether a tensor was made by detaching another. is_argument: whether it stands for an argument.
    """

    def __init__(self, current: Callable[[], Mapping[Value, Operand]]) -> None:
        """current: in the backward of a block, what stands for the values of the forward one."""
        self._current = current
        self.of: dict[Node | Block | Value, Without] = {}
        self.given: dict[HistoryNode, tuple[Value | None, ...]] = {}
        self.functions: dict[HistoryNode, FunctionCall] = {}
        self.arrived: dict[HistoryNode, tuple[Operand, ...]] = {}
        self.givers: dict[Value, HistoryNode] = {}
        self.others: dict[HistoryNode, FunctionCall] = {}
        self.before: Callable[[Tensor], Value | OutputOf | bool] = lambda tensor: False
        self.value_of: Callable[[Tensor], Value] = lambda tensor: tensor._data.read()
        self._views: dict[HistoryNode, tuple[tuple[Any, int], ...]] = {}
        self._views_of_calls: set[HistoryNode] = set()
        self.made: set[Any] | None = None
        self.in_grad_mode = False
        self._walked: set[Any] = set()
        self._shown: dict[Any, Any] = {}
        self.is_detached: Callable[[Tensor], bool] = lambda tensor: False
        self.is_argument: Callable[[Tensor], bool] = lambda tensor: False
        self._expected: tuple[Any, list[Any]] | None = None

    def expect(self, args: tuple[Any, ...], node: OpNode) -> None:
        """A call with a history is about to be recorded: its arguments, and its node of autograd."""
        edges: list[Any] = [_NOT_ASKED] * len(args)
        at = 0
        for position, count in zip(node.plan.differentiable, node.argument_counts, strict=False):
            own_edges = node.edges[at : at + count]
            at += count
            argument = args[position]
            if type(argument) is tuple:
                edges[position] = own_edges
            elif isinstance(argument, Tensor):
                edges[position] = own_edges[0]
        self._expected = (args, edges)

    def expected(self, args: tuple[Any, ...], operands: tuple[Operand, ...]) -> Without | None:
        """What is to be noted of the call with these arguments, if it is the one."""
        expected, self._expected = self._expected, None
        if expected is None or expected[0] is not args:
            return None if self.made is None else tuple(map(self.of_formula, args, operands))
        return tuple([
            False if edge is _NOT_ASKED
            else tuple(map(self._without, argument, edge, now)) if type(argument) is tuple
            else self._without(argument, edge, now)
            for argument, edge, now in zip(args, expected[1], operands, strict=True)
        ])

    def note_given(self, tensor: Tensor, value: Value) -> None:
        """The history that a tensor has now is that of this value."""
        state = tensor._autograd
        if state is not None and state.node is not None:
            node = state.node
            self._note(node, state.index, value)
            if self.givers.setdefault(value, node) is not node and state.index == 0 and len(self.given[node]) == 1:
                self.others[node] = FunctionCall((value,), ((value, False),), is_repeated=True)

    def note_views(self, node: OpNode, views: Sequence[Tensor]) -> None:
        """These views have this history."""
        self._views[node] = tuple([(x._data, x._version) for x in views])

    def own_history(self, edge: Edge) -> Value | OutputOf | bool:
        """The history that an edge leads to, where others of the same value may have another one: that of what a custom
        Function gave, or of a view of it."""
        node, index = edge
        call = self.functions.get(node) or self._call_of_hooked_view(node)
        if call is not None:
            return OutputOf(call, index)
        return node in self._views_of_calls and (self.given[node][index] or False)

    def _call_of_hooked_view(self, node: HistoryNode) -> FunctionCall | None:
        """A view that hooks are on, as a call: another view of its value does not pass these hooks."""
        if node in self._views and node.hook_tables is not None and node not in self.others:
            values = self._values_of(node)
            ends = tuple([None if v is None else (v, False) for v in values])
            self.others[node] = FunctionCall(values, ends, is_repeated=True)
        return self.others.get(node)

    def note_views_of_call(self, node: OpNode, values: Sequence[Value]) -> None:
        """Views have the history of these values, and show others."""
        self._views_of_calls.add(node)
        self.given[node] = tuple(values)

    def _values_of(self, node: HistoryNode) -> tuple[Value | None, ...]:
        """The values that a node is the history of, those of views that nobody has read among them."""
        values = self.given.get(node)
        if values is None and node in self._views:
            values = self.given[node] = tuple([
                data.read() if data.storage.version == version else None for data, version in self._views[node]
            ])
        return values or ()

    def note_function(
        self, node: HistoryNode, inputs: Sequence[tuple[Any, Value]], outputs: Sequence[Value | None]
    ) -> None:
        """A custom Function was called. inputs: for each edge the tensor that it leads to, and its value."""
        seen = [
            None if edge is None else (now, self._without(tensor, edge, now))
            for (tensor, now), edge in zip(inputs, node.edges, strict=True)
        ]
        self.functions[node] = FunctionCall(tuple(outputs), tuple(seen))

    def note_rule(self, node: HistoryNode, grads: Sequence[Operand], gradients: Sequence[Operand]) -> None:
        """The backward of a custom Function ran: what it was given, and what it gave for each edge."""
        call = self.functions.get(node)
        if call is not None:
            call.note_rule(self.arrived.pop(node, tuple(grads)), gradients)

    def arrivals(self, node: HistoryNode) -> tuple[Operand, ...]:
        """The gradients that came to the node of what has a rule of its own, if a walk came to it."""
        call = self.functions.get(node)
        return () if call is None else call.grads

    def note_hooked(self, node: HistoryNode, before: Sequence[Operand], after: Sequence[Operand]) -> None:
        """Hooks of a node before it runs, or of tensors that it gave, put other gradients in the place of those that
        arrived. (Hooks of tensors run first: they are the last that the value passes.)"""
        if node in self.functions or node in self.others:
            self.arrived.setdefault(node, tuple(before))
            if node in self.others:
                self.others[node].note_rule(self.arrived[node], after)
            return
        for value, was, now in zip(self._values_of(node), before, after, strict=False):
            if value is not None and was is not now and type(was) is Value and type(now) is Value:
                self.of[value] = (*hooked(value, was, now), *self.of.get(value, ()))

    def note_hooked_step(self, node: HistoryNode, grads: Sequence[Operand], gradients: Sequence[Operand]) -> None:
        """Hooks of a node after it ran put other gradients in the place of those that it gave for its edges: the step
        as a whole is the rule for what it made."""
        call = self.functions.get(node)
        if call is not None:
            other: HistoryNode | None = getattr(node, "waits_for", None)
            call.note_rule(call.grads, gradients)
            call.after = None if other is None else self.functions.get(other)
            return
        outputs = self._values_of(node)
        inputs = tuple([None if edge is None else self._at(edge) for edge in node.edges])
        if node in self.others:
            call = self.others[node]
            call.inputs = inputs
            call.note_rule(self.arrived.get(node, tuple(grads)), gradients)
            return
        call = FunctionCall(outputs, inputs)
        call.note_rule(grads, gradients)
        for index, value in enumerate(outputs):
            if value is not None:
                self.of[value] = (OutputOf(call, index), *self.of.get(value, ()))

    def _at(self, edge: Edge) -> tuple[Value, Any] | None:
        """The value that the gradient of an edge is of, with what is noted of it; None where it is not known."""
        node, index = edge
        call, values = self.functions.get(node) or self.others.get(node), self._values_of(node)
        if call is not None:
            value = call.outputs[index]
            return None if value is None else (value, OutputOf(call, index))
        if index < len(values) and (value := values[index]) is not None:
            return value, False
        leaf = node.variable if isinstance(node, AccumulateGrad) else None
        begun = False if leaf is None else self.before(leaf) or self.value_of(leaf)
        return (begun, False) if type(begun) is Value else None

    def _note(self, node: HistoryNode, at: int, value: Value) -> None:
        values = self.given.get(node, ())
        self.given[node] = (*values[:at], *(None,) * (at - len(values)), value, *values[at + 1 :])

    def taken(self) -> Notes:
        """What was noted, which is kept here no longer."""
        unhooked = {call for call in self.others.values() if not call.grads and self.of.keys().isdisjoint(call.outputs)}
        notes = {at: _without_calls(note, unhooked) for at, note in self.of.items()} if unhooked else self.of
        self.of, self.given, self.functions, self.givers, self.others = {}, {}, {}, {}, {}
        self._views, self._views_of_calls = {}, set()
        return notes

    def note_saved(self, node: Node, saved: Sequence[Any]) -> None:
        """Note of the call of a backward node what it was given of the forward."""
        self.of[node] = (False, False, self.lacking(saved, node.args[2]))

    def note_loop(self, node: Node, carried: Sequence[Any], xs: Sequence[Any], results: Without) -> None:
        """Note of a loop with a history what it carries, what it goes over, and what of a step's results had none."""
        self.of[node] = (False, False, self.lacking(carried, node.args[2]), self.lacking(xs, node.args[3]), False)
        self.of[node.blocks[0]] = results

    def note_copy(self, copy: Node | Block, of: Node | Block, values: dict[Value, Operand]) -> None:
        """What is made once more, with others for some values, had the same operands with a history."""
        if of in self.of:
            self.of[copy] = map_operand(self.of[of], values)

    def lacking(self, values: Sequence[Any], operands: Any) -> Without:
        """Which of some values are tensors that have no history where they could have one, or that of other values."""
        return tuple([
            isinstance(v, Tensor) and v.dtype.is_differentiable
            and self._without(v, gradient_edge(v) if v.requires_grad else None, now)
            for v, now in zip(values, operands, strict=True)
        ])

    @contextmanager
    def walk(self) -> Iterator[None]:
        """Within the block gradients are made by one walk: what hooks keep of it has a history for hooks that run
        later."""
        before = self.arrived, self._walked, self._shown
        self.arrived, self._walked, self._shown = {}, set(), {}
        try:
            yield
        finally:
            self.arrived, self._walked, self._shown = before

    @contextmanager
    def of_formulas(self, grads: Sequence[Any]) -> Iterator[None]:
        """Within the block formulas compute with gradients: what else they read may have no history."""
        before = self.made, self.in_grad_mode
        self._walked.update(g._storage for g in grads if isinstance(g, Tensor))
        self.made, self.in_grad_mode = self._walked, modes.grad is not False
        try:
            yield
        finally:
            self.made, self.in_grad_mode = before

    def note_made(self, storage: Any) -> None:
        """A formula computed what lies in this storage."""
        if self.made is not None and (modes.grad is not False or not self.in_grad_mode):
            self.made.add(storage)

    def note_views_of_formula(self, views: Sequence[Tensor], notes: Sequence[Value | bool]) -> None:
        """A formula took these views, for which this is to be noted."""
        self._shown.update(zip([x._view for x in views], notes, strict=True))

    def of_formula(self, operand: Any, now: Operand) -> Any:
        """What is to be noted of an operand of a formula that records no nodes of autograd."""
        if type(operand) is tuple:
            return tuple(map(self.of_formula, operand, now))
        if not isinstance(operand, Tensor) or not operand.dtype.is_differentiable:
            return False
        if operand._storage in (self.made or ()) and not self.is_detached(operand):
            return False
        if operand._view in self._shown:
            return self._shown[operand._view]
        return self._without(operand, gradient_edge(operand) if operand.requires_grad else None, now)

    def behind(self, tensor: Tensor) -> Value | OutputOf | bool:
        """The value that a tensor's history is of; True for a leaf that the function made, False where it is not known.
        """
        edge = gradient_edge(tensor)
        return edge is not None and self._behind(tensor, edge)

    def of_base(self, view: Tensor) -> Value | OutputOf | bool:
        """What would be noted of an operand that is a view's base: a write to the view leaves the rest as it is."""
        base = None if view._view is None else view._view.base
        if base is None or not isinstance(base._data, SymbolicPayload) or base._data.path:
            return False
        now = base._data.storage.value
        is_made_of_nothing = now.node is not None and not any(True for _ in now.node.needs())
        value = self._without(base, gradient_edge(base), now)
        return False if value is True and is_made_of_nothing else value

    def _without(self, operand: Any, edge: Edge | None, now: Operand) -> Any:
        """True for a tensor without a history; the value that its history is of where that is another one."""
        if edge is None:
            return True
        values = self.given.get(edge[0], ())
        if edge[1] < len(values) and values[edge[1]] is now and not self._current() and (
            edge[0] not in self.functions and edge[0] not in self.others
        ):
            return False  # as most are
        then = self._behind(operand, edge)
        if type(then) is OutputOf:
            return then
        is_shown = operand._view is not None or self.is_argument(operand)
        if is_shown and type(now) is Value and type(edge[0]) is not AccumulateGrad:
            # what is saved of a view, or of an argument, is neither
            self._note(*edge, then if type(then) is Value else now)
        if type(then) is Value:
            then = self._current().get(then, then)
        return then is not now and then

    def _behind(self, tensor: Any, edge: Edge) -> Value | OutputOf | bool:
        call = self.functions.get(edge[0]) or self._call_of_hooked_view(edge[0])
        if call is not None:
            return OutputOf(call, edge[1])
        values = self.given.get(edge[0], ())
        value = values[edge[1]] if edge[1] < len(values) else None
        if value is not None:
            return value
        if isinstance(edge[0], AccumulateGrad):
            return self._behind_leaf(tensor, edge[0])
        return (tensor._view is not None or self.is_argument(tensor)) and self.before(tensor)

    def _behind_leaf(self, tensor: Tensor, node: AccumulateGrad) -> Value | OutputOf | bool:
        """The same for a leaf, and for what a hook or a checkpoint gave in its place."""
        leaf = node.variable
        if leaf is None or leaf is tensor:
            return self.before(tensor)
        return self.before(leaf) or self.value_of(leaf)


_NOT_ASKED = object()


def _without_calls(note: Any, calls: set[FunctionCall]) -> Any:
    """What was noted, without calls that turned out to have no rule of their own."""
    if type(note) is tuple:
        return tuple([_without_calls(n, calls) for n in note])
    return False if type(note) is OutputOf and note.call in calls else note
