"""When a profiler looks: what it does in each step."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from weft.support.errors import ValueProblem


class ProfilerActivity(Enum):
    """Where a profiler looks. weft runs on the CPU alone."""

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


def record_always(step: int) -> ProfilerAction:
    """The schedule of a profiler that was given none."""
    return ProfilerAction.RECORD
