"""The first step of a call: which world the arguments live in.

A class whose instances operators accept has `__weft_route__(op, args)`: Tensor walks the layers, ir.Handle goes to a
builder, ops.Array computes with NumPy. A call without such an argument (a factory) goes to the thread's default route.
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


defaults = _Defaults()  # where calls without tensor arguments go within a rule
_base: list[Route] = []


def install_base(route: Route) -> None:
    """The route of factories outside any rule (the tensor's walk)."""
    _base[:] = [route]


def run_as_usual(op: Op, args: tuple[Any, ...]) -> Any:
    """What a call without tensor arguments does where no route is set."""
    return _base[0](op, args)


@contextmanager
def default_route(route: Route) -> Iterator[None]:
    """Send calls without tensor arguments to `route` within a block."""
    previous = defaults.stack
    defaults.stack = (*previous, route)
    try:
        yield
    finally:
        defaults.stack = previous


def route_of(op: Op, args: tuple[Any, ...]) -> Route | None:
    """The route of the first argument that has one: tensors first, then what may be a number in a tensor's place, then
    tensor lists, then numbers."""
    number: Route | None = None
    for i in op.tensor_positions:
        kind = type(args[i])
        route: Route | None = getattr(kind, "__weft_route__", None)
        if route is not None:
            if not hasattr(kind, "__weft_number__"):
                return route
            number = number or route
    if number is not None:
        return number
    for i in op.tensor_list_positions:
        for value in args[i] or ():
            of_item: Route | None = getattr(type(value), "__weft_route__", None)
            if of_item is not None:
                return of_item
    for i in op.number_positions:
        of_number: Route | None = getattr(type(args[i]), "__weft_route__", None)
        if of_number is not None:
            return of_number
    return None


def call(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an operator on bound arguments."""
    route = route_of(op, args)
    if route is not None:
        return route(op, args)
    if defaults.stack:
        return defaults.stack[-1](op, args)
    if not _base:
        raise StateError(f"{op.name}: no back end is installed; import weft")
    return _base[0](op, args)
