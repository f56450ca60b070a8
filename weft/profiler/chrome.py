"""A recording as a file for chrome://tracing and Perfetto: one line of boxes for each thread."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.profiler.events import WORKERS, FunctionEvent

_CATEGORIES = {
    "operator": "cpu_op", "inplace": "cpu_op", "node": "cpu_op", "user": "user_annotation", "step": "user_annotation",
}


def chrome_trace(
    events: Iterable[FunctionEvent], threads: Mapping[int, str], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The events as Chrome's trace format has them. threads: names by numbers."""
    process = os.getpid()
    events = list(events)
    numbers = {thread: i for i, thread in enumerate(dict.fromkeys(event.thread for event in events), 1)}
    boxes = [_box(event, process, numbers[event.thread]) for event in events]
    names = [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": i, "args": {"name": _thread_name(t, threads)}}
        for t, i in numbers.items()
    ]
    return {"schemaVersion": 1, "traceEvents": [*names, *boxes], "displayTimeUnit": "ms", **metadata}


def _thread_name(thread: int, threads: Mapping[int, str]) -> str:
    return f"weft-worker-{thread - WORKERS}" if thread > WORKERS else threads.get(thread, f"thread {thread}")


def _box(event: FunctionEvent, process: int, thread: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": event.kind, "External id": event.id}
    if event.lines:
        facts["Source"] = [f"{line.file}:{line.line}" for line in event.lines]
    if event.input_shapes:
        facts["Input Dims"] = event.input_shapes
    for name, value in (
        ("bytes", event.bytes), ("operations", event.operations), ("memory", event.cpu_memory_usage)
    ):
        if value:
            facts[name] = value
    return {
        "ph": "X", "cat": _CATEGORIES.get(event.kind, event.kind), "name": event.name, "pid": process,
        "tid": thread, "ts": event.start, "dur": max(0.0, event.cpu_time_total), "args": facts,
    }


def write_trace(path: str, trace: Mapping[str, Any]) -> None:
    """Write it; compressed where the name ends in .gz."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(trace))


def stack_lines(events: Sequence[FunctionEvent], metric: str) -> list[str]:
    """`outer;inner microseconds` for each event with time of its own, as flame graphs are made of."""
    lines = []
    for event in events:
        value = int(getattr(event, metric))
        if value > 0:
            names: list[str] = []
            at: FunctionEvent | None = event
            while at is not None:
                names.insert(0, at.name.replace(";", ",").replace(" ", "_"))
                at = at.cpu_parent
            lines.append(f"{';'.join(names)} {value}")
    return lines
