"""Code that Python runs in between, on behalf of nobody who is captured: finalizers, callbacks of weak references and
of the garbage collector, signal handlers, the user's own trace and profile functions. It steps aside: it runs as if
nothing were captured."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal's own functions are Python, which would be watched
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

StepAside = Callable[[], AbstractContextManager[None]]
_MOST: Final = 3  # arguments that a callback of Python's has, `self` included
_PHASES: Final = ("start", "stop")


def is_aside(frame: FrameType) -> bool:
    """Whether a frame that begins is a finalizer, or a callback of a weak reference or of the garbage collector."""
    code = frame.f_code
    if code.co_name == "__del__":
        return True
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    if code.co_argcount > _MOST or not (code.co_argcount or has_rest):
        return False
    values = frame.f_locals
    given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if has_rest:
        given += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    if frame.f_globals.get("__name__") in ("weakref", "_weakrefset"):
        return any(map(_is_dead, given))
    if len(given) > 1 and not _is_phase(given) and _is_method(given[0], code):
        given = given[1:]
    return _is_dead(given[0]) if len(given) == 1 else _is_phase(given)


def _is_phase(given: list[Any]) -> bool:
    """Whether these are the arguments that the garbage collector calls back with."""
    return (
        len(given) == 2 and type(given[0]) is str and given[0] in _PHASES and type(given[1]) is dict
        and "generation" in given[1]
    )


def _is_method(first: Any, code: CodeType) -> bool:
    """Whether a first argument is the object or class whose method runs. Nothing of the user's is asked."""
    for cls in (first if isinstance(first, type) else type(first)).__mro__:
        member = cls.__dict__.get(code.co_name)
        if getattr(getattr(member, "__func__", member), "__code__", None) is code:
            return True
    return False


def _is_dead(value: Any) -> bool:
    """Whether a value is a weak reference whose object is gone: what Python calls back with."""
    return isinstance(value, weakref.ref) and value() is None


@contextmanager
def users_aside(step_aside: StepAside) -> Iterator[None]:
    """Within the block signal handlers and the trace function step aside that the user has set."""
    handlers: list[tuple[int, Any, Any]] = []
    if threading.current_thread() is threading.main_thread():
        for number in range(1, _signal.NSIG):
            handler = _signal.getsignal(number)
            if isinstance(handler, (FunctionType, MethodType)) or _is_object(handler):
                handlers.append((number, handler, _aside(handler, step_aside)))
    tracer = sys.gettrace()
    traced = _traced(tracer, step_aside) if isinstance(tracer, (FunctionType, MethodType)) else None
    try:
        for number, _, instead in handlers:
            _signal.signal(number, instead)
        if traced is not None:
            sys.settrace(traced)
        yield
    finally:
        if traced is not None and sys.gettrace() is traced:
            sys.settrace(tracer)
        for number, handler, instead in handlers:
            if _signal.getsignal(number) is instead:  # what someone else put there stays
                _signal.signal(number, handler)


def _is_object(handler: Any) -> bool:
    """Whether a signal handler is an object of the user's that can be called."""
    return any(isinstance(cls.__dict__.get("__call__"), FunctionType) for cls in type(handler).__mro__)


def _aside(function: Callable[..., Any], step_aside: StepAside) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with step_aside():
            return function(*args)

    return run


def _traced(tracer: Callable[..., Any], step_aside: StepAside) -> Callable[..., Any]:
    """A trace function that steps aside, and so do the local ones that it gives."""

    def run(*args: Any) -> Any:
        with step_aside():
            local = tracer(*args)
        if local is tracer:
            return run
        return None if local is None else _traced(local, step_aside)

    return run
