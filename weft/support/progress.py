"""What a long compilation is doing and how far it is: one line on a terminal or in a notebook, from the second second
on. Silent everywhere else."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sized
from typing import TextIO

from weft.support.knobs import knobs

DELAY, INTERVAL = 1.0, 0.25  # seconds before the first line, and between two


class Progress:
    """One compilation. Whoever works on it says so with `stage`, and counts with `done`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.monotonic()
        self.text, self.done, self.total, self.unit = "starting", 0, 0, ""
        self.growing: Sized = ()

    def stage(self, text: str, total: int = 0, unit: str = "operators", growing: Sized = ()) -> None:
        """Begin another part of the work: of `total` units, or for as long as `growing` grows."""
        self.text, self.done, self.total, self.unit, self.growing = text, 0, total, unit, growing

    def line(self) -> str:
        """`weft: compiling step (4 s): grouping, 40 % of 21,454 operators`."""
        amount = ""
        if self.total:
            share = f"{100 * self.done // self.total} % of " if self.done else ""
            amount = f", {share}{self.total:,} {self.unit}"
        elif len(self.growing):
            amount = f", {len(self.growing):,} {self.unit}"
        return f"weft: compiling {self.name} ({time.monotonic() - self.start:.0f} s): {self.text}{amount}"


class _Local(threading.local):
    current = Progress("")  # where nobody watches, what is noted goes nowhere


_local = _Local()


def progress() -> Progress:
    """The compilation that this thread is at work on."""
    return _local.current


@contextlib.contextmanager
def progress_shown(name: str, stream: TextIO | None = None, delay: float = DELAY) -> Iterator[Progress]:
    """Within the block, `progress()` is a new compilation, whose line is shown if it takes longer
    than `delay` seconds."""
    outer, _local.current = _local.current, Progress(name)
    stream = stream or sys.stderr
    over = threading.Event()
    shower = (
        threading.Thread(target=_show, args=(_local.current, stream, over, delay), daemon=True) if is_wanted(stream)
        else None
    )
    if shower is not None:
        shower.start()
    try:
        yield _local.current
    finally:
        _local.current = outer
        over.set()
        if shower is not None:
            shower.join()


def is_wanted(stream: TextIO | None) -> bool:
    """Whether the knob asks for it, or leaves it to the stream: a terminal and a notebook want it."""
    if stream is None or knobs.progress == "off":
        return False
    return knobs.progress == "on" or _replaces(stream)


def _replaces(stream: TextIO) -> bool:
    """Whether a carriage return begins the line anew: on a terminal, and in a notebook, which is none to Python."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


def _show(watched: Progress, stream: TextIO, over: threading.Event, delay: float) -> None:
    """Print the line until the work is over, each time over the last one (below it where that cannot be),
    and take it away."""
    width, replaces = 0, _replaces(stream)
    last = ""
    while not over.wait(INTERVAL if width else delay):
        line = watched.line()
        if replaces:
            stream.write(f"\r{line:<{width}}")
        elif watched.text != last:
            stream.write(line + "\n")
        stream.flush()
        width, last = max(width, len(line)), watched.text
    if width and replaces:
        stream.write(f"\r{'':<{width}}\r")
        stream.flush()
