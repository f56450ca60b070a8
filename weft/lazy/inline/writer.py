"""The lines of an inline cache: whether operands come from where they came from the last time and look as they did,
the entry that joins the trace, and the tensors around its results.

A state of a trace stands for what was called before it, so that what an operand is can be asked by identity: it is a
result of the entry at that position, or the input with that turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

import weft.lazy.config as config
import weft.lazy.metrics as metrics
from weft.functionalizer.storage import Order
from weft.lazy.calls import values_in
from weft.lazy.payload import NO_QUESTIONS, Device, LazyPayload, LazyStorage, at_device, laid_out
from weft.lazy.recorded import Recorded
from weft.lazy.states import NO_CACHES, InlineCaches, Point, State
from weft.lazy.trace import Trace
from weft.lazy.values import Deferred, Node, SizeOf
from weft.support import limits
from weft.support.garbage import collection_held
from weft.support.generated import FunctionWriter
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType

MISSED: Any = object()  # what comes is not what came the last time
SEEN = 2  # times that something comes the long way behind a state before a cache is written
TRIES = 16  # then what comes there keeps changing, and is left alone


def is_learnt(state: State, what: Any) -> bool:
    """Whether a cache is to be written for something that has come the long way behind a state once more."""
    caches = state.inline.get(what)
    if caches is None:
        if state.inline is NO_CACHES:
            state.inline = {}
        caches = state.inline[what] = InlineCaches()
    caches.passes += 1
    return SEEN <= caches.passes <= TRIES


def follows(trace: Trace, at: Point) -> bool:
    """Whether the next entry follows the state. (Another thread may have put one of its own before it.)"""
    return (trace.nodes[at.entries - 1].state if at.entries else trace.root()) is at.state


def note(trace: Trace, at: Point, what: Any, learn: Callable[[], Callable[..., Any]]) -> None:
    """Something has come the long way to entries of a trace, which stood there before: have a cache written where it
    is time for one, and try that first from now on. learn: writes it, or raises Unfit.
    """
    with trace.lock, suppress(Unfit):
        if not trace.has_grown(at) or not is_learnt(at.state, what):
            return
        with collection_held():  # a finalizer may cut the trace
            if not trace.has_grown(at):
                return
            cache = learn()
            caches = at.state.inline[what].caches
            caches.insert(0, cache)
            del caches[limits.REPLAYS_OF_A_STATE :]


class Unfit(Exception):
    """What was called has no inline cache."""


class Writer(FunctionWriter):
    """The code of one cache. at: where the trace stood before what it stands for.

    Within the lines, operand j has its payload in `d<j>`, its storage in `s<j>` and its value in `v<j>`; result tensor
    k is `t<k>`, with the value `r<k>`.
    """

    def __init__(self, head: str, device: Device, at: Point) -> None:
        super().__init__(
            "inline", head, MISSED=MISSED, LazyPayload=LazyPayload, LazyStorage=LazyStorage, Tensor=Tensor, Node=Node,
            Deferred=Deferred, new=object.__new__, ref=ref, local=modes, config=config, device=device,
            trace=device.trace, before=at.state, NO_QUESTIONS=NO_QUESTIONS, calls=metrics.calls, rules=metrics.rules,
        )
        self.device, self.trace, self.first, self.known = device, device.trace, at.entries, at.inputs
        self._passed = device.trace.passed[at.passed :]
        if not follows(self.trace, at):
            raise Unfit
        self.fresh: dict[int, str] = {}  # inputs that nothing read before: of each turn the value
        self.showing: dict[int, list[int]] = {}  # of entries that show views, by position, the operands
        self._outside: list[str] = []  # lines in front of those that hold the trace's lock
        self._values: dict[Any, str] = {}  # of values: by identity, or by the position and index of an entry's result

    def add(self, *lines: str) -> None:
        """More lines."""
        self.lines += lines

    def unless(self, condition: str) -> None:
        """The cache is missed unless this holds."""
        self.add(f"if not ({condition}): return MISSED")

    def missed_if(self, condition: str) -> None:
        """The cache is missed where this holds."""
        self.add(f"if {condition}: return MISSED")

    # ---- operands
    def operand(self, j: int, payload: Any, holder: str, is_read: bool) -> None:
        """What a payload must be like. holder: where it is found. Raises Unfit."""
        if type(payload) is not LazyPayload or payload.storage.device is not self.device:
            raise Unfit
        storage = payload.storage
        if storage.type.is_symbolic or payload.type.is_symbolic or storage.is_resized:
            raise Unfit
        self.add(f"d{j} = {holder}")
        self.missed_if(f"type(d{j}) is not LazyPayload")
        self.add(f"s{j} = d{j}.storage")
        if payload.path:
            self._view(j, payload)
            return
        if storage.order is None:
            self.missed_if(f"d{j}.path or d{j}.permuted is not False")
        else:
            self.missed_if(f"d{j}.path or s{j}.order != {self.name(storage.order)}")
        self.add(f"v{j} = s{j}.value")
        self.source(j, f"v{j}", storage.value, is_read)

    def _view(self, j: int, payload: LazyPayload) -> None:
        """What a view shows: the base itself, what was read before, or another entry."""
        storage, memo = payload.storage, payload._memo
        if memo is None or payload._generation != storage.generation:
            raise Unfit
        self.lies(j, payload)
        is_shown = memo.node is not None and memo.node in self.trace.nodes[self.first : -1]
        if is_shown or memo is storage.value:
            same = self.showing.setdefault(memo.node.position, []) if is_shown and memo.node is not None else []
            if same:
                self.missed_if(f"d{j} is not d{same[0]}")
            else:
                self.add(f"v{j} = s{j}.value")
                self.source(j, f"v{j}", storage.value, True)
            same.append(j)
        else:
            self.missed_if(f"d{j}._generation != s{j}.generation")
            self.add(f"v{j} = d{j}._memo")
            self.missed_if(f"v{j} is None")
            self.source(j, f"v{j}", memo, True)

    def lies(self, j: int, payload: LazyPayload) -> None:
        """Operand j shows what this payload does, and lies as it does."""
        self.missed_if(f"s{j}.is_resized or d{j}.path != {self.name(payload.path)}")
        geometry = self.name(payload.geometry())
        self.missed_if(f"d{j}._geometry is not {geometry} and d{j}._geometry != {geometry}")
        self.missed_if(f"s{j}.order != {self.name(payload.storage.order)}")

    def source(self, j: int, v: str, value: Deferred, is_read: bool) -> None:
        """Where a value comes from, which the lines have as `v`."""
        self._values.setdefault(id(value), v)
        self.missed_if(f"{v}.type_ is not {self.name(value.type_)}")
        node = value.node
        if node is not None:
            if node.epoch != self.trace.epoch or node.position >= self.first:  # (the call wrote the operand)
                raise Unfit
            self.missed_if(f"{v}.node is not nodes[{self.name(node.position)}] or {v}.index != {value.index}")
            return
        if not is_read:
            self.missed_if(f"s{j}.device is not device")
            return
        slot = self.trace.turns.get(id(value))
        if slot is None:
            raise Unfit
        if slot < self.known:
            self.missed_if(f"turns.get(id({v})) != {self.name(slot)}")
        elif slot in self.fresh:
            self.missed_if(f"{v} is not {self.fresh[slot]}")
        else:
            self.missed_if(f"{v}.node is not None or s{j}.device is not device or id({v}) in turns")
            for other in self.fresh.values():
                self.missed_if(f"{v} is {other}")
            self.fresh[slot] = v

    # ---- the trace
    def begin(self, *locks: str) -> None:
        """The trace is where it was; nobody else has it, or these locks, from here on."""
        self._outside, self.lines = [*self.lines, f"with {', '.join(('trace.lock', *locks))}:"], []
        self.add("nodes, turns, inputs = trace.nodes, trace.turns, trace.inputs")
        self.missed_if("trace.state is not before or config.forced")

    def function(self) -> Callable[..., Any]:
        """The function."""
        self.lines = self._outside + [f"    {line}" for line in self.lines]
        return super().function()

    def adds_views_and_one(self) -> None:
        """Raises Unfit where there are other new entries than views that are read, and the last one."""
        if any([entry.position not in self.showing for entry in self.trace.nodes[self.first : -1]]):
            raise Unfit

    def append(self, wanted: Sequence[Deferred] = ()) -> None:
        """The new entries join the trace. wanted: results of theirs that `result` is asked for. Raises Unfit."""
        entries = self.trace.nodes[self.first :]
        named = [*wanted, *[v for entry in entries for v in values_in(entry.args)]]
        read = {(v.node.position, v.index) for v in named if v.node is not None} | {(at, 0) for at in self.showing}
        self.add(f"mark, epoch = {self.name(entries[-1].state)}.mark(2), trace.epoch")
        for i, entry in enumerate(entries):
            self._entry(i, entry)
            for index, kind in enumerate(entry.types):
                if (entry.position, index) in read:
                    name = self._values[entry.position, index] = f"q{entry.position - self.first}_{index}"
                    self.value(name, kind, index)
        self._join(entries)
        counted = [*[("calls", op) for op in self._passed]]
        counted += [("rules" if type(entry.op) is Recorded else "calls", entry.op) for entry in entries]
        self.add(*[f"{counts}[{self.name(op)}] += 1" for counts, op in counted])
        for position, operands in self.showing.items():
            for j in operands:
                self.add(f"d{j}._memo, d{j}._generation = {self._values[position, 0]}, s{j}.generation")

    def _join(self, entries: Sequence[Node]) -> None:
        """The trace may have been cut or have grown since it was looked at (a finalizer, a signal handler): the cache
        is missed then. What follows the question is not interrupted, for it makes and calls nothing."""
        fresh = sorted(self.fresh.items())
        self.add(f"joining = ({''.join(f'entry{i}, ' for i in range(len(entries)))})")
        if fresh:
            self.add(f"reads = ({''.join(f'{value}, ' for _, value in fresh)})")
            self.add(*[f"id{slot} = id({value})" for slot, value in fresh])
        self.missed_if("trace.state is not before or trace.nodes is not nodes")
        self.add(*[f"turns[id{slot}] = {self.name(slot)}" for slot, _ in fresh])
        if fresh:
            self.add("inputs += reads")
        self.add("nodes += joining", f"trace.state = {self.name(entries[-1].state)}")

    def _entry(self, i: int, entry: Node) -> None:
        op, args = self.name(entry.op), self._argument(entry.args)
        self.add(
            f"entry{i} = node = new(Node)", f"node.op, node.args = {op}, {args}",
            f"node.numbers, node.types, node.where = {self.name(entry.numbers)}, {self.name(entry.types)}, mark",
            f"node.position, node.epoch, node.state = {self.name(entry.position)}, epoch, {self.name(entry.state)}",
        )

    def result(self, value: Deferred) -> str:
        """The code for a value: an operand's, or an entry's result. Raises Unfit."""
        node = value.node
        is_new = node is not None and node.position >= self.first and node.epoch == self.trace.epoch
        code = self._values.get((node.position, value.index) if is_new and node is not None else id(value))
        if code is None:
            raise Unfit
        return code

    def _argument(self, a: Any) -> str:
        """The code for what an entry holds."""
        if type(a) is Deferred:
            return self.result(a)
        if type(a) is tuple and values_in(a):
            return f"({''.join(f'{self._argument(v)}, ' for v in a)})"
        if type(a) is SizeOf:
            raise Unfit
        return self.name(a)

    # ---- results
    def value(self, v: str, kind: TensorType, index: int) -> None:
        """A result of the latest entry."""
        self.add(
            f"{v} = new(Deferred)",
            f"{v}.trace, {v}.type_, {v}.node, {v}.index, {v}.cell = trace, {self.name(kind)}, node, {index}, None",
        )

    def tensor(self, k: int, value: str, kind: TensorType, order: Order | None) -> None:
        """A tensor with memory of its own around a value that waits, as `t<k>` (payload.fresh)."""
        geometry, type_ = self.name(laid_out(kind, order)), self.name(kind)
        self.add(
            "s = new(LazyStorage)", f"s.value, s.device, s.type, s.geometry = {value}, device, {type_}, {geometry}",
            f"s.order, s.is_row_major, s.questions = {self.name(order)}, {order is None}, NO_QUESTIONS",
            "s.version = s.generation = 0",
            "s.partner = s.written = s.update = s.settled = None", "s.lasts = s.is_inference = s.is_resized = False",
            "trace.storages[id(s)] = ref(s)",
        )
        self.shown(k, "s", "()", at_device(kind, self.device), geometry, "False" if order is None else "None")
        self.add(f"t{k}._storage = s")

    def shown(self, k: int, storage: str, path: str, kind: TensorType, geometry: str, permuted: str) -> None:
        """A tensor that shows a storage, as `t<k>`; its storage is to be set."""
        self.add(
            "d = new(LazyPayload)",
            f"d.storage, d.path, d.type, d._geometry = {storage}, {path}, {self.name(kind)}, {geometry}",
            f"d._memo, d._generation, d.permuted, d.identity = None, -1, {permuted}, 0",
            f"t{k} = new(Tensor)", f"t{k}._data, t{k}._autograd, t{k}._view = d, None, None",
        )
