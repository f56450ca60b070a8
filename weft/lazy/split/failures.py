"""What a trace had computed before one of its calls failed, as eager mode would have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft.ops.compute as compute
from weft.lazy.values import Array, Deferred, Node
from weft.support.errors import WeftError
from weft.support.locations import located

Place = int | Deferred  # of a value: in the trace, or with bytes of its own
Written = tuple[int, Place]  # how many calls there were when a family was given a value, and the value


class Repeated:
    """The calls of a trace, run one after the other up to the one that fails. places: of values by their identity,
    where they are no results of a node any more; bits: of a place that say which result of a call it is. error: what
    the call raised, with the user's line.
    """

    def __init__(self, nodes: Sequence[Node], places: dict[int, int], bits: int) -> None:
        self._places, self._bits = places, bits
        self.results: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        for node in nodes:
            try:
                args = tuple([self._argument(a) for a in node.args])
                out = compute.evaluate(node.op, compute.laid_out(node.op, args))
            except Exception as error:
                where = located(node.where)
                self.error = error if where is None else _told(error, f"{where}: {error}")
                break
            self.results.append(tuple(out) if isinstance(out, (tuple, list)) else (out,))

    def _argument(self, a: Any) -> Any:
        if type(a) is tuple:
            return tuple([self._argument(v) for v in a])
        return self.value(self._place(a)) if type(a) is Deferred else a

    def _place(self, value: Deferred) -> Place:
        place = self._places.get(id(value))
        if place is None:
            place = None if value.node is None else value.node.position << self._bits | value.index
        return value if place is None else place

    def value(self, place: Place) -> Array | None:
        """The bytes of a value; None if its call was not reached."""
        if type(place) is Deferred:
            return place.read()
        assert type(place) is int
        call, index = place >> self._bits, place & (1 << self._bits) - 1
        return self.results[call][index] if call < len(self.results) else None

    def latest(self, written: Sequence[Written]) -> Array | None:
        """What was written last before the call that failed."""
        for calls, place in reversed(written):
            if calls <= len(self.results):
                found = self.value(place)
                if found is not None:
                    return found
        return None


def _told(error: Exception, text: str) -> Exception:
    return type(error)(text) if isinstance(error, WeftError) else error
