"""The first step of a call: which world the arguments live in.

A class whose instances operators accept has `__weft_route__(op, args)`: Tensor walks the layers, ir.Handle goes to a builder, ops.Array computes
with NumPy. A call without such an argument (a factory) goes to the thread's default route.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.ops.op import Op
from weft.support.errors import StateError

Route = Callable[[Op, tuple[Any, ...]], Any]


class _Defaults(threading.local):
    stack: tuple[Route, ...] = ()


_defaults = _Defaults()
_base: list[Route] = []


def install_base(route: Route) -> None:
    """The route of factories outside any rule (the tensor's walk)."""
    _base[:] = [route]


@contextmanager
def default_route(route: Route) -> Iterator[None]:
    """Send calls without tensor arguments to `route` within a block."""
    previous = _defaults.stack
    _defaults.stack = (*previous, route)
    try:
        yield
    finally:
        _defaults.stack = previous


def call(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an operator on bound arguments."""
    for i in op.tensor_positions:
        found = getattr(type(args[i]), "__weft_route__", None)
        if found is not None:
            return found(op, args)
    for i in op.tensor_list_positions:
        for value in args[i] or ():
            found = getattr(type(value), "__weft_route__", None)
            if found is not None:
                return found(op, args)
    for i in op.number_positions:
        found = getattr(type(args[i]), "__weft_route__", None)
        if found is not None:
            return found(op, args)
    if _defaults.stack:
        return _defaults.stack[-1](op, args)
    if not _base:
        raise StateError(f"{op.name}: no back end is installed; import weft")
    return _base[0](op, args)
