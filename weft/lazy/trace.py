"""The trace of a device: the calls that wait, in order, matched against earlier traces while it grows.

A state stands for everything that was called since the last cut, but for sizes and numbers. The state after a call
is looked up by the state before it and the call's structure: so a step that was seen before is recognised while it is
traced, without a graph being built or hashed, and the last state knows the programs that were made for it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np

import weft.lazy.metrics as metrics
from weft.lazy.recorded import Recorded
from weft.lazy.values import Deferred, Node, computed
from weft.ops.op import Op
from weft.support.errors import WeftError
from weft.support.locations import Mark, is_internal
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

MOST_STATES = 1 << 18  # then all are forgotten: what comes is traced as if for the first time
INDEX_BITS = 32  # of a call's results, in the number that names a result
LONGEST = 1 << 14  # calls that may wait; then they are run


class NoValue(WeftError):
    """An operator answers with something that no program brings: a number of Python's, or sizes that hang on values."""


class Drawn(int):
    """An integer that is another one at every call: a generator's key, or how far it has been used."""

    def __add__(self, other: int) -> Drawn:
        return Drawn(int(self) + other)


class State:
    """What was called since the cut. after: the state that follows, by the structure of the call. programs: for what is
    wanted of the trace, the programs that give it. backwards: the graphs of backward calls that were made here; None
    before the first one, () where the engine makes them.
    """

    __slots__ = ("after", "backwards", "code", "depth", "known", "programs", "same", "types")

    def __init__(self) -> None:
        self.after: dict[Any, State] = {}
        self.programs: dict[Any, Any] = {}
        self.backwards: Any = None
        # of the call that led here: arguments as its type rule saw them last, and what it said
        self.known: list[Any] | None = None
        self.types: tuple[TensorType, ...] = ()
        self.same: int | None = None  # the argument that its result is
        self.code: CodeType | None = None  # of the user, and how many frames lay above it
        self.depth = 0

    def mark(self, depth: int) -> Mark | None:
        """The user's line that made the call: where it was the last time, unless other code stands there."""
        try:
            frame = sys._getframe(self.depth + depth)
        except ValueError:
            frame = None
        if frame is not None and frame.f_code is self.code:
            return self.code, frame.f_lasti
        self.code, self.depth, frame = None, 0, sys._getframe(depth)
        while frame is not None:
            if not is_internal(frame.f_code.co_filename):
                self.code = frame.f_code
                return self.code, frame.f_lasti
            self.depth += 1
            frame = frame.f_back
        return None


class Trace:
    """The calls of one device that wait. `lock` is held while it grows and while it is cut.

    storages: who may hold a value that waits, by identity. inputs: values with bytes that the calls read, in order of
    their first use.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.root = State()
        self.state = self.root
        self.made = 0  # states that there are
        self.epoch = 0
        self.nodes: list[Node] = []
        self.inputs: list[Deferred] = []
        self.turns: dict[int, int] = {}  # of the inputs, by identity
        self.storages: dict[int, ref[Any]] = {}

    def count(self, op: Op) -> None:
        """One more call of an operator."""
        metrics.count_call(op)

    # ---- growing
    def call(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What a rule's operator call does: it waits. An operator without a type rule of its own is opened at once."""
        if op.type is None and op.view is None and op.decompose is not None:
            return op.decompose(*args)
        out = self.record(op, args)
        return out[0] if len(out) == 1 and not op.schema.returns_list else out

    def record(self, op: Op, args: tuple[Any, ...]) -> tuple[Deferred, ...]:
        """Append a call. Its type rule speaks first. Raises what that raises."""
        with self.lock:
            return self._record(op, args)

    def _record(self, op: Op, args: tuple[Any, ...]) -> tuple[Deferred, ...]:
        numbers: list[Any] = []
        held: list[Any] = []
        key: list[Any] = [op]
        seen: list[Any] = []
        known, before = len(self.inputs), len(self.nodes)
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
            elif (kind is int or kind is float) and op.specialize is None:
                numbers.append(a)
                held.append(a)
                key.append(kind)
                seen.append(a)
            else:
                value, part = self._operand(a, numbers, op.specialize is not None and decides(op, i, a))
                held.append(value)
                key.append(part)
                seen.append(_types(value))
        operands, structure = tuple(held), tuple(key)
        self.count(op)
        state = self.state.after.get(structure)
        if state is None:
            state = self._new_state(structure)
        if state.known != seen:
            try:
                state.types = result_types(op, tuple(seen))
            except Exception:
                self._not_read(known, before)
                raise
            state.known = seen
            state.same = None if op.identity is None else _same_as(op, seen, state.types)
        if state.same is not None:  # a value is never written: what a call gives back as it is needs no call
            self._not_read(known, before)
            return (operands[state.same],)
        node = Node(op, operands, tuple(numbers), state.types, state.mark(2))
        self._append(node, state)
        if len(state.types) == 1:
            return (Deferred(self, state.types[0], node, 0),)
        return tuple([Deferred(self, kind, node, i) for i, kind in enumerate(state.types)])

    def _not_read(self, known: int, before: int) -> None:
        """A call that is not appended has named inputs: whoever reads them first says what they are. Those that calls
        read which were appended meanwhile (they had been cut off) stay.
        """
        read = {id(v) for node in self.nodes[before:] for v in values_in(node.args)}
        for value in self.inputs[known:]:
            if id(value) not in read:
                del self.turns[id(value)]
        if not read:
            del self.inputs[known:]

    def replay(
        self, rule: Recorded, operands: tuple[Deferred, ...], numbers: tuple[Any, ...]
    ) -> tuple[Deferred, ...]:
        """Append the calls of a recorded rule: the results that leave it."""
        with self.lock:
            structure = (rule.structure, *map(self._place, operands))
            metrics.count_rule(rule)
            state = self.state.after.get(structure) or self._new_state(structure)
            node = Node(rule, operands, numbers, rule.types, state.mark(3))
            self._append(node, state)
            return tuple([Deferred(self, kind, node, i) for i, kind in enumerate(rule.types)])

    def _append(self, node: Node, state: State) -> None:
        node.position, node.epoch = len(self.nodes), self.epoch
        self.nodes.append(node)
        self.state = state

    def _new_state(self, structure: Any) -> State:
        if self.made >= MOST_STATES:
            self.forget()
        self.made += 1
        made = self.state.after[structure] = State()
        return made

    def forget(self) -> None:
        """Forget what was traced before."""
        self.root.after.clear()
        self.root.programs.clear()
        self.made = 0

    def _place(self, value: Deferred) -> Any:
        """How a structure names a value: by the call that gives it, or by its turn among the inputs."""
        node = value.node
        if node is None:
            turn = self.turns.get(id(value))
            if turn is None:
                turn = self.turns[id(value)] = len(self.inputs)
                self.inputs.append(value)
                return (turn, value.type_.dtype, value.type_.ndim)
            return -1 - turn
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
        key: list[Any] = [node.op]
        for i, a in enumerate(node.args):
            key.append(self._place(a) if type(a) is Deferred else self._operand(a, numbers, decides(node.op, i, a))[1])
        structure = tuple(key)
        self._append(node, self.state.after.get(structure) or self._new_state(structure))

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
        if isinstance(a, (np.integer, np.floating, np.bool_)):
            return self._operand(a.item(), numbers, is_fixed)
        if isinstance(a, int):
            return self._operand(int(a), numbers, is_fixed)
        if isinstance(a, float):
            return self._operand(float(a), numbers, is_fixed)
        return a, a

    # ---- who holds values
    def hold(self, storage: Any) -> None:
        """A storage whose value waits: it is wanted at the next cut if it is still there."""
        self.storages[id(storage)] = ref(storage)

    def waiting(self) -> list[Any]:
        """The storages that are there and whose value waits."""
        found = [r() for r in self.storages.values()]
        return [s for s in found if s is not None and s.is_waiting()]

    # ---- being cut
    def restart(self) -> None:
        """Begin anew, with the calls that are still waited for."""
        waiting = self.waiting()
        self.epoch += 1
        self.nodes, self.inputs, self.state = [], [], self.root
        self.turns = {}
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


def _same_as(op: Op, seen: list[Any], types: tuple[TensorType, ...]) -> int | None:
    """The argument that a call gives back as it is."""
    assert op.identity is not None
    at: int | None = op.identity(*seen)
    return at if at is not None and len(types) == 1 and seen[at] is types[0] else None


def decides(op: Op, i: int, a: Any) -> bool:
    """Whether an argument's value decides what is computed: then it belongs to the structure of the call."""
    return any(question(a) for position, question in op.specialized_positions if position == i)


def values_in(args: Iterable[Any]) -> list[Deferred]:
    """The deferred values among arguments, those in tuples included."""
    found: list[Deferred] = []
    for a in args:
        if type(a) is Deferred:
            found.append(a)
        elif type(a) is tuple:
            found.extend(values_in(a))
    return found


def result_types(op: Op, seen: tuple[Any, ...]) -> tuple[TensorType, ...]:
    """The types of a call's results, by its entry's rule or a view's geometry. Raises NoValue."""
    if op.type is not None:
        found = op.type(*seen)
    else:
        from weft.ir.structure import view_type  # the geometry of a view gives its type

        found = view_type(op, seen)
    types = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    for kind in types:
        if not isinstance(kind, TensorType) or not kind.is_complete or any(type(d) is not int for d in kind.shape):
            raise NoValue(f"{op.base}: its result is known when it has run")
    return types


def _types(a: Any) -> Any:
    if type(a) is Deferred:
        return a.type_
    return tuple([_types(v) for v in a]) if type(a) is tuple else a


def needed_for(nodes: Sequence[Node], wanted: Iterable[Deferred]) -> list[int]:
    """The positions of the calls that these values wait for, in order."""
    needed = {v.node.position for v in wanted if v.node is not None}
    for position in range(len(nodes) - 1, -1, -1):
        if position in needed:
            needed.update([v.node.position for v in values_in(nodes[position].args) if v.node is not None])
    return sorted(needed)
