"""weft.profiler: PyTorch's names of profiling. A block can be named and a schedule made; there is no profiler to record
them: weft.explain shows the time of each kernel of a compiled function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NoReturn

from weft.support.errors import Unsupported, ValueProblem

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """Where a profiler looks."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profiler does in one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Where a profiler can look: nowhere, since there is none."""
    return set()


def kineto_available() -> bool:
    """Whether PyTorch's profiler is there: no."""
    return False


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """What a profiler does in each step: for skip_first steps nothing; then in cycles, `repeat` of them (0: for ever):
    nothing for `wait` steps, warm up for `warmup`, record for `active`, and save with the last one. skip_first_wait:
    whether the first cycle does without its `wait`."""
    if active <= 0 or min(wait, warmup, repeat, skip_first) < 0:
        raise ValueProblem("schedule: wait, warmup, repeat and skip_first must be 0 or more, and active at least 1")
    total = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueProblem(f"schedule: a step is 0 or more, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        at = step - skip_first + (wait if skip_first_wait else 0)
        cycle, place = divmod(at, total)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == total - 1 else ProfilerAction.RECORD

    return action


class record_function:
    """A block, or a function, under a name that a profiler would show."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *problem: Any) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return named


class profile:
    """Refused where it is made: there is no profiler."""

    def __init__(self, activities: Iterable[Any] | None = None, **options: Any) -> None:
        raise Unsupported(
            "profiler.profile: there is no profiler; weft.explain(function, *args) shows the kernels of a compiled "
            "function and their times"
        )


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> NoReturn:
    """Refused: there are no traces to write."""
    raise Unsupported("profiler.tensorboard_trace_handler: there is no profiler, whose traces it would write")
