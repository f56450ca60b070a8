"""How long a program takes, measured on copies of what it was run on last: nothing that it writes is anybody's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weft.codegen.native import clock_reader
from weft.ir.graph import Graph, Value
from weft.plan.numpy_layout import graph_symbols
from weft.runtime.program import Program
from weft.runtime.segments import NativeSegment
from weft.runtime.trace import BEGIN, END, NUMBER, PART, THREAD, WHOLE, Clock, read_clock
from weft.runtime.watched_run import WatchedRun
from weft.support.counters import counters
from weft.support.observers import observers
from weft.types import dims as dm
from weft.types.tensor_type import FLOAT, INT, TensorType

SECONDS, MOST_RUNS, MOST_BYTES = 0.2, 20, 1 << 30


@dataclass(frozen=True)
class Measured:
    """The shortest of some runs, in seconds.

    seconds: of all; native, host: of that in native code, and in steps that NumPy runs. kernels: of each launch's
    kernel by its number, with how often it was launched. sizes: (bytes, operations) of a launch by the same numbers.
    timeline: what ran on which thread of the shortest run; symbols: the sizes that it ran with, by their names.
    """

    seconds: float
    native: float
    host: float
    kernels: Mapping[int, tuple[float, int]]
    sizes: Mapping[int, tuple[int, int]]
    runs: int
    timeline: tuple[Span, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)


class Span(NamedTuple):
    """What one thread did: a kernel's number, or HOST for a step that NumPy runs; the thread (0 is the caller's); begin
    and end in seconds from the beginning of the run."""

    kernel: int
    thread: int
    begin: float
    end: float


HOST = -1


class _Watch:
    """Who looks at the runs of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs: list[tuple[int, int, WatchedRun]] = []  # length and beginning, in nanoseconds

    def begin(self, program: Any, frame: Any) -> None:
        """A run begins; those of other programs, in other threads, are not looked at."""
        if program is self.program:
            WatchedRun(program, frame, lambda run, begin, end: self.runs.append((end - begin, begin, run)))


def measure(
    program: Program, graph: Graph, inputs: Sequence[Any] | None = None, sizes: Mapping[str, int] | None = None
) -> Measured | str:
    """The times of a program, or why there are none.

    graph: the optimized one. inputs: what to run on, in the order of its parameters, of these sizes; default what it
    was run on last, with ones and zeros for what was not kept.
    """
    if observers.programs is not None:
        return "a profiler is at work"
    if any(node.op.effect in ("io", "python") for node in graph.walk()):
        return "it calls Python, which would be called once more"
    names, count = graph_symbols(graph)
    kept, latest = program.latest()
    examples = graph.env.examples
    if inputs and sizes:
        symbols = tuple([sizes.get(name, examples.get(name, 1)) for name in names[:count]])
    else:
        symbols = latest or tuple([examples.get(name, 1) for name in names[:count]])
    values = dict(zip(names, symbols, strict=False))
    try:
        sources = [
            _input(p, v, values)
            for p, v in zip(graph.params, inputs or kept or [None] * len(graph.params), strict=True)
        ]
        if sum([a.nbytes for a in sources if isinstance(a, np.ndarray)]) > MOST_BYTES:
            return "a copy of what it works on would be larger than 1 GB"
        return _times(program, sources, symbols)
    except Exception as problem:  # ones and zeros may be nothing that its kernels take
        return f"it cannot be run on ones and zeros: {str(problem).splitlines()[0]}"


def _times(program: Program, sources: list[Any], symbols: Sequence[int]) -> Measured:
    clock, watch, before = read_clock(clock_reader()), _Watch(program), counters.as_dict()
    observers.programs = watch
    try:
        start = time.perf_counter()
        while len(watch.runs) < MOST_RUNS and (not watch.runs or time.perf_counter() - start < SECONDS):
            program.run([a.copy() if isinstance(a, np.ndarray) else a for a in sources], tuple(symbols))
    finally:
        observers.programs = None
        for name, count in before.items():  # nobody called it
            setattr(counters, name, count)
    length, began, run = min(watch.runs, key=lambda each: each[0])
    native = host = 0
    for (begin, end), segment in zip(run.segments, program.layout.segments, strict=True):
        if isinstance(segment, NativeSegment):
            native += end - begin
        else:
            host += end - begin
    kernels: dict[int, tuple[float, int]] = {}
    records = run.records
    for record in records[records[:, PART] == WHOLE].tolist():
        seconds, launches = kernels.get(record[NUMBER], (0.0, 0))
        kernels[record[NUMBER]] = (
            seconds + (record[END] - record[BEGIN]) * clock.nanoseconds / 1e9, launches + 1
        )
    parts = program.parts
    sizes = dict(zip(parts.symbols, run.sizes, strict=False))
    work = {
        i: (int(dm.evaluate(parts.kernels[i].bytes, sizes)), int(dm.evaluate(parts.kernels[i].operations, sizes)))
        for i in kernels
    }
    timeline = (*_spans(records, clock, began), *_host_spans(program, run, began))
    return Measured(
        length / 1e9, native / 1e9, host / 1e9, kernels, work, len(watch.runs), timeline, sizes
    )


def _spans(records: Any, clock: Clock, began: int) -> Iterator[Span]:
    """What each thread did of each kernel; of a kernel that was not divided, the launch."""
    divided = set(records[records[:, PART] != WHOLE][:, NUMBER].tolist())
    for record in records.tolist():
        if record[PART] != WHOLE or record[NUMBER] not in divided:
            begin, end = ((clock.at(record[n]) - began) / 1e9 for n in (BEGIN, END))
            yield Span(record[NUMBER], record[THREAD], begin, end)


def _host_spans(program: Program, run: WatchedRun, began: int) -> Iterator[Span]:
    for (begin, end), segment in zip(run.segments, program.layout.segments, strict=True):
        if not isinstance(segment, NativeSegment):
            yield Span(HOST, 0, (begin - began) / 1e9, (end - began) / 1e9)


def _input(param: Value, value: Any, symbols: Mapping[str, int]) -> Any:
    """What a parameter is given: as it was, or ones, or zeros for what may be an index."""
    if value is not None:
        return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
    kind = param.type
    if isinstance(kind, TensorType) and kind.dtype is not None:
        dims = [int(dm.evaluate(d, symbols)) for d in kind.shape]
        return (np.ones if kind.dtype.is_floating_point else np.zeros)(dims, kind.dtype.numpy)
    return 1.0 if kind is FLOAT else 1 if kind is INT else True
