"""Code that Python runs in between, on behalf of nobody who is captured: finalizers, callbacks of weak references and
of the garbage collector, signal handlers, the user's own trace and profile functions. It steps aside: it runs as if
nothing were captured."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal's own functions are Python, which would be watched
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

from weft.support.asides import aside
from weft.support.interrupts import to_the_end

StepAside = Callable[[], AbstractContextManager[None]]
_NO_HANDLERS: Final = (int, type(None), BuiltinFunctionType)
_MOST: Final = 3  # arguments that a callback of Python's has, `self` included
_PHASES: Final = ("start", "stop")


def is_aside(frame: FrameType) -> bool:
    """Whether a frame that begins is a finalizer, a signal handler, or a callback of a weak reference or of the garbage
    collector."""
    code = frame.f_code
    if code.co_name == "__del__":
        return True
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    if code.co_argcount > _MOST or not (code.co_argcount or has_rest):
        return False
    values = frame.f_locals
    args = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if has_rest:
        args += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    if frame.f_globals.get("__name__") in ("weakref", "_weakrefset"):
        return any(map(_is_dead, args))
    if len(args) > 1 and not _is_phase(args) and _is_method(args[0], code):
        args = args[1:]
    if len(args) == 1:
        return _is_dead(args[0])
    return _is_phase(args) or (len(args) == 2 and type(args[0]) is int and args[1] is frame.f_back is not None)


def _is_phase(args: list[Any]) -> bool:
    """Whether these are the arguments that the garbage collector calls back with."""
    return (
        len(args) == 2 and type(args[0]) is str and args[0] in _PHASES and type(args[1]) is dict
        and "generation" in args[1]
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


_never: dict[int, CodeType] = {}  # by id: code that was seen not to be in between when it first ran
_MOST_CODES: Final = 1 << 12


def is_in_between(ends: Collection[int]) -> bool:
    """Whether what runs now was called from code in between, up to the innermost frame whose code has one of these ids.

    Whether a function is called back for a weak reference is asked until it is called otherwise.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if id(code) not in _never:
            if id(code) in ends:
                return False
            if is_aside(frame):
                return True
            if len(_never) >= _MOST_CODES:
                _never.clear()
            _never[id(code)] = code
        frame = frame.f_back
    return False


@contextmanager
def users_aside(step_aside: StepAside) -> Iterator[_Handlers]:
    """Within the block signal handlers and the trace function step aside that the user has set."""
    with _Handlers(step_aside) as handlers:
        tracer = sys.gettrace()
        traced = _traced(tracer, step_aside) if isinstance(tracer, (FunctionType, MethodType)) else None
        try:
            handlers.put_aside()
            if traced is not None:
                sys.settrace(traced)
            yield handlers
        finally:
            handlers.is_over = True
            if traced is not None and sys.gettrace() is traced:
                sys.settrace(tracer)


class _Handlers:
    """A block within which the user's signal handlers step aside. is_over: whether it has ended, though an interrupt
    may have come before they were put back."""

    def __init__(self, step_aside: StepAside) -> None:
        self.is_over = False
        self._step_aside = step_aside
        self._places: list[tuple[int, Any, Any]] = []  # the signal, its handler, and what stands there instead

    def __enter__(self) -> _Handlers:
        return self

    def put_aside(self) -> None:
        """Those that are set now step aside."""
        if threading.current_thread() is not threading.main_thread():
            return
        stand_ins = [instead for _, _, instead in self._places]
        for number in range(1, _signal.NSIG):
            handler = _users(_signal.getsignal(number))
            if type(handler) in _NO_HANDLERS or any(handler is instead for instead in stand_ins):
                continue
            if isinstance(handler, (FunctionType, MethodType)) or _is_object(handler):
                instead = self._instead(number, handler)
                self._places.append((number, handler, instead))
                _signal.signal(number, instead)

    def _instead(self, number: int, handler: Callable[..., Any]) -> Callable[..., Any]:
        """What stands in a handler's place. One that raises may end the block where nothing puts it back: it is in its
        own place by then. So is one that is called when the block is over."""
        step_aside, is_over = self._step_aside, self._question()

        def run(*args: Any) -> Any:
            if is_over():
                _put_back(number, handler, run)
                return handler(*args)
            try:
                with step_aside():
                    return handler(*args)
            except BaseException:
                _put_back(number, handler, run)
                raise

        run.stands_for = handler, is_over  # type: ignore[attr-defined]
        return run

    def _question(self) -> Callable[[], bool]:
        """Whether the block is over, asked of one that may have gone."""
        reference = weakref.ref(self)

        def is_over() -> bool:
            block = reference()
            return block is None or block.is_over

        return is_over

    def __exit__(self, *error: object) -> None:
        to_the_end(self._put_all_back)

    def _put_all_back(self) -> None:
        for number, handler, instead in self._places:
            _put_back(number, handler, instead)


def _put_back(number: int, handler: Any, instead: Any) -> None:
    """Put a handler back in its place; what someone else put there stays."""
    if _signal.getsignal(number) is instead:
        _signal.signal(number, handler)


def _users(handler: Any) -> Any:
    """The handler that the user has set, in whose place one of a block that is over may stand."""
    stands_for, is_over = getattr(handler, "stands_for", (None, None))
    return _users(stands_for) if is_over is not None and is_over() else handler


@contextmanager
def stepping_aside() -> Iterator[None]:
    """Within the block code in between steps aside on this thread, for who records and watches no frames."""
    beneath: Any = sys.getprofile()
    if beneath is not None and (hasattr(beneath, "beneath") or not isinstance(beneath, (FunctionType, MethodType))):
        yield  # frames are watched already, or seen by a profiler that is written in C
        return
    open_block: list[tuple[FrameType, ExitStack]] = []

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        if beneath is not None:
            beneath(frame, event, arg)
        if event == "call" and not open_block and is_aside(frame):
            block = ExitStack()
            block.enter_context(aside())
            open_block.append((frame, block))
        elif event == "return" and open_block and frame is open_block[0][0]:
            open_block.pop()[1].close()
        elif event == "c_return" and arg is _signal.signal:  # a handler that runs while this does is in no event
            handlers.put_aside()

    hook.beneath, hook.install = beneath, None  # type: ignore[attr-defined]
    with users_aside(aside) as handlers:
        sys.setprofile(hook)
        try:
            yield
        finally:
            sys.setprofile(beneath)


def _is_object(handler: Any) -> bool:
    """Whether a signal handler is an object of the user's that can be called."""
    return any(isinstance(cls.__dict__.get("__call__"), FunctionType) for cls in type(handler).__mro__)


def _traced(tracer: Callable[..., Any], step_aside: StepAside) -> Callable[..., Any]:
    """A trace function that steps aside, and so do the local ones that it gives."""

    def run(*args: Any) -> Any:
        with step_aside():
            local = tracer(*args)
        if local is tracer:
            return run
        return None if local is None else _traced(local, step_aside)

    return run
