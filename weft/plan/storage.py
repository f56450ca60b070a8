"""Where every value of a lowered graph lives: an input's memory, an array made for the call, the arena, a word.
Decides what may be updated in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from weft.ir.graph import Value, values_in
from weft.ir.structure import CONSTANT
from weft.loops.kernel import HostCall, KernelCall, LoweredGraph
from weft.plan.arena import Placement, Request, plan_slots
from weft.plan.items import BlockItem, Enter, Event, Item, Leave, can_raise, event_writes
from weft.plan.lives import Lives
from weft.plan.numbers import is_number
from weft.plan.parts import scratch_bytes
from weft.plan.sizes import is_covered
from weft.plan.table_rows import TableRows
from weft.support import limits
from weft.types import dims as dm
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType


@dataclass(frozen=True)
class Copy:
    """Bytes moved at the end of the program, from root to root."""

    target: int
    source: int
    size: Dim


def value_bytes(value: Value) -> Dim:
    """Bytes of a tensor."""
    return _bytes_of(value.tensor_type)


@lru_cache(limits.RESULTS)
def _bytes_of(type: TensorType) -> Dim:
    assert type.dtype is not None
    return type.numel * type.dtype.itemsize


@dataclass
class Storage:
    """The roots of a program. Parameters come first, the arena's slots last.

    root       root of each buffer (numbers too, where a kernel reads them through an address);
               of (loop, carried result) where a loop crosses values over and needs a place between
    fresh      result position -> root of the array made for it; `copied` those that are filled at the end
    held       buffers that host calls leave, `dynamic` those that are allocated once late sizes are known
               (with the event that needs them)
    numbers    number values with an address, `constants` tensors that stand in the program
    rows       values that are one row of a buffer, at an address that each iteration of a loop sets:
               (loop, row, buffer)
    arena      first root of the arena; `placement` says how many follow
    scratch    root of the kernels' scratch memory, -1 without; `late_scratch` those of single kernels whose
               need is known late
    copies     copies to results and snapshots, then `commits`, into state, both at the end
    needless   how many copies there are that no operator of the user's asked for
    """

    lowered: LoweredGraph
    lives: Lives
    root: dict[Any, int] = field(default_factory=dict)
    roots: int = 0
    fresh: dict[int, int] = field(default_factory=dict)
    copied: dict[int, int] = field(default_factory=dict)
    held: set[Value] = field(default_factory=set)
    dynamic: dict[Value, Event] = field(default_factory=dict)
    numbers: dict[int, Value] = field(default_factory=dict)
    constants: dict[int, Value] = field(default_factory=dict)
    rows: list[tuple[BlockItem, Value, Value]] = field(default_factory=list)
    arena: int = 0
    placement: Placement = field(default_factory=Placement)
    scratch: int = -1
    late_scratch: dict[int, int] = field(default_factory=dict)
    rooms: dict[int, list[tuple[int, Dim]]] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    commits: list[Copy] = field(default_factory=list)
    needless: int = 0

    def owner(self, value: Value) -> Value:
        """The value whose memory this one lives in."""
        return self.lives.owner(value)

    def of(self, value: Value) -> int:
        """The root of a value."""
        return self.root[self.owner(value)]


def _item(event: Event) -> Item:
    return event.block if isinstance(event, (Enter, Leave)) else event


def crossing(block: BlockItem, storage: Storage) -> list[tuple[Value, Value]]:
    """(carried result, what is moved into it) of a loop, where that is the old value of another carried result."""
    outputs = block.node.outputs
    pairs = zip(outputs, block.results[1 : 1 + len(block.carried)], strict=False)
    tensors = [(o, storage.owner(r)) for o, r in pairs if isinstance(r, Value) and not is_number(o)]
    return [(o, r) for o, r in tensors if r in outputs and r is not o]


def assign_storage(lowered: LoweredGraph, items: list[Item], late: frozenset[str]) -> Storage:
    """Decide where everything lives. late: symbols that are bound while the program runs."""
    return _Assignment(lowered, items, late).run()


class _Assignment:
    """The decisions in their order; each looks at what the earlier ones left. Positions are those of flat events."""

    def __init__(self, lowered: LoweredGraph, items: list[Item], late: frozenset[str]) -> None:
        self.lowered, self.late, self.top = lowered, late, frozenset(map(id, items))
        self.lives = Lives(lowered, items)
        self.events = self.lives.events
        self.s = Storage(lowered, self.lives)
        self.writes = dict(lowered.graph.writes)
        self.written = set(self.writes.values())
        self.last_raise = max((i for i, e in enumerate(self.events) if can_raise(e)), default=-1)
        self.position = {v: i for i, v in enumerate(lowered.params)}
        self.results = [(i, r) for i, r in enumerate(lowered.results) if type(r) is Value]
        self.written_values = {r for i, r in self.results if i in self.writes}
        self.shown = self._shown()
        self.of_control = {v for e in self.events if isinstance(e, Enter) for v in e.block.writes}
        self.table_rows = TableRows(self.lives)

    def _shown(self) -> dict[Value, set[int]]:
        """The results that show each buffer."""
        positions: dict[Value, set[int]] = {}
        for position, value in self.results:
            positions.setdefault(self.s.owner(value), set()).add(position)
        return positions

    def run(self) -> Storage:
        for value in self.lowered.params:
            self.s.root[value] = self._new()
        self._rows()
        self._constants()
        self._direct_state()
        self._results()
        self._host_calls_and_numbers()
        self._dynamic()
        self._scratch_sizes()
        self._arena()
        self._endings()
        self._count_copies()
        return self.s

    def _new(self) -> int:
        self.s.roots += 1
        return self.s.roots - 1

    # ---- who lives where
    def _rows(self) -> None:
        """Slices that a loop reads, and stacked results that a kernel can write row by row."""
        for start, end, block in self.lives.loops:
            count = len(block.carried)
            for param, source in zip(block.params[1 + count :], block.sliced, strict=True):
                self.s.root[param] = self._new()
                self.s.rows.append((block, param, source))
            for value, output in zip(block.results[1 + count :], block.node.outputs[count:], strict=True):
                owner = self.s.owner(value)
                at = self.lives.producer.get(owner)
                if (
                    at is not None and start < at < end and owner not in self.s.root
                    and self._is_row_kernel(block, at, owner)
                ):
                    self.s.root[owner] = self._new()
                    self.s.rows.append((block, owner, output))

    def _is_row_kernel(self, block: BlockItem, at: int, owner: Value) -> bool:
        is_inner = owner not in self.of_control and not is_number(owner)
        return isinstance(self.events[at], KernelCall) and self.lives.is_of_body(block, at) and is_inner

    def _constants(self) -> None:
        mentioned = [*self.lives.readers, *(self.s.owner(v) for v in values_in(tuple(self.lowered.results)))]
        for value in mentioned:
            if value.node is not None and value.node.op is CONSTANT and value not in self.s.root:
                self.s.root[value] = self._new()
                self.s.constants[self.s.root[value]] = value

    def _direct_state(self) -> None:
        for position, param in self.lowered.graph.writes:
            value = self.lowered.results[position]
            root, target = self.s.owner(value), self.lowered.params[param]
            if root not in self.s.root and self._may_be_direct(root, target, position):
                self.s.root[root] = self.s.root[target]
                may_lie = partial(self._may_be_direct, target=target, position=position)
                self._steps_in_place(root, self.s.root[root], may_lie)

    def _steps_in_place(self, value: Value, root: int, may_lie: Callable[[Value], bool]) -> None:
        """Earlier values that a value is made of in place lie in its memory too, from the latest on while they may."""
        while (before := next(filter(may_lie, self._last_read_by(value)), None)) is not None:
            value = before
            self.s.root[value] = root

    def _last_read_by(self, value: Value) -> Iterator[Value]:
        """What the kernel that makes a value may overwrite with it, and nothing needs later."""
        at = self.lives.producer[value]
        if not isinstance(self.events[at], KernelCall):
            return
        for v in self.lives.uses(at).may_take.get(value, ()):
            if v not in self.s.root and v not in self.shown and self.lives.last[v] == at and not self._is_in_a_loop(v):
                yield v

    def _is_in_a_loop(self, value: Value) -> bool:
        at = self.lives.producer.get(value, -1)
        return any(start <= at <= end for start, end, _ in self.lives.loops)

    def _may_be_direct(self, root: Value, target: Value, position: int) -> bool:
        """Whether the kernel that produces `root` may write over the parameter: nothing can fail from then on,
        and nothing needs the old value."""
        at = self.lives.producer.get(root)
        if at is None or at <= self.last_raise:
            return False
        if not self._is_same_size(root, target):
            return False
        if self.shown.get(target, set()) - {position}:
            return False
        if not isinstance(self.events[at], KernelCall):
            return self.table_rows.may_lie_in(root, target)
        reads = [i for i in self.lives.readers.get(target, []) if i >= at]
        return not reads or (set(reads) == {at} and self.lives.overwrites(at, root, target))

    def _is_same_size(self, a: Value, b: Value) -> bool:
        """Whether two tensors have as many bytes, from their dims or from what the capture has asked."""
        proves, x, y = self.lowered.graph.env.proves_equal, a.tensor_type, b.tensor_type
        if proves(value_bytes(a), value_bytes(b)):
            return True
        return (
            x.dtype is y.dtype and x.ndim == y.ndim and all(proves(m, n) for m, n in zip(x.shape, y.shape, strict=True))
        )

    def _results(self) -> None:
        """An array for each result that leaves: its producer writes into it where it can,
        else it is copied at the end."""
        seen: set[Value] = set()
        for position, value in self.results:
            if not isinstance(value.type, TensorType) or position in self.writes or value in seen:
                continue
            seen.add(value)
            root = self.s.owner(value)
            if (
                value in self.written_values or self._is_late(value) or self._is_of_a_host_call(root)
                or self._is_untouched(value)
            ):
                continue
            self.s.fresh[position] = self._new()
            if root in self.s.root or root not in self.lives.producer:
                self.s.copied[position] = self.s.fresh[position]
            else:
                self.s.root[root] = self.s.fresh[position]
                self._steps_in_place(root, self.s.root[root], partial(self._may_be_fresh, result=root))

    def _may_be_fresh(self, before: Value, result: Value) -> bool:
        """Whether a value may be computed in the array that is made for a result."""
        at = self.lives.producer.get(before, -1)
        is_of_a_kernel = at >= 0 and isinstance(self.events[at], KernelCall) and not is_number(before)
        return is_of_a_kernel and not self._is_late(before) and self._is_same_size(before, result)

    def _is_untouched(self, value: Value) -> bool:
        position = self.position.get(value)
        return position is not None and position not in self.written

    def _is_of_a_host_call(self, root: Value) -> bool:
        at = self.lives.producer.get(root)
        return at is not None and isinstance(self.events[at], HostCall)

    def _is_late(self, value: Value) -> bool:
        return (
            bool(self.late) and isinstance(value.type, TensorType) and bool(dm.symbols(value_bytes(value)) & self.late)
        )

    def _host_calls_and_numbers(self) -> None:
        for event in self.events:
            for value in event_writes(event):
                if isinstance(event, HostCall) and not is_number(value):
                    self.s.root[value] = self._new()
                    self.s.held.add(value)
            if isinstance(event, KernelCall):
                for value in event.buffers:
                    self._number_address(self.s.owner(value))

    def _number_address(self, value: Value) -> None:
        if is_number(value) and self.s.root.get(value, -1) not in self.s.numbers:
            self.s.root[value] = self._new()
            self.s.numbers[self.s.root[value]] = value

    def _dynamic(self) -> None:
        for event in self.events:
            for value in event_writes(event):
                if value in self.s.root or is_number(value) or not self._is_late(value):
                    continue
                self.s.root[value] = self._new()
                if self._is_inner(event):
                    self._room(event, self.s.root[value], value_bytes(value))
                else:
                    self.s.dynamic[value] = event
            if isinstance(event, Leave) and not event.block.is_if:
                for output, _ in crossing(event.block, self.s):
                    if self._is_late(output):
                        self.s.root[event.block, output] = self._new()
                        self._room(event, self.s.root[event.block, output], value_bytes(output))

    def _is_inner(self, event: Event) -> bool:
        """Whether an event belongs to a block, so that its sizes may be found anew each time."""
        return id(_item(event)) not in self.top

    def _room(self, event: Event, root: int, size: Dim) -> None:
        self.s.rooms.setdefault(id(_item(event)), []).append((root, size))

    def _scratch_sizes(self) -> None:
        """The most that one kernel needs; those that need a late size get memory of their own."""
        sizes: dict[Dim, None] = {}
        for event in self.events:
            size = scratch_bytes(event) if isinstance(event, KernelCall) else 0
            if dm.symbols(size) & self.late:
                self.s.late_scratch[id(event)] = self._new()
                if self._is_inner(event):
                    self._room(event, self.s.late_scratch[id(event)], size)
            elif size != 0:
                sizes[size] = None
        self._scratch_total: Dim = 0
        for size in sizes:
            covers = self._scratch_total == 0 or is_covered(self._scratch_total, size)
            self._scratch_total = size if covers else dm.maximum(self._scratch_total, size)

    def _arena(self) -> None:
        """Everything else, and the scratch memory; kernels run one after another, so they share it."""
        requests = []
        for i, event in enumerate(self.events):
            for value in event_writes(event):
                owner = self.s.owner(value)
                if owner is value and owner not in self.s.root and not is_number(value):
                    requests.append(self._request(value, i))
            if isinstance(event, Leave) and not event.block.is_if:
                requests += [
                    Request((event.block, out), value_bytes(out), i, i)
                    for out, _ in crossing(event.block, self.s) if (event.block, out) not in self.s.root
                ]
        env = self.lowered.graph.env
        hint = lambda d: dm.evaluate(d, {s: env.examples.get(s, 64) for s in dm.symbols(d)})  # noqa: E731
        self.s.placement = plan_slots(requests, hint)
        self.s.arena = self.s.roots
        for request in requests:
            self.s.root[request.key] = self.s.arena + self.s.placement.slot[request.key]
        self._snapshots()
        if self._scratch_total != 0:
            self.s.scratch = self._slot(self._scratch_total)
        self.s.roots += len(self.s.placement.sizes)

    def _request(self, value: Value, at: int) -> Request:
        if not isinstance(self.events[at], KernelCall):
            return Request(value, value_bytes(value), at, self.lives.last[value])
        may_take = self.lives.uses(at).may_take.get(value, ())
        takes = tuple([v for v in may_take if self.lives.last[v] == at and v not in self.s.root])
        return Request(value, value_bytes(value), at, self.lives.last[value], takes)

    def _slot(self, size: Dim) -> int:
        self.s.placement.sizes.append(size)
        return self.s.arena + len(self.s.placement.sizes) - 1

    # ---- what is moved at the end
    def _snapshots(self) -> None:
        """Old values of written parameters that are written into other parameters:
        kept aside before the first write."""
        self._snapshot: dict[int, int] = {}
        for position, param in self.lowered.graph.writes:
            source = self.s.owner(self.lowered.results[position])
            old = self.position.get(source, param)
            if old != param and old in self.written and old not in self._snapshot:
                self._snapshot[old] = self._slot(value_bytes(source))

    def _endings(self) -> None:
        for position, root in self.s.copied.items():
            value = self.lowered.results[position]
            self.s.copies.append(Copy(root, self.s.of(value), value_bytes(value)))
        for old, slot in self._snapshot.items():
            self.s.copies.append(Copy(slot, old, value_bytes(self.lowered.params[old])))
        for position, param in self.lowered.graph.writes:
            value = self.lowered.results[position]
            source = self.s.of(value)
            if source != param:
                self.s.commits.append(Copy(param, self._snapshot.get(source, source), value_bytes(value)))

    def _count_copies(self) -> None:
        """Copies of what a write to a part leaves alone, and of what was computed elsewhere into state."""
        produced = set(self.lives.producer)
        for position, param in self.lowered.graph.writes:
            value = self.s.owner(self.lowered.results[position])
            self.s.needless += value in produced and self.s.of(value) != param
        for event in self.events:
            if isinstance(event, KernelCall):
                pairs = [(event.writes[out], event.buffers[at]) for out, at in event.copies]
                self.s.needless += sum(self.s.of(out) != self.s.of(source) for out, source in pairs)
            elif isinstance(event, HostCall):
                self.s.needless += event.node.op.scatters is not None
