"""Where time goes: PyTorch's profiler, under its names, for operators, backward calls and the kernels of programs.

    with weft.profiler.profile() as prof:
        for x, y in data:
            step(x, y)
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

Operators that Python calls are timed in Python; the kernels of compiled programs by native code, with the processor's
clock, each with the user's lines that it comes from. While nobody profiles, nothing is watched.

Start reading at recorder.py (what is noted while a program runs), then events.py (what is made of it), averages.py (the
table), profile.py (the names of PyTorch's).
"""

from weft.profiler.averages import EventList, FunctionEventAvg
from weft.profiler.events import FunctionEvent
from weft.profiler.profile import (
    kineto_available,
    profile,
    record_function,
    supported_activities,
    tensorboard_trace_handler,
)
from weft.profiler.schedules import ProfilerAction, ProfilerActivity, schedule

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
