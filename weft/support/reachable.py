"""Objects that others lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def reachable(
    roots: Iterable[Any], inside: Callable[[Any], Iterable[Any]], most: int | None = None
) -> Iterator[Any]:
    """The roots, what `inside` gives for each, and so on: each object once. most: how many are looked into."""
    seen: set[int] = set()
    pending = list(roots)
    while pending and (most is None or len(seen) < most):
        value = pending.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            pending += inside(value)
