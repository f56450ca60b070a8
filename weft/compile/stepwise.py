"""Functions that are not one program, because a custom Function or a hook in them does what no program can repeat:
prints, asks for values, calls foreign code.

Such a function runs as it is written, with its backward calls captured by compiled autograd: there what the user wrote
is a call of Python in the captured graph, in order, and what lies between two such calls is native code. What the
attempt to capture the function did has been taken back, so everything happens once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from weft.autograd import accumulate, run_hooks
from weft.autograd.engine import current_runner
from weft.autograd.function import Function, FunctionNode
from weft.compile.capture.outside import LastingHook
from weft.compile.miss_text import LOCATED
from weft.support.errors import CaptureError
from weft.support.locations import is_internal
from weft.support.pytree import TreeSpec
from weft.support.seams import captured_backward

# What calls the user's part of a Function, or a hook.
_CALLERS: frozenset[CodeType] = frozenset((
    Function._run_forward.__func__.__code__,  # type: ignore[attr-defined]
    FunctionNode.apply.__code__,
    run_hooks.call_tensor_hook.__code__,
    run_hooks.call_pre_hook.__code__,
    run_hooks.call_post_hook.__code__,
    accumulate.AccumulateGrad._after.__code__,
))


_MOST_FUNCTIONS = 256
_FIRST_RETRY = 8


@dataclass
class Stepwise:
    """A structure of arguments for which a function is no program, and how many calls there were since."""

    spec: TreeSpec
    waits: bool = False  # since it meets tensors whose values wait: its backward calls wait as well
    calls: int = 0

    def is_due(self) -> bool:
        """Count a call. Whether to try again: now and then, at calls 8, 16, 32, ..., for what stood in the way may
        be gone (a hook that was removed, a flag)."""
        self.calls += 1
        return self.calls >= _FIRST_RETRY and self.calls & (self.calls - 1) == 0


def run_stepwise(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function as it is written, its backward calls captured (unless they are by another compiler already)."""
    if current_runner() is not None:
        return function(*args, **kwargs)
    with captured_backward():
        return function(*args, **kwargs)


def is_of_user_call(error: BaseException, users: list[Any]) -> bool:
    """Whether a capture was refused for what a custom Function or a hook does. users: the hooks and rules that backward
    calls of the capture ran, whose code is looked at where an error only names a line."""
    refused: BaseException | None = error
    while refused is not None and not isinstance(refused, CaptureError):
        refused = refused.__cause__ or refused.__context__
    if refused is None or isinstance(refused, LastingHook):
        return False
    return _passed_callers(refused) or _passed_callers(error) or _is_in(str(refused), users)


def _passed_callers(error: BaseException) -> bool:
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in _CALLERS:
            return True
        step = step.tb_next
    return False


def _is_in(text: str, users: list[Any]) -> bool:
    """Whether the line at the beginning of a text lies in code of these functions, or of those that they call."""
    found = LOCATED.match(text)
    if found is None:
        return False
    name, _, line = found[0].rpartition(":")
    return any(_holds(code, name, int(line)) for code in _reachable(users))


def _holds(code: CodeType, name: str, line: int) -> bool:
    """Whether a line of a file, known by the last part of its name, lies in a code object."""
    same_file = code.co_filename.replace("\\", "/").endswith(name)
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return same_file and (any(at == line for _, _, at in code.co_lines()) or any(_holds(c, name, line) for c in inside))


def _reachable(called: list[Any]) -> Iterator[CodeType]:
    """The code of functions, and of the user's functions that they name."""
    pending, seen = list(called), set[int]()
    while pending and len(seen) < _MOST_FUNCTIONS:
        function = _plain(pending.pop())
        if function is None or id(function) in seen or is_internal(function.__code__.co_filename):
            continue
        seen.add(id(function))
        yield function.__code__
        names = function.__code__.co_names
        pending += [function.__globals__[name] for name in names if name in function.__globals__]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty cell
                pending.append(cell.cell_contents)


def _plain(function: Any) -> FunctionType | None:
    """The function behind a callable: through methods, partials and objects with `__call__`; None for anything else."""
    while not isinstance(function, FunctionType):
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif isinstance(function, type) or not isinstance(type(function).__dict__.get("__call__"), FunctionType):
            return None
        else:
            function = type(function).__dict__["__call__"]
    return function
