"""What a refused capture came out of: the hooks and rules of users, scripted programs and composites that it passed on
its way. Whoever calls one of these says so where an error passes; nobody reads frames of a traceback."""

from __future__ import annotations

import threading
from enum import Enum
from typing import Any, NamedTuple

from weft.support.errors import CaptureError, Unsupported, WeftError


class Caller(Enum):
    """What kind of code a refusal came out of."""

    USER = "a hook, or a rule of a custom Function"
    SCRIPT = "a scripted program"
    COMPOSITE = "the rule of an operator that is made of others"


class Passed(NamedTuple):
    """One of them. code: the hook or rule, where it is known."""

    kind: Caller
    code: Any


def passes(error: BaseException, kind: Caller, code: Any = None) -> None:
    """Note that an error comes out of a call of `code`, if it is a refusal or was raised for one."""
    refusal = refusal_in(error)
    if refusal is not None:
        refusal.passed = (*refusal.passed, Passed(kind, code))


class _Running(threading.local):
    """How many hooks and rules of users run on this thread, one within the other."""

    depth: int = 0


_running = _Running()


def call_user(function: Any, *args: Any, code: Any = None) -> Any:
    """Call a hook, or a rule of a custom Function. A refusal that comes out of it says so. code: the user's function,
    where `function` is what calls it."""
    _running.depth += 1
    try:
        return function(*args)
    except BaseException as error:
        passes(error, Caller.USER, function if code is None else code)
        raise
    finally:
        _running.depth -= 1


def in_user_call() -> bool:
    """Whether a hook or rule runs, which a program may call where a capture refuses it: nothing of what it did can be
    left behind then."""
    return _running.depth > 0


def refusal_in(error: BaseException | None) -> WeftError | None:
    """The refusal that an error is, or comes from."""
    while error is not None and not isinstance(error, (CaptureError, Unsupported)):
        error = error.__cause__ or error.__context__
    return error
