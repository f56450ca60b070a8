"""What is noted while a program runs: operators, nodes of backward calls, calls of compiled functions, runs of
programs with the times of their kernels, and blocks that the user names.

A note is as short as it can be; events.py makes events of them when somebody asks.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from weft import memory
from weft.codegen.native import clock_reader
from weft.compile.driver import CompiledFunction
from weft.layers.watching import watch_operators
from weft.lazy.split.function import SplitFunction
from weft.ops.op import Op
from weft.ops.route import Route
from weft.runtime.trace import Clock, read_clock
from weft.runtime.watched_run import WatchedRun
from weft.support.errors import StateError
from weft.support.locations import Mark, user_mark
from weft.support.observers import observers
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

now = time.perf_counter_ns
thread_of = threading.get_ident
OPERATOR, INPLACE, NODE, CALL, USER, STEP, PROGRAM = "operator", "inplace", "node", "call", "user", "step", "program"


def _called() -> Iterator[tuple[Any, str]]:
    """The classes whose calls are watched, and what their calls are named."""
    yield CompiledFunction, "compiled"
    yield SplitFunction, "split"
    scripts = sys.modules.get("weft.jit.functions")  # nobody can call what was not imported
    if scripts is not None:
        yield scripts.ScriptFunction, "script"


class Note(NamedTuple):
    """One thing that ran: `what` is the operator, a name, or the run of a program. begin, end: nanoseconds of
    time.perf_counter_ns. shapes: of tensors among the arguments; memory: bytes that were taken, less those let go.
    of: the identity of the function that was called."""

    kind: str
    what: Any
    thread: int
    begin: int
    end: int
    shapes: tuple[Any, ...] | None = None
    memory: int = 0
    mark: Mark | None = None
    of: int = 0


class Recorder:
    """What is noted between `start` and `stop`. One at a time looks at a process."""

    def __init__(self, shapes: bool = False, counts_memory: bool = False, lines: bool = False) -> None:
        self.shapes, self.counts_memory, self.lines = shapes, counts_memory, lines
        self.notes: list[Note] = []
        self.called: dict[int, Any] = {}  # functions, by identity
        self.clock: Clock | None = None
        self.end_clock: Clock | None = None
        self.threads: dict[int, str] = {}
        self._begins_counting = False
        self._calls: list[tuple[Any, Any]] = []

    def start(self) -> None:
        """Begin to look. Raises StateError while another one does."""
        if _active:
            raise StateError("profile: another profiler is at work; leave it first")
        _active.append(self)
        self.clock = read_clock(clock_reader())
        self._begins_counting = self.counts_memory and not memory.is_counting()
        if self.counts_memory:
            memory.current()  # counting begins with the first question
        observers.programs, observers.steps = self, self._watched_step
        for kind, word in _called():
            self._calls.append((kind, kind.__call__))
            kind.__call__ = self._watched_call(kind.__call__, word)
        watch_operators(self._watched_route)

    def stop(self) -> None:
        """Look no more."""
        if _active != [self]:
            return
        watch_operators(None)
        for kind, call in self._calls:
            kind.__call__ = call
        self._calls.clear()
        observers.programs = observers.steps = None
        _active.clear()
        if self._begins_counting:
            memory.stop()
        self.end_clock = read_clock(clock_reader())
        self.threads = {t.ident: t.name for t in threading.enumerate() if t.ident is not None}

    def forget(self) -> None:
        """Begin anew: what was noted so far was to warm up."""
        self.notes = []

    def note(self, kind: str, what: Any, begin: int) -> None:
        """Something has run since `begin`."""
        self.notes.append(Note(kind, what, thread_of(), begin, now()))

    # ---- operators
    def _watched_route(self, route: Route, inplace: bool) -> Route:
        kind, recorder, local = INPLACE if inplace else OPERATOR, self, modes
        detailed = self.shapes or self.counts_memory or self.lines

        def watched(op: Op, args: tuple[Any, ...]) -> Any:
            if local.capture is not None:  # it is written down, and runs later
                return route(op, args)
            if detailed:
                return recorder._in_detail(kind, route, op, args)
            begin = now()
            try:
                return route(op, args)
            finally:
                recorder.notes.append(Note(kind, op, thread_of(), begin, now()))

        return watched

    def _in_detail(self, kind: str, route: Route, op: Op, args: tuple[Any, ...]) -> Any:
        """The call, with what takes time to find out."""
        shapes = tuple(map(_shape, args)) if self.shapes else None
        return self._counted(kind, op, shapes, user_mark(3) if self.lines else None, route, op, args)

    def _counted(
        self, kind: str, what: Any, shapes: tuple[Any, ...] | None, mark: Mark | None, run: Callable[..., Any],
        *args: Any,
    ) -> Any:
        """What `run(*args)` gives; noted with the memory that it takes, where that is counted."""
        before = memory.current() if self.counts_memory else 0
        begin = now()
        try:
            return run(*args)
        finally:
            end = now()
            taken = memory.current() - before if self.counts_memory else 0
            self.notes.append(Note(kind, what, thread_of(), begin, end, shapes, taken, mark))

    # ---- backward calls
    def _watched_step(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(node: Any) -> Any:
            if modes.capture is not None:
                return step(node)
            mark = node.mark if self.lines else None  # of what it is the backward of
            return self._counted(NODE, node.name(), None, mark, step, node)

        return watched

    # ---- compiled functions and programs
    def _watched_call(self, call: Callable[..., Any], word: str) -> Callable[..., Any]:
        def watched(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if modes.capture is not None:
                return call(function, *args, **kwargs)
            self.called.setdefault(id(function), function)
            begin = now()
            try:
                return call(function, *args, **kwargs)
            finally:
                name = getattr(function, "name", None) or getattr(function, "__name__", "?")
                self.notes.append(Note(CALL, f"{word} {name}", thread_of(), begin, now(), of=id(function)))

        return watched

    def begin(self, program: Any, frame: Any) -> None:
        """A program's run begins (runtime/program.py)."""
        WatchedRun(program, frame, self._ran)

    def _ran(self, run: WatchedRun, begin: int, end: int) -> None:
        self.notes.append(Note(PROGRAM, run, thread_of(), begin, end))


_active: list[Recorder] = []


def active() -> Recorder | None:
    """Who looks at this process."""
    return _active[0] if _active else None


def _shape(value: Any) -> Any:
    if isinstance(value, Tensor):
        return list(value.shape)
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return [_shape(v) for v in value]
    return np.shape(value) if isinstance(value, np.ndarray) else []
