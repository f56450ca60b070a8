"""Hooks and custom Functions that do what no program can repeat: prints, ask for values, call foreign code.

A hook or backward of this kind is called by the program (capture/python_calls.py). Where that cannot be, and for a
custom forward, the step runs as it is written, with its backward calls captured by compiled autograd: there what the
user wrote is a call of Python in the captured graph, in order, and what lies between two such calls is native code.
What the attempt to capture the function did has been taken back, so everything happens once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import CodeType
from typing import Any

from weft.autograd.engine import current_runner
from weft.autograd.forward_facts import watched
from weft.record.outside import LastingHook
from weft.record.python_call import NotCallable
from weft.record.symbolic import ValueAsked
from weft.record.user_code import plain_function, reachable
from weft.record.writes import ArgumentChange
from weft.support.errors import CaptureError, WeftError
from weft.support.locations import Location, is_internal
from weft.support.pytree import TreeSpec
from weft.support.refusals import Caller, refusal_in
from weft.support.seams import captured_backward

_FIRST_RETRY = 8


@dataclass
class Stepwise:
    """A structure of arguments for which a function is no program, why, and how many calls there were since."""

    spec: TreeSpec
    why: str
    waits: bool = False  # since it meets tensors whose values wait: its backward calls wait as well
    calls: int = 0

    def is_due(self) -> bool:
        """Count a call. Whether to try again: now and then, at calls 8, 16, 32, ..., for what stood in the way may
        be gone (a hook that was removed, a flag)."""
        self.calls += 1
        return self.calls >= _FIRST_RETRY and self.calls & (self.calls - 1) == 0


def run_stepwise(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """Call a function as it is written, its backward calls captured (unless they are by another compiler already).
    Gives its result, and the forwards of custom Functions that it called."""
    with watched() as seen, captured_backward() if current_runner() is None else nullcontext():
        return function(*args, **kwargs), seen


def hook_at_fault(error: BaseException, called: list[Any]) -> CodeType | None:
    """The code of the hook for which a capture was refused, if it was for one of the user's. called: the hooks that
    the capture called, whose code is looked at where an error only names a line."""
    refusal = _refusal_in(error)
    if refusal is None:
        return None
    users = [passed.code for passed in reversed(refusal.passed) if passed.kind is Caller.USER]
    hooks = users or [hook for hook in called if _holds_line([hook], refusal)]
    functions = [function for function in map(plain_function, hooks) if function is not None]
    return next((f.__code__ for f in functions if not is_internal(f.__code__.co_filename)), None)


def runs_as_written(error: BaseException, users: list[Any]) -> bool:
    """Whether a capture was refused for what a custom Function, a hook or a scripted program does, for an operator that
    is made of others and asks a tensor for its number, or for what it did to an argument that a program cannot repeat
    (ArgumentChange). users: the hooks and rules that backward calls of the
    capture ran, whose code is looked at where an error only names a line."""
    refusal = _refusal_in(error)
    if refusal is None:
        return False
    if isinstance(refusal, (ArgumentChange, NotCallable)):
        return True
    kinds = {passed.kind for passed in refusal.passed}
    if isinstance(refusal, ValueAsked) and Caller.COMPOSITE in kinds:
        return True
    return Caller.USER in kinds or Caller.SCRIPT in kinds or _holds_line(users, refusal)


def _refusal_in(error: BaseException) -> WeftError | None:
    """The refusal that an error is, or comes from, if there is a way to go on."""
    refusal = refusal_in(error)
    return None if isinstance(refusal, LastingHook) else refusal


def _holds_line(users: list[Any], refusal: WeftError) -> bool:
    """Whether the line that a refusal names lies in code of these functions, or of those that they call."""
    where = refusal.where if isinstance(refusal, CaptureError) else None
    return where is not None and any(_holds(function.__code__, where) for function in reachable(users))


def _holds(code: CodeType, where: Location) -> bool:
    """Whether a line lies in a code object."""
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return code.co_filename == where.file and (
        any(line == where.line for _, _, line in code.co_lines()) or any(_holds(c, where) for c in inside)
    )
