"""Forward-mode derivatives: `jvp(func, primals, tangents)` by running backward twice (u -> J' u is linear;
its own vjp at v is J v).

It works for everything that has a backward, custom Functions too, and costs a small multiple of one backward;
nothing is stored per tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autograd import functional
from weft.support.errors import StateError


def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, create_graph: bool = False
) -> tuple[Any, Any]:
    """(func(*primals), J tangents). Raises StateError when the numbers or sizes of primals and tangents differ."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise StateError("jvp: Expected primals and tangents to be tuples")
    if len(primals) != len(tangents):
        raise StateError(
            f"jvp: Expected primals and tangents to have the same structure, got {len(primals)} primals and "
            f"{len(tangents)} tangents"
        )
    values: tuple[Any, Any] = functional.jvp(func, primals, tangents, create_graph=create_graph)
    return values
