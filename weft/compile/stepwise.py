"""Hooks and custom Functions that do what no program can repeat: prints, ask for values, call foreign code.

A hook or backward of this kind is called by the program (capture/python_calls.py). Where that cannot be, and for a
custom forward, the step runs as it is written, with its backward calls captured by compiled autograd: there what the
user wrote is a call of Python in the captured graph, in order, and what lies between two such calls is native code.
What the attempt to capture the function did has been taken back, so everything happens once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from weft.autograd import accumulate, run_hooks
from weft.autograd.engine import current_runner
from weft.autograd.forward_facts import watched
from weft.autograd.function import Function, FunctionNode
from weft.record.miss_text import LOCATED
from weft.record.outside import LastingHook
from weft.record.python_call import NotCallable
from weft.record.symbolic import ValueAsked
from weft.record.user_code import plain_function, reachable
from weft.record.writes import ArgumentChange
from weft.support import registry
from weft.support.errors import CaptureError, Unsupported, WeftError
from weft.support.locations import is_internal
from weft.support.pytree import TreeSpec
from weft.support.seams import captured_backward
from weft.tensor.backend import Backend

# What calls a hook or a rule of a custom Function.
_CALLERS: frozenset[CodeType] = frozenset((
    run_hooks.call_tensor_hook.__code__,
    run_hooks.call_pre_hook.__code__,
    run_hooks.call_post_hook.__code__,
    accumulate.call_accumulated.__code__,
    FunctionNode.apply.__code__,
    Function._run_forward.__func__.__code__,  # type: ignore[attr-defined]
))


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


def hook_behind(error: BaseException, called: list[Any]) -> CodeType | None:
    """The code of the hook for which a capture was refused, if it was for one of the user's. called: the hooks that
    the capture called, whose code is looked at where an error only names a line."""
    refused = _refusal_in(error)
    if refused is None:
        return None
    frames = [f for f in (*_frames(refused), *_frames(error)) if _is_caller(f)]
    hooks = [_called_on(f) for f in frames] or [hook for hook in called if _is_in(str(refused), [hook])]
    functions = [function for function in map(plain_function, hooks) if function is not None]
    return next((f.__code__ for f in functions if not is_internal(f.__code__.co_filename)), None)


def _is_caller(frame: FrameType) -> bool:
    return frame.f_code in _CALLERS or frame.f_code in registry.user_callers


def _called_on(frame: FrameType) -> Any:
    """The hook or rule that a frame calls, of a kind that a program may call; else None."""
    found = frame.f_locals
    return found.get("hook") or found.get("rule") or getattr(found.get("cls"), "forward", None)


def runs_as_written(error: BaseException, users: list[Any]) -> bool:
    """Whether a capture was refused for what a custom Function, a hook or a scripted program does, for an operator that
    is made of others and asks a tensor for its number, or for what it did to an argument that a program cannot repeat
    (ArgumentChange). users: the hooks and rules that backward calls of the
    capture ran, whose code is looked at where an error only names a line."""
    refused = _refusal_in(error)
    if refused is None:
        return False
    if isinstance(refused, ArgumentChange):
        return True
    passing = [*_frames(refused), *_frames(error)]
    if isinstance(refused, ValueAsked) and any([f.f_code is Backend.composed.__code__ for f in passing]):
        return True
    passed = any(_is_caller(f) or f.f_code in registry.script_callers for f in passing)
    return passed or isinstance(refused, NotCallable) or _is_in(str(refused), users)


def _refusal_in(error: BaseException) -> WeftError | None:
    """The refusal that an error is, or comes from."""
    refused: BaseException | None = error
    while refused is not None and not isinstance(refused, (CaptureError, Unsupported)):
        refused = refused.__cause__ or refused.__context__
    return None if isinstance(refused, LastingHook) else refused


def _frames(error: BaseException) -> Iterator[FrameType]:
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next


def _is_in(text: str, users: list[Any]) -> bool:
    """Whether the line at the beginning of a text lies in code of these functions, or of those that they call."""
    found = LOCATED.match(text)
    if found is None:
        return False
    name, _, line = found[0].rpartition(":")
    return any(_holds(function.__code__, name, int(line)) for function in reachable(users))


def _holds(code: CodeType, name: str, line: int) -> bool:
    """Whether a line of a file, known by the last part of its name, lies in a code object."""
    same_file = code.co_filename.replace("\\", "/").endswith(name)
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return same_file and (any(at == line for _, _, at in code.co_lines()) or any(_holds(c, name, line) for c in inside))
