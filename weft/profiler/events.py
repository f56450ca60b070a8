"""Events made of notes: a tree for each thread, with the kernels of programs in their places."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.profiler.recorder import INPLACE, OPERATOR, Note, Recorder
from weft.runtime.segments import HostSegment
from weft.runtime.trace import BEGIN, END, NUMBER, PART, THREAD, WHOLE, Clock
from weft.runtime.watched_run import WatchedRun
from weft.support.locations import Location, located
from weft.support.warn import warn
from weft.types import dims as dm

KERNEL, PART_OF_KERNEL, NUMPY = "kernel", "part", "numpy"
WORKERS = 1 << 50  # the pool's workers are threads from here on, by their numbers


@dataclass(eq=False)
class FunctionEvent:
    """One thing that ran. Times are microseconds, from the beginning of the profile on.

    kind: "operator", "inplace" (an operator that writes), "node" (of a backward call), "call" (of a compiled or split
    function), "program", "kernel", "part" (of a kernel, on one thread), "numpy" (a step of a program that NumPy or
    Python runs), "user" (record_function), "step". thread: as threading.get_ident() has it.
    cpu_memory_usage: bytes taken, less those let go (profile_memory). bytes, operations: of a kernel, as the compiler
    counts them. lines: the user's.
    """

    id: int
    name: str
    kind: str
    thread: int
    start: float
    end: float
    input_shapes: list[Any] = field(default_factory=list)
    cpu_memory_usage: int = 0
    bytes: int = 0
    operations: int = 0
    lines: tuple[Location, ...] = ()
    cpu_parent: FunctionEvent | None = None
    cpu_children: list[FunctionEvent] = field(default_factory=list)
    count: int = 1

    @property
    def key(self) -> str:
        """What averages are taken by: the name."""
        return self.name

    @property
    def stack(self) -> list[str]:
        """The user's lines, as text."""
        return [f"{line.file}({line.line})" for line in self.lines]

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from begin to end."""
        return self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that none of its children has."""
        children = [c.cpu_time_total for c in self.cpu_children if c.kind != PART_OF_KERNEL]
        return max(0.0, self.cpu_time_total - sum(children))

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that none of its children has taken."""
        return self.cpu_memory_usage - sum([c.cpu_memory_usage for c in self.cpu_children])

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total

    @property
    def flops(self) -> int:
        """The operations, under PyTorch's name."""
        return self.operations

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name}: {self.cpu_time_total:.3f} us on thread {self.thread}>"


def events_of(recorder: Recorder) -> list[FunctionEvent]:
    """The events of a recording that is over, by their begin."""
    maker = _Maker(clock_of(recorder))
    for note in recorder.notes:
        maker.add(note)
    _put_into_trees(maker.plain)
    return sorted(maker.plain + maker.inner, key=lambda e: (e.start, -e.end))


def clock_of(recorder: Recorder) -> Clock:
    """The processor's clock over a recording: it was read at both ends."""
    first, last = recorder.clock, recorder.end_clock
    assert first is not None
    if last is None or last.origin - first.origin < 1_000_000_000:  # too short to be better than the first reading
        return first
    return Clock(first.start, first.origin, (last.origin - first.origin) / (last.start - first.start))


class _Maker:
    """Events of one recording. plain: those whose parents their times tell; inner: those within programs."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ids = itertools.count(1)
        self.plain: list[FunctionEvent] = []
        self.inner: list[FunctionEvent] = []

    def add(self, note: Note) -> None:
        """The events of a note."""
        run = note.what if isinstance(note.what, WatchedRun) else None
        name = _name(note) if run is None else f"program {run.program.parts.name}"
        event = self._event(name, note.kind, note.thread, note.begin, note.end)
        event.cpu_memory_usage, event.input_shapes = note.memory, list(note.shapes or ())
        where = located(note.mark)
        event.lines = () if where is None else (where,)
        self.plain.append(event)
        if run is not None:
            self._add_kernels(event, run)
            self._add_host_steps(event, run)
            if run.dropped:
                warn(
                    f"profile: a run of the program {run.program.parts.name} launched {run.dropped} kernels more than "
                    "are noted of one run; they are missing among the events",
                    UserWarning,
                )

    def _event(self, name: str, kind: str, thread: int, begin: float, end: float) -> FunctionEvent:
        start = self.clock.origin
        return FunctionEvent(next(self.ids), name, kind, thread, (begin - start) / 1e3, (end - start) / 1e3)

    def _add_inside(self, parent: FunctionEvent, event: FunctionEvent) -> None:
        event.cpu_parent = parent
        parent.cpu_children.append(event)
        self.inner.append(event)

    def _add_kernels(self, event: FunctionEvent, run: WatchedRun) -> None:
        parts = run.program.parts
        values = dict(zip(parts.symbols, run.sizes, strict=False))
        sizes = [(int(dm.evaluate(k.bytes, values)), int(dm.evaluate(k.operations, values))) for k in parts.kernels]
        records = run.records
        whole = records[:, PART] == WHOLE
        kernels: list[FunctionEvent] = []
        for begin, end, record in self._timed(records[whole]):
            facts = parts.kernels[record[NUMBER]]
            kernel = self._event(f"{parts.name}: {facts.name}", KERNEL, event.thread, begin, end)
            kernel.lines, (kernel.bytes, kernel.operations) = facts.lines, sizes[record[NUMBER]]
            self._add_inside(event, kernel)
            kernels.append(kernel)
        starts = [k.start for k in kernels]
        for begin, end, record in self._timed(records[~whole]):
            thread = event.thread if record[THREAD] == 0 else WORKERS + int(record[THREAD])
            part = self._event("", PART_OF_KERNEL, thread, begin, end)
            owner = kernels[max(0, int(np.searchsorted(starts, part.start, "right")) - 1)]
            part.name = f"{owner.name}, part {record[PART]}"
            self._add_inside(owner, part)

    def _timed(self, records: Any) -> Iterator[tuple[float, float, Any]]:
        """Records by their begin, with begin and end in nanoseconds."""
        records = records[np.argsort(records[:, BEGIN], kind="stable")]
        begins, ends = self.clock.at(records[:, BEGIN]), self.clock.at(records[:, END])
        return zip(begins.tolist(), ends.tolist(), records.tolist(), strict=True)

    def _add_host_steps(self, event: FunctionEvent, run: WatchedRun) -> None:
        for (begin, end), segment in zip(run.segments, run.program.layout.segments, strict=False):
            if isinstance(segment, HostSegment):
                operator, lines = run.program.parts.host[segment.node]
                step = self._event(f"numpy {operator}", NUMPY, event.thread, begin, end)
                step.lines = lines
                self._add_inside(event, step)


def _name(note: Note) -> str:
    if note.kind not in (OPERATOR, INPLACE):
        return str(note.what)
    return f"{note.what.schema.namespace}::{note.what.base}{'_' if note.kind == INPLACE else ''}"


def _put_into_trees(events: Iterable[FunctionEvent]) -> None:
    """Parents are the shortest events of the same thread that lie around."""
    around: dict[int, list[FunctionEvent]] = {}
    for event in sorted(events, key=lambda e: (e.start, -e.end)):
        stack = around.setdefault(event.thread, [])
        while stack and stack[-1].end < event.end:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)
