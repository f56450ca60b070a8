"""Types of a user's operator: its fake implementation, run on tensors that stand for nothing but types."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from weft.record.types_only import run_on_types
from weft.support.errors import StateError
from weft.types import shape_env
from weft.types.shape_env import ShapeEnv
from weft.types.sym import SymInt


class FakeContext:
    """What a fake implementation may ask for (`weft.library.get_ctx()`)."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that hangs on the values of the arguments: known when the operator has run."""
        return SymInt(self.env.unbacked(at_most=max), self.env)


class _Running(threading.local):
    context: FakeContext | None = None


_running = _Running()


def get_ctx() -> FakeContext:
    """The context of the fake implementation that runs. Raises StateError outside of one."""
    if _running.context is None:
        raise StateError("get_ctx() can only be called inside of a fake implementation (register_fake)")
    return _running.context


def fake_types(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What `function` gives for arguments with types in place of tensors, with types in place of tensors again. What it
    asks about sizes is asked of the symbols of whoever wants to know.
    """
    env = shape_env.current_env() or ShapeEnv()
    outer, _running.context = _running.context, FakeContext(env)
    try:
        return run_on_types(function, args, env)
    finally:
        _running.context = outer
