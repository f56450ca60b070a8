"""Inline caches of optimizers' updates. There may be thousands of operands, so that they are asked about together,
a question at a time, and not by lines of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any
from weakref import ref

import weft.lazy.metrics as metrics
from weft.lazy.device import LazyDevice
from weft.lazy.inline.writer import Unfit, follows
from weft.lazy.payload import LazyPayload
from weft.lazy.recording import Replay
from weft.lazy.rules import SPECIAL
from weft.lazy.states import Point
from weft.lazy.trace import ENOUGH
from weft.lazy.values import Deferred, Node
from weft.tensor.tensor import Tensor

Args = tuple[Any, ...]
_CONSTANT = (int, bool, str, type(None))
new = object.__new__


class Update:
    """An update as it came behind a state, where the trace had so many inputs. Raises Unfit for one that has no cache.

    args: what its rule was called with, all rows one behind the other and what follows them.
    """

    def __init__(
        self, device: LazyDevice, at: Point, args: Args, replay: Replay
    ) -> None:
        trace = device.trace
        self.device, self.trace, self.before, self.known = device, trace, at.state, at.inputs
        self.calls, self.writes = replay.calls, replay.writes
        if at.entries >= ENOUGH or len(trace.nodes) != at.entries + 1 or not follows(trace, at):
            raise Unfit
        if replay.gives_operands or trace.nodes[-1].op is not replay.calls:
            raise Unfit
        self.position, self.after = at.entries, trace.state
        self.kinds = tuple(map(type, args))
        self.at = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.given = [i for i, a in enumerate(args) if type(a) is float and a not in SPECIAL]
        taken = {*self.at, *self.given}
        rest = [i for i in range(len(args)) if i not in taken]
        if any([type(args[i]) is not float and type(args[i]) not in _CONSTANT for i in rest]):
            raise Unfit
        self.zeros = [i for i in rest if type(args[i]) is float and not args[i]]
        if len(self.at) < 2 or not self.calls.used:
            raise Unfit
        self.rest, self.constants = rest, [args[i] for i in rest]
        self.signs = [repr(args[i]) for i in self.zeros]
        self.tensors = itemgetter(*self.at)
        self._operands([args[i] for i in self.at])

    def _operands(self, tensors: Sequence[Tensor]) -> None:
        """Where they come from. (What was written has its new value by now: the entry holds the one before.)"""
        payloads = [t._data for t in tensors]
        if any([type(p) is not LazyPayload or p.path or p.permuted is not False for p in payloads]):
            raise Unfit
        entry = self.trace.nodes[self.position]
        if set(self.calls.used) != set(range(len(tensors))):
            raise Unfit
        places = {j: i for i, j in enumerate(self.calls.used)}
        values: list[Deferred] = [entry.args[places[j]] for j in range(len(tensors))]
        self.used = itemgetter(*self.calls.used)
        self.types = [v.type_ for v in values]
        if any([kind.is_symbolic for kind in (*self.types, *self.calls.types)]):
            raise Unfit
        slots = [None if v.node is not None else self.trace.turns[id(v)] for v in values]
        self.results = [(j, v.node.position, v.index) for j, v in enumerate(values) if v.node is not None]
        fresh: dict[int, int] = {}
        for j, slot in enumerate(slots):
            if slot is not None and slot >= self.known:
                if slot in fresh:
                    raise Unfit
                fresh[slot] = j
        self.fresh = [fresh[slot] for slot in sorted(fresh)]  # inputs that nothing read before
        self.turns = [None if j in self.fresh else slot for j, slot in enumerate(slots)]

    def run(self, args: Args) -> bool:
        """Whether the update came as it did before; it is done then."""
        if tuple(map(type, args)) != self.kinds:
            return False
        if [args[i] for i in self.rest] != self.constants or [repr(args[i]) for i in self.zeros] != self.signs:
            return False
        floats = [args[i] for i in self.given]
        if floats and not SPECIAL.isdisjoint(floats):
            return False
        with self.trace.lock:
            return self.trace.state is self.before and self._done(self.tensors(args), floats)

    def _done(self, tensors: Sequence[Tensor], floats: Sequence[float]) -> bool:
        trace, nodes, count = self.trace, self.trace.nodes, len(tensors)
        payloads = [t._data for t in tensors]
        if [type(p) for p in payloads].count(LazyPayload) != count or any([p.path for p in payloads]):
            return False
        storages = [p.storage for p in payloads]
        values: list[Deferred] = [s.value for s in storages]
        if (
            [p.permuted for p in payloads].count(False) != count or [v.type_ for v in values] != self.types
            or [s.device for s in storages].count(self.device) != count or len(set(map(id, storages))) != count
            or list(map(trace.turns.get, map(id, values))) != self.turns
        ):
            return False
        for j, position, index in self.results:
            value = values[j]
            if value.node is not nodes[position] or value.index != index:
                return False
        fresh = [values[j] for j in self.fresh]
        if [v.node for v in fresh].count(None) != len(fresh) or len(set(map(id, fresh))) != len(fresh):
            return False
        calls, after = self.calls, self.after
        node = Node(calls, self.used(values), calls.numbers_with(floats), calls.types, after.mark(2))
        node.position, node.epoch, node.state = self.position, trace.epoch, after
        slots, entries = {id(value): self.known + i for i, value in enumerate(fresh)}, (node,)
        if trace.state is not self.before or trace.nodes is not nodes:  # (as in Writer._join)
            return False
        trace.turns |= slots
        trace.inputs += fresh
        nodes += entries
        trace.state = after
        metrics.rules[calls] += 1
        self._write(tensors, storages, node)
        return True

    def _write(self, tensors: Sequence[Tensor], storages: Sequence[Any], node: Node) -> None:
        trace, mark, types = self.trace, node.where, self.calls.types
        held = trace.storages
        for place, count, index in self.writes:
            storage, value = storages[place], new(Deferred)
            value.trace, value.type_, value.node, value.index, value.cell = trace, types[index], node, index, None
            before = storage.value
            if before.cell is not None:
                storage.settled = ref(before)
            storage.value, storage.lasts = value, True
            storage.generation += 1
            held[id(storage)] = ref(storage)
            mine = tensors[place]._storage
            if mine is not storage:
                mine = tensors[place].storage()
            mine.version = version = mine.version + count
            mine.written = (version, mark)
