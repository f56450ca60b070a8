"""When values live, and which share memory by nature: views with their buffers, what a loop carries with
the loop's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from weft.ir.graph import Value, values_in
from weft.loops.kernel import KernelCall, LoweredGraph
from weft.plan.items import BlockItem, Enter, Item, Leave, event_reads, event_writes, flat_events
from weft.plan.numbers import is_number


class Uses:
    """Which inputs' memory each output of a kernel may take: those that are read in one place only,
    where the kernel allows it."""

    def __init__(self, call: KernelCall, owner: Callable[[Value], Value]) -> None:
        reads = [owner(v) for v in call.reads]
        counts = Counter(reads)
        writes = call.writes
        self.may_take: dict[Value, dict[Value, None]] = {}  # (a dict is a set in order)
        listed = Counter([(output, reads[at]) for output, at in call.in_place])
        for output, at in call.in_place:
            if counts[reads[at]] == listed[output, reads[at]]:  # wherever it is read
                self.may_take.setdefault(writes[output], {})[reads[at]] = None


class Lives:
    """Facts about the events of a program; positions count flat events.

    same       values that live in another value's memory
    producer   position at which a buffer begins to live, `last` the last one that needs it (results: one past the end)
    readers    positions that read a buffer, in order
    """

    def __init__(self, lowered: LoweredGraph, items: list[Item]) -> None:
        self.lowered = lowered
        self.events = list(flat_events(items))
        self.end = len(self.events)
        self.same: dict[Value, Value] = {}
        self.producer: dict[Value, int] = {}
        self.last: dict[Value, int] = {}
        self.loops = self._find_loops()
        self._uses: dict[int, Uses] = {}
        self._bodies = {block: frozenset(map(id, block.bodies[0])) for _, _, block in self.loops}
        self._share_memory()
        self._find_producers()
        if self.loops:
            self._carry_in_place()
            self._find_producers()
        self.readers = self._find_readers()
        self._find_last()

    def owner(self, value: Value) -> Value:
        """The value whose memory this one lives in."""
        while value in self.same:
            value = self.same[value]
        return value

    def overwrites(self, at: int, output: Value, source: Value) -> bool:
        """Whether the kernel at a position may put `output` into the memory of `source`,
        which it reads in one place only."""
        return source in self.uses(at).may_take.get(output, ())

    def uses(self, at: int) -> Uses:
        """What the kernel at a position does with its buffers."""
        uses = self._uses.get(at)
        if uses is None:
            call = self.events[at]
            assert isinstance(call, KernelCall)
            uses = self._uses[at] = Uses(call, self.owner)
        return uses

    def is_of_body(self, block: BlockItem, at: int) -> bool:
        """Whether an event belongs to a loop's block itself, so that it runs exactly once in each iteration."""
        return id(self.events[at]) in self._bodies[block]

    def _find_producers(self) -> None:
        self.producer.clear()
        for i, event in enumerate(self.events):
            for value in event_writes(event):
                self.producer.setdefault(self.owner(value), i)

    def _share_memory(self) -> None:
        """Views lie in their buffers; the parameters of a loop's block lie where its results will be."""
        graphs = [self.lowered, *(g for e in self.events if isinstance(e, Enter) for g in e.block.lowered)]
        for graph in graphs:
            self.same.update({value: root for value, (root, _) in graph.alias.items()})
        for event in self.events:
            if isinstance(event, Enter) and not event.block.is_if:
                count = len(event.block.carried)
                self.same.update(zip(event.block.params[1 : 1 + count], event.block.node.outputs, strict=False))

    def _find_loops(self) -> list[tuple[int, int, BlockItem]]:
        """First and last position of each loop."""
        starts = {e.block: i for i, e in enumerate(self.events) if isinstance(e, Enter)}
        ends = [(i, e.block) for i, e in enumerate(self.events) if isinstance(e, Leave) and not e.block.is_if]
        return [(starts[block], i, block) for i, block in ends]

    def _find_readers(self) -> dict[Value, list[int]]:
        readers: dict[Value, list[int]] = {}
        for i, event in enumerate(self.events):
            for value in event_reads(event):
                readers.setdefault(self.owner(value), []).append(i)
        return readers

    def _find_around(self) -> list[tuple[tuple[int, int], ...]]:
        """First and last position of each loop around each position, both of its ends among it."""
        ends = {start: end for start, end, _ in self.loops}
        around: list[tuple[tuple[int, int], ...]] = []
        inside: tuple[tuple[int, int], ...] = ()
        for i in range(self.end):
            if i in ends:
                inside = (*inside, (i, ends[i]))
            around.append(inside)
            if inside and inside[-1][1] == i:
                inside = inside[:-1]
        return around

    def _carry_in_place(self) -> None:
        """What a loop carries on is computed in the carried memory itself where the old value is not needed
        any more."""
        readers = self._find_readers()
        for start, end, block in self.loops:
            outputs = block.node.outputs
            carried = {self.owner(v) for v in values_in(block.results)}
            for output, value in zip(outputs, block.results[1 : 1 + len(block.carried)], strict=False):
                if not isinstance(value, Value) or is_number(value):
                    continue
                owner = self.owner(value)
                at = self.producer.get(owner)
                if (
                    at is None or not start < at < end or owner in outputs
                    or not isinstance(self.events[at], KernelCall)
                ):
                    continue
                reads = [i for i in readers.get(output, []) if at <= i <= end]
                if (
                    output in carried or not self.is_of_body(block, at)
                    or (reads and not (reads == [at] and self.overwrites(at, owner, output)))
                ):
                    continue
                self.same[owner] = output
                self._uses.clear()  # owners are others now
                readers[output] = sorted([*readers.get(output, []), *readers.pop(owner, [])])

    def _find_last(self) -> None:
        around = self._find_around()
        for value, reads in self.readers.items():
            produced_at = self.producer.get(value, -1)
            self.last[value] = max(max([i, *(end for start, end in around[i] if produced_at <= start)]) for i in reads)
        for value, at in self.producer.items():
            self.last[value] = max(self.last.get(value, -1), at)
        for _, end, block in self.loops:
            for output in block.writes:
                owner = self.owner(output)
                self.last[owner] = max(self.last.get(owner, -1), end)
        for value in values_in(tuple(self.lowered.results)):
            self.last[self.owner(value)] = self.end
