"""What a trace had computed before one of its calls failed, as eager mode would have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft.ops.compute as compute
from weft.lazy.recorded import Opened
from weft.lazy.trace import INDEX_BITS, Trace
from weft.lazy.values import Array, Cell, Deferred, Node, SizeOf
from weft.support.errors import WeftError
from weft.support.locations import located
from weft.types.dims import evaluate
from weft.types.unbacked import UnbackedSize

Place = int | Deferred  # of a value: in the trace, or with bytes of its own
Written = tuple[int, Place]  # how many calls there were when a family was given a value, and the value


class Repeated:
    """The calls of a trace, run one after the other up to the one that fails. places: of values by their identity,
    where they are no results of a node any more. error: what the call raised, with the user's line. reached: how many
    entries of the trace were computed.
    """

    def __init__(self, trace: Trace, nodes: Sequence[Node], places: dict[int, int]) -> None:
        self._places = places
        self._plain = plain = Opened(trace, nodes)
        self.results: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.reached = len(nodes)
        for node, (entry, _) in zip(plain.nodes, plain.sources, strict=True):
            try:
                args = tuple([self._argument(a) for a in node.args])
                out = compute.evaluate_in_program(node.op, args)
            except Exception as error:
                where = located(node.where)
                self.error = error if where is None else _reported(error, f"{where}: {error}")
                self.reached = entry
                break
            self.results.append(tuple(out) if isinstance(out, (tuple, list)) else (out,))

    def _argument(self, a: Any) -> Any:
        if type(a) is tuple:
            return tuple([self._argument(v) for v in a])
        if type(a) is SizeOf:
            return evaluate(a.expr, {name: self._bytes(value).shape[axis] for name, value, axis in a.sources})
        return self._bytes(a) if type(a) is Deferred else a

    def _bytes(self, value: Deferred) -> Any:
        place = self._places.get(id(value))
        if place is not None:
            return self.value(place)
        return value.read() if value.node is None else self.results[value.node.position][value.index]

    def value(self, place: Place) -> Array | None:
        """The bytes of a value; None if its call was not reached."""
        if type(place) is Deferred:
            return place.read()
        assert type(place) is int
        call, index = self._plain.place(place >> INDEX_BITS, place & (1 << INDEX_BITS) - 1)
        return self.results[call][index] if call < len(self.results) else None

    def settle(self, size: UnbackedSize, error: BaseException) -> None:
        """The number of a size; whoever asks for it meets the error if its call was not reached."""
        value: Deferred = size.value
        array = self.value(self._places[id(value)])
        if array is not None:
            size.settle(array.shape[size.axis])
        else:
            fail(value, self.error or error)

    def latest(self, written: Sequence[Written]) -> Array | None:
        """What was written last before the call that failed."""
        for calls, place in reversed(written):
            if calls <= self.reached:
                array = self.value(place)
                if array is not None:
                    return array
        return None


def fail(value: Deferred, error: BaseException) -> None:
    """Let whoever asks for a value that waits meet an error."""
    if value.cell is None or value.cell.array is None:
        value.cell, value.node = Cell(), None
        value.cell.error = error


def _reported(error: Exception, text: str) -> Exception:
    return type(error)(text) if isinstance(error, WeftError) else error
