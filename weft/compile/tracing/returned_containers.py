"""Containers in what a function returns: those that were there before the call are the ones that the caller gets, and
one that stands in several places is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    inputs = {id(c): slot.key for slot, value in bound for c in containers_in(value)}
    walk = _Walk(callers_in(arguments), inputs, is_older, numbers)
    tree = walk.visit(result)
    if walk.identical:
        raise Restart(identical=walk.identical)
    return tree


class _Walk:
    """The walk over a result. (No function within the other: a cycle would keep what was observed alive, and with it
    what the program asks about, be it by a weak reference.)"""

    def __init__(
        self, callers: Mapping[int, Any], inputs: Mapping[int, Any], is_older: Callable[[object], bool],
        numbers: dict[Any, int],
    ) -> None:
        self.callers, self.inputs, self.is_older, self.numbers = callers, inputs, is_older, numbers
        self.identical: set[Any] = set()

    def visit(self, value: Any) -> Any:
        """What stands for a part of the result."""
        children, spec = pytree.one_level(value)
        if spec.kind is None:
            return value
        if id(value) in self.callers:
            return self.callers[id(value)]
        if not is_numbered(spec.kind):
            return pytree.one_built([self.visit(child) for child in children], spec)
        if id(value) in self.inputs:
            self.identical.add(self.inputs[id(value)])
        elif self.is_older(value):
            return Older(value)
        if id(value) in self.numbers:
            return Again(self.numbers[id(value)])
        whole = pytree.one_built([self.visit(child) for child in children], spec)
        count(value, self.numbers)
        return whole
