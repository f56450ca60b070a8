"""Containers in what a function returns: those that were there before the call are the ones that the caller gets, and
one that stands in several places is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import guards
from weft.compile.program.again import Again, count, is_numbered
from weft.compile.tracing.assignments import Older, callers_in, containers_in
from weft.record.restart import Restart
from weft.support import pytree


def with_older(
    result: Any, arguments: Any, bound: Sequence[tuple[guards.Slot, Any]], is_older: Callable[[object], bool],
    numbers: dict[Any, int],
) -> Any:
    """The result with leaves in place of containers that are older than the call, and of those that it has already.
    arguments: as the function got them; numbers: takes up the containers that are made (again.py).

    Raises Restart for a container that stands for what a place holds: that must be the very one.
    """
    callers = callers_in(arguments)
    inputs = {id(c): slot.key for slot, value in bound for c in containers_in(value)}
    identical: set[Any] = set()

    def visit(value: Any) -> Any:
        children, spec = pytree.one_level(value)
        if spec.kind is None:
            return value
        if id(value) in callers:
            return callers[id(value)]
        if not is_numbered(spec.kind):
            return pytree.one_built([visit(child) for child in children], spec)
        if id(value) in inputs:
            identical.add(inputs[id(value)])
        elif is_older(value):
            return Older(value)
        if id(value) in numbers:
            return Again(numbers[id(value)])
        whole = pytree.one_built([visit(child) for child in children], spec)
        count(value, numbers)
        return whole

    tree = visit(result)
    if identical:
        raise Restart(identical=identical)
    return tree
