"""The trace of a device: the calls that wait, in order, matched against earlier traces while it grows.

A state stands for everything that was called since the last cut, but for sizes and numbers. The state after a call
is looked up by the state before it and the call's structure: so a step that was seen before is recognised while it is
traced, without a graph being built or hashed, and the last state knows the programs that were made for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

import numpy as np

import weft.lazy.metrics as metrics
from weft.lazy.calls import (
    Drawn,
    NoValue,
    decides,
    is_symbolic,
    new_sizes,
    result_types,
    same_as,
    seen_types,
    sign_of,
    values_in,
)
from weft.lazy.recorded import Recorded
from weft.lazy.states import Point, State
from weft.lazy.values import Deferred, Node, SizeOf, computed
from weft.ops.op import Op
from weft.support import limits
from weft.support.locations import user_mark
from weft.types import shape_env
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType, get_default
from weft.types.sym import SymInt
from weft.types.tensor_type import TensorType
from weft.types.unbacked import SizeNeeded, UnbackedEnv, bare_size, settled, settled_type, tell, unknown_in

INDEX_BITS = 32  # of a call's results, in the number that names a result
ENOUGH = 512  # calls that wait are run when the line that made the first of them makes another one: a loop begins anew
LONGEST = 4 * ENOUGH  # or at last


def _nothing(values: Any, what: str) -> Any:
    raise NoValue(f"{what}: nothing is computed here")


class Trace:
    """The calls of one device that wait. `lock` is held while it grows and while it is cut.

    storages: who may hold a value that waits, by identity; what such a storage holds is wanted at the next cut. inputs:
    values with bytes that the calls read, in order of their first use.
    """

    finds_sizes = True  # whether results may have sizes that only the program finds

    def __init__(self, device: str) -> None:
        self.device = device
        self.compute: Callable[[Sequence[Deferred], str], Any] = _nothing  # how a device computes values
        self.bytes_of: Callable[[Deferred, str], Any] = _nothing
        self.sizes = UnbackedEnv(runs=False)  # what type rules ask
        self.deciders: dict[Any, Expr] = {}  # sizes by what alone decides them (Op.unbacked_from)
        self.lock = threading.RLock()
        self.roots: dict[DType, State] = {}  # by the default dtype, which results of calls hang on
        self.state = self.root()
        self.made = 0  # states that there are
        self.epoch = 0
        self.nodes: list[Node] = []
        self.inputs: list[Deferred] = []
        self.passed: list[Op] = []  # calls that gave back what they were given, and have no entry
        self.turns: dict[int, int] = {}  # of the inputs, by identity
        self.storages: dict[int, ref[Any]] = {}

    def point(self) -> Point:
        """Where it stands."""
        return Point(self.state, self.epoch, len(self.nodes), len(self.inputs), len(self.passed))

    def has_grown(self, since: Point) -> bool:
        """Whether there are more entries, and all that were there."""
        return self.epoch == since.epoch and len(self.nodes) > since.entries

    def count(self, op: Op) -> None:
        """One more call of an operator."""
        metrics.count_call(op)

    # ---- growing
    def is_long(self) -> bool:
        """Whether what waits is to be run before another call joins it: at the same place of a loop each time, so that
        one program serves a loop that ends no step.
        """
        count = len(self.nodes)
        return count >= ENOUGH and (count >= LONGEST or user_mark(2) == self.nodes[0].where)

    def call(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What a rule's operator call does: it waits. An operator without a type rule of its own is opened at once."""
        if op.type is None and op.view is None and op.decompose is not None:
            return op.decompose(*args)
        out = self.record(op, args)
        return out[0] if len(out) == 1 and not op.schema.returns_list else out

    def record(self, op: Op, args: tuple[Any, ...]) -> tuple[Deferred, ...]:
        """Append a call. Its type rule speaks first. Raises what that raises."""
        with self.lock:
            inputs_before, before = len(self.inputs), len(self.nodes)
            try:
                return self._record(op, args)
            except SizeNeeded as asked:
                self._not_read(inputs_before, before)
                if None in [size.value for size in asked.sizes]:  # it goes by sizes that it finds itself
                    raise NoValue(f"{op.base}: its result is known when it has run") from None
                needed = asked
            needed.find()
            return self.record(op, args)

    def _record(self, op: Op, args: tuple[Any, ...]) -> tuple[Deferred, ...]:
        numbers: list[Any] = []
        held: list[Any] = []
        key: list[Any] = [op]
        seen: list[Any] = []
        inputs_before, before, epoch = len(self.inputs), len(self.nodes), self.epoch
        for i, a in enumerate(args):
            kind = type(a)
            if kind is Deferred:
                node = a.node
                key.append(
                    node.position << INDEX_BITS | a.index if node is not None and node.epoch == self.epoch
                    else self._place(a)
                )
                held.append(a)
                seen.append(a.type_)
            elif a is None or kind is DType or kind is str:
                held.append(a)
                key.append(a)
                seen.append(a)
            elif (kind is float or (kind is int and not abs(a) >> 63)) and op.specialize is None:
                numbers.append(a)
                held.append(a)
                key.append(kind)
                seen.append(a)
            else:
                a = settled(a) if kind is Expr else settled(a.expr) if kind is SymInt else a
                is_fixed = (op.specialize is not None or kind is int) and decides(op, i, a)
                value, part = self._operand(a, numbers, is_fixed)
                held.append(value)
                key.append(part)
                seen.append(seen_types(value))
        operands, structure = tuple(held), tuple(key)
        after = self.state
        state = after.after.get(structure)
        if state is None:
            state = self._new_state(structure)
        if state.known != seen or state.finds:
            try:
                state.types = types = self._result_types(op, operands, tuple(seen))
                state.is_symbolic = any([kind.is_symbolic for kind in types])
                state.finds = state.is_symbolic and (new_sizes(op, types) or op.unbacked_from is not None)
            except Exception:
                self._not_read(inputs_before, before)
                raise
            state.known = seen
            state.same = None if op.identity is None else same_as(op, seen, state.types)
        self.count(op)
        if state.same is not None:  # a value is never written: what a call gives back as it is needs no call
            self._not_read(inputs_before, before)
            self.passed.append(op)
            return (operands[state.same],)
        node = Node(op, operands, tuple(numbers), state.types, state.mark(2))
        if not self._join(node, state, after, epoch):
            if self.epoch == epoch:
                self._not_read(inputs_before, before)
            return self._record(op, args)
        if state.is_symbolic:
            return self._symbolic(node)
        if len(state.types) == 1:
            return (Deferred(self, state.types[0], node, 0),)
        return tuple([Deferred(self, kind, node, i) for i, kind in enumerate(state.types)])

    def _result_types(self, op: Op, operands: tuple[Any, ...], seen: tuple[Any, ...]) -> tuple[TensorType, ...]:
        """What the type rule says. Sizes that the run finds are symbols."""
        if not self.finds_sizes:
            return result_types(op, seen)
        if op.unbacked_from is None and not is_symbolic(seen):
            with suppress(NoValue):  # some sizes are not known
                return result_types(op, seen)
        with shape_env.using(self.sizes):
            if op.unbacked_from is not None:
                names = op.unbacked_from(*operands)
                self.sizes.expected = [self.deciders.get(sign_of(name)) for name in names]
            try:
                return result_types(op, seen)
            finally:
                self.sizes.expected = []

    def _symbolic(self, node: Node) -> tuple[Deferred, ...]:
        """The results of a call some of whose sizes the run finds."""
        values = tuple([Deferred(self, kind, node, i) for i, kind in enumerate(node.types)])
        for value in values:
            tell(value, value.type_.shape)
            for axis, d in enumerate(value.type_.shape):
                size = bare_size(d)
                if size is not None and size.value is None:
                    size.value, size.axis = value, axis
        self._note_deciders(node)
        return values

    def _note_deciders(self, node: Node) -> None:
        if type(node.op) is not Op or node.op.unbacked_from is None:
            return
        with shape_env.using(self.sizes):
            names = node.op.unbacked_from(*node.args)
        sizes = [d for kind in node.types for d in kind.shape if type(d) is Expr and bare_size(d) is not None]
        if len(names) == len(sizes):
            self.deciders.update(zip(map(sign_of, names), sizes, strict=True))

    def _not_read(self, inputs_before: int, before: int) -> None:
        """A call that is not appended has named inputs: whoever reads them first says what they are. Those that calls
        read which were appended meanwhile (they had been cut off) stay.
        """
        read = {id(v) for node in self.nodes[before:] for v in values_in(node.args)}
        for value in self.inputs[inputs_before:]:
            if id(value) not in read:
                self.turns.pop(id(value), None)
        if not read:
            del self.inputs[inputs_before:]

    def replay(
        self, rule: Recorded, operands: tuple[Deferred, ...], numbers: tuple[Any, ...]
    ) -> tuple[Deferred, ...]:
        """Append the calls of a recorded rule: the results that leave it."""
        with self.lock:
            places: list[Any] = []
            epoch, slots, inputs = self.epoch, self.turns, self.inputs
            inputs_before, before = len(inputs), len(self.nodes)
            for value in operands:  # (as in _place)
                call = value.node
                if call is None:
                    slot = slots.get(id(value))
                    if slot is not None:
                        places.append(-1 - slot)
                        continue
                    slot = slots[id(value)] = len(inputs)
                    inputs.append(value)
                    places.append((slot,))  # (of a type that the rule knows)
                elif call.epoch == epoch:
                    places.append(call.position << INDEX_BITS | value.index)
                else:
                    places.append(self._place(value))
            metrics.count_rule(rule)
            after = self.state
            latest = after.replayed.get(rule)
            if latest is not None and latest[0] == places:
                state = latest[1]
            else:
                structure = (rule.structure, *places)
                state = after.after.get(structure) or self._new_state(structure)
                after.replayed = {**after.replayed, rule: (places, state)}
            node = Node(rule, operands, numbers, rule.types, state.mark(3))
            if not self._join(node, state, after, epoch):
                if self.epoch == epoch:
                    self._not_read(inputs_before, before)
                return self.replay(rule, operands, numbers)
            return tuple([Deferred(self, kind, node, i) for i, kind in enumerate(rule.types)])

    def _join(self, node: Node, state: State, before: State, epoch: int) -> bool:
        """Append a call behind a state, unless a finalizer or a signal handler has traced or cut since the trace was
        looked at. What follows the question is not interrupted, for it makes and calls nothing."""
        nodes, entries = self.nodes, (node,)
        node.position, node.epoch, node.state = len(nodes), epoch, state
        if self.state is not before or self.epoch != epoch or self.nodes is not nodes:
            return False
        nodes += entries
        self.state = state
        return True

    def _append(self, node: Node, state: State) -> None:
        node.position, node.epoch, node.state = len(self.nodes), self.epoch, state
        self.nodes.append(node)
        self.state = state

    def _new_state(self, structure: Any) -> State:
        if self.made >= limits.STATES_OF_A_TRACE:
            self.forget()
        self.made += 1
        state = self.state.after[structure] = State()
        return state

    def forget(self) -> None:
        """Forget what was traced before."""
        for root in self.roots.values():
            root.after.clear()
            root.programs.clear()
            root.inline.clear()
            root.met = root.replayed = {}
        self.made = 0

    def root(self) -> State:
        """What a trace begins with."""
        default = get_default()
        root = self.roots.get(default)
        if root is None:
            root = self.roots[default] = State()
        return root

    def _place(self, value: Deferred) -> Any:
        """How a structure names a value: by the call that gives it, or by its turn among the inputs."""
        node = value.node
        if node is None:
            slot = self.turns.get(id(value))
            if slot is None:
                slot = self.turns[id(value)] = len(self.inputs)
                self.inputs.append(value)
                return (slot, value.type_.dtype, value.type_.ndim)
            return -1 - slot
        if node.epoch != self.epoch:
            self._bring(node)
        return node.position << INDEX_BITS | value.index

    def _again(self, node: Node) -> None:
        """Append a call once more that was cut off, since nobody seemed to want its results."""
        if type(node.op) is Recorded:
            rule = (node.op.structure, *map(self._place, node.args))
            self._append(node, self.state.after.get(rule) or self._new_state(rule))
            return
        numbers: list[Any] = []
        both = []
        for i, a in enumerate(node.args):
            a = settled(a.expr) if type(a) is SizeOf else a
            both.append(self._operand(a, numbers, decides(node.op, i, a)))
        structure = (node.op, *[part for _, part in both])
        # sizes may have become numbers
        node.args, node.numbers = tuple([a for a, _ in both]), tuple(numbers)
        node.types = tuple(map(settled_type, node.types))
        self._append(node, self.state.after.get(structure) or self._new_state(structure))
        self._note_deciders(node)

    def _operand(self, a: Any, numbers: list[Any], is_fixed: bool) -> tuple[Any, Any]:
        """An argument as the trace keeps it, and what the structure of the call has in its place."""
        kind = type(a)
        if kind is Deferred:
            return a, self._place(a)
        if kind is tuple or kind is list:
            both = [self._operand(v, numbers, is_fixed) for v in a]
            return tuple([v for v, _ in both]), (kind is tuple, *[k for _, k in both])
        if kind is float or kind is int or kind is Drawn:
            if is_fixed:
                return a, (kind, repr(a))
            numbers.append(a)
            return a, kind
        if kind is bool or kind is complex:
            return a, (kind, repr(a))
        if kind is np.ndarray:
            value = computed(self, np.array(a, order="C"))
            return value, self._place(value)
        if a is None or kind is str or kind is DType:
            return a, a
        if kind is Expr or kind is SizeOf or kind is SymInt:
            return self._size(settled(a if kind is Expr else a.expr), numbers, is_fixed)
        if isinstance(a, (np.integer, np.floating, np.bool_)):
            return self._operand(a.item(), numbers, is_fixed)
        if isinstance(a, int):
            return self._operand(int(a), numbers, is_fixed)
        if isinstance(a, float):
            return self._operand(float(a), numbers, is_fixed)
        return a, a

    def _size(self, expr: Dim, numbers: list[Any], is_fixed: bool) -> tuple[Any, Any]:
        """A number that hangs on sizes which the program finds."""
        if type(expr) is not Expr or is_fixed:
            return self._operand(self.sizes.hint(expr), numbers, is_fixed)
        sources = sorted(
            [(self._place(size.value), size.axis, size) for size in unknown_in(expr)], key=lambda each: str(each[:2])
        )
        size = SizeOf(expr, tuple([(atom.key, atom.value, axis) for _, axis, atom in sources]))
        return size, (size.renamed(), tuple([(place, axis) for place, axis, _ in sources]))

    # ---- who holds values
    def waiting(self) -> list[Any]:
        """The storages that are there and whose value waits."""
        storages = [r() for r in self.storages.values()]
        return [s for s in storages if s is not None and (s.value.cell is None or s.is_waiting())]

    # ---- being cut
    def restart(self, waiting: Sequence[Any] | None = None) -> None:
        """Begin anew, with the calls that are still waited for. waiting: the storages that wait, if somebody knows."""
        if waiting is None:
            waiting = self.waiting()
        self.epoch += 1
        self.nodes, self.inputs, self.passed, self.state = [], [], [], self.root()
        self.turns = {}
        self.deciders = {}
        self.storages = {id(s): ref(s) for s in waiting}
        for storage in waiting:
            self.bring(storage.value)

    def bring(self, value: Deferred) -> None:
        """See that the calls that a value waits for are in the trace."""
        if value.node is not None and value.node.epoch != self.epoch:
            self._bring(value.node)

    def _bring(self, node: Node) -> None:
        """Append a call once more, behind those that it waits for. (Without recursion: chains are long.)"""
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [
                v.node for v in values_in(top.args) if v.node is not None and v.node.epoch != self.epoch
            ]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if top.epoch != self.epoch:
                self._again(top)
