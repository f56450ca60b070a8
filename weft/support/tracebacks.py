"""Tracebacks as users read them: errors that end a program or a thread are shown without weft's own frames.
WEFT_DEBUG=frames shows them all.

Only what is printed changes: an exception that is caught has every frame, and so have debuggers.
A hook that somebody else installed stays in charge of the printing, and is given the shorter traceback.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from weft.support.knobs import knobs
from weft.support.locations import is_internal

_previous: list[Callable[..., Any]] = []


def install() -> None:
    """Leave weft's frames out of what sys.excepthook and threading.excepthook print from now on."""
    if _previous:
        return
    _previous[:] = [sys.excepthook, threading.excepthook]
    sys.excepthook = _shown
    threading.excepthook = _shown_in_thread


def without_internal(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback less weft's own frames; the whole one if no line of a file of the user's would be left."""
    kept = [step for step in _steps(traceback) if not is_internal(step.tb_frame.f_code.co_filename)]
    if all(step.tb_frame.f_code.co_filename.startswith("<frozen") for step in kept):
        return traceback
    shorter: TracebackType | None = None
    for step in reversed(kept):
        shorter = TracebackType(shorter, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return shorter


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _shown(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    with _Shortened(error):
        _previous[0](kind, error, traceback if "frames" in knobs.debug else without_internal(traceback))


def _shown_in_thread(args: Any) -> None:
    if args.exc_value is None or "frames" in knobs.debug:
        _previous[1](args)
        return
    with _Shortened(args.exc_value):
        _previous[1](
            threading.ExceptHookArgs((args.exc_type, args.exc_value, without_internal(args.exc_traceback), args.thread))
        )


class _Shortened:
    """The tracebacks of an error, and of those that led to it, without weft's frames within a block."""

    def __init__(self, error: BaseException) -> None:
        self._whole = [] if "frames" in knobs.debug else [(e, e.__traceback__) for e in _chain(error)]

    def __enter__(self) -> None:
        for error, traceback in self._whole:
            error.__traceback__ = without_internal(traceback)

    def __exit__(self, *_: object) -> None:
        for error, traceback in self._whole:
            error.__traceback__ = traceback


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending = [error]
    while pending:
        exception = pending.pop()
        if exception is not None and id(exception) not in seen:
            seen.add(id(exception))
            yield exception
            pending += [exception.__cause__, exception.__context__]
