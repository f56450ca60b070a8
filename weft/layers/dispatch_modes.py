"""Dispatch modes: below autograd, every operator of a block is asked of the mode's `__weft_dispatch__` first,
those of a backward call included.

The modes of a thread stand in one layer among its interceptors, below all transforms (their operators are seen as they
reach the back end).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.autograd.record as record
from weft.guards.watching import watched
from weft.layers import dispatch
from weft.layers.walk import inplace_here, opened, with_history
from weft.ops.op import Op
from weft.ops.packet import Overload
from weft.support.errors import ArgumentError, StateError
from weft.tensor import modes as mode_settings
from weft.tensor.modes import lowest, modes


class WeftDispatchMode:
    """A block whose operators are asked of `__weft_dispatch__`.

    Modes nest: the innermost is asked, and while it answers it is off, so that its own calls reach the next one.
    Gradients are not recorded while it answers: autograd has seen the operator already.
    """

    def __weft_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer an operator; NotImplemented passes it on to the classes of wrappers among its arguments."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Any:
        _put((*current_dispatch_modes(), self))
        return self

    def __exit__(self, *error: Any) -> None:
        stack = current_dispatch_modes()
        if not stack or stack[-1] is not self:
            raise StateError(
                f"{type(self).__name__}: modes must be left in the reverse order in which they were entered"
            )
        _put(stack[:-1])


class DispatchLayer:
    """The interceptor that asks the innermost of its modes."""

    def __init__(self, stack: tuple[WeftDispatchMode, ...]) -> None:
        self.stack = stack

    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator's value: composites are opened, AUTOGRAD records, then the mode is asked."""
        if op.opens_above_autograd:
            return opened(op, args)
        if modes.grad and op.is_differentiable and record.wants_gradient(op, args):
            return with_history(op, args, self._run)
        return self._run(op, args)

    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The in-place operator, idem."""
        return inplace_here(op, args, self._write)

    def lift(self, value: Any) -> Any:
        """The value: a mode wraps nothing."""
        return value

    def _run(self, op: Op, args: tuple[Any, ...]) -> Any:
        return dispatch.run_with(self._ask, op, args)

    def _write(self, op: Op, args: tuple[Any, ...]) -> None:
        dispatch.write_with(self._ask, op, args)

    def _ask(self, func: Overload, asked: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = modes.special
        _put(self.stack[:-1])
        try:
            types = tuple([type(a) for a in asked])
            # (a mode is an object of the step's, where a wrapper's class runs once: what it reads and writes is seen)
            out = watched(self.stack[-1].__weft_dispatch__, func, types, args, kwargs)
            if out is not NotImplemented:
                return out
            if asked:
                return dispatch.ask_classes(func, asked, args, kwargs)
        finally:
            modes.special = before
        raise ArgumentError(
            f"the mode {type(self.stack[-1]).__name__} answers NotImplemented for '{func}', "
            "and no argument has __weft_dispatch__"
        )


def current_dispatch_modes() -> tuple[WeftDispatchMode, ...]:
    """This thread's dispatch modes, outermost first."""
    return next((entry.stack for entry in modes.special or () if isinstance(entry, DispatchLayer)), ())


def _put(stack: tuple[WeftDispatchMode, ...]) -> None:
    """The interceptors with these modes: above inference mode's, below transforms."""
    others = [entry for entry in modes.special or () if not isinstance(entry, DispatchLayer)]
    if stack:
        below = len(lowest() or ())
        below += len(others) > below and others[below] is mode_settings.inference_layer
        others.insert(below, DispatchLayer(stack))
    modes.special = tuple(others) or None
