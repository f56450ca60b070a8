"""PyTorch's names: profile, record_function, and the handlers of traces."""

from __future__ import annotations

import functools
import inspect
import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from weft.profiler import recorder as recording
from weft.profiler.averages import EventList
from weft.profiler.chrome import chrome_trace, stack_lines, write_trace
from weft.profiler.events import events_of
from weft.profiler.recorder import STEP, USER, Recorder
from weft.profiler.schedules import ProfilerAction, ProfilerActivity, record_always
from weft.support.errors import StateError, ValueProblem
from weft.support.generators import resumed_within
from weft.support.warn import warn

F = TypeVar("F", bound=Callable[..., Any])
_LOOKS = (ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_METRICS = ("self_cpu_time_total", "cpu_time_total")


def supported_activities() -> set[ProfilerActivity]:
    """Where a profiler can look: the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether PyTorch's library of traces is there: no; weft writes traces itself."""
    return False


class record_function:
    """A block, or a function, under a name that a profiler shows. args: text that is shown behind it.

    While nobody profiles it does nothing.
    """

    __weft_names_block__ = True  # for scripted programs

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begins: list[int] = []

    def __enter__(self) -> record_function:
        self._begins.append(recording.now())
        return self

    def __exit__(self, *problem: Any) -> None:
        begin, recorder = self._begins.pop(), recording.active()
        if recorder is not None:
            recorder.note(USER, self.name if self.args is None else f"{self.name}({self.args})", begin)

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                return (yield from resumed_within(self._again, function(*args, **kwargs)))

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return named  # type: ignore[return-value]

    def _again(self) -> record_function:
        return record_function(self.name, self.args)


class profile:
    """Look at what runs within a block, or between `start()` and `stop()`, in all threads.

    activities: where to look: {ProfilerActivity.CPU}; others are not there, which is warned of. schedule: what to do in
    each step (weft.profiler.schedule); `step()` ends a step. on_trace_ready: called with this object when a cycle of
    the schedule, or the block, has ended. record_shapes: note the shapes of operators' arguments. profile_memory: note
    what memory they take and let go. with_stack: note the user's lines of operators (kernels have theirs in any case).
    with_flops: show the operations of kernels. with_modules and acc_events are accepted so that PyTorch's programs run.

    Raises StateError if it is begun while another profile looks.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
    ) -> None:
        absent = sorted(a.name for a in set(activities or ()) - supported_activities())
        if absent:
            warn(f"profile: there is nothing but the CPU here; left out: {', '.join(absent)}", UserWarning)
        self.schedule, self.on_trace_ready = schedule or record_always, on_trace_ready
        self.has_schedule = schedule is not None
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops = with_flops
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: Recorder | None = None  # that looks now
        self._ended: Recorder | None = None  # whose notes are shown
        self._events: EventList | None = None
        self._metadata: dict[str, Any] = {}
        self._step_began = 0

    # ---- when it looks
    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin."""
        self._step_began = recording.now()
        self._act(self.current_action)

    def stop(self) -> None:
        """End; what was recorded is shown."""
        if self._recorder is None:
            return
        was_recording = self.current_action is not ProfilerAction.WARMUP
        self._note_step()
        self._look_away()
        if was_recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """A step of the program has ended, the next one begins: the schedule says what is done in it."""
        self._note_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._look_away()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        elif before is ProfilerAction.WARMUP and self._recorder is not None:
            self._recorder.forget()
        self._step_began = recording.now()
        self._act(self.current_action)

    def _act(self, action: ProfilerAction) -> None:
        if action not in _LOOKS:
            self._look_away()
        elif self._recorder is None:
            self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack)
            self._recorder.start()

    def _look_away(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self._ended, self._recorder, self._events = self._recorder, None, None

    def _note_step(self) -> None:
        if self._recorder is not None and (self.has_schedule or self.step_num):
            self._recorder.note(STEP, f"ProfilerStep#{self.step_num}", self._step_began)

    # ---- what it has seen
    def events(self) -> EventList:
        """Everything that ran, by its begin: FunctionEvents. Raises StateError before the end."""
        if self._ended is None:
            raise StateError("profile: there are no events before its end: leave the block, or call stop(), first")
        if self._events is None:
            self._events = EventList(events_of(self._ended), self.profile_memory, self.with_flops)
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Averages by name. group_by_input_shape: operators with other shapes apart (record_shapes);
        group_by_stack_n: those of other lines apart (with_stack)."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing or ui.perfetto.dev; compressed where the name ends in .gz."""
        events = self.events()
        assert self._ended is not None
        write_trace(os.fspath(path), chrome_trace(events, self._ended.threads, self._metadata))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a file for flame graphs: what lies within what, and microseconds. Raises ValueProblem for another
        metric."""
        if metric not in _METRICS:
            raise ValueProblem(f"export_stacks: metric={metric!r}; there are {', '.join(_METRICS)}")
        Path(path).write_text("\n".join([*stack_lines(self.events(), metric), ""]), encoding="utf-8")

    def add_metadata(self, key: str, value: str) -> None:
        """Write a text into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Write JSON into the trace."""
        self._metadata[key] = value

    def __repr__(self) -> str:
        state = "looks" if self._recorder is not None else "has ended" if self._ended is not None else "not begun"
        return f"<profile: {state}, step {self.step_num}>"


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An on_trace_ready that writes each trace into a folder, as TensorBoard reads them. worker_name: of the files,
    default the machine's and the process's."""
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def handler(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(str(Path(dir_name) / name))

    return handler
