"""What carries bytes between the ranks of a group: the interface, and the one of a group of one process.

Every buffer is a one-dimensional, contiguous array; ranks are those of the group. A call starts the transfer and
returns a Request; until it is done the buffers may neither be read (results) nor written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from weft.distributed.names import ReduceOp
from weft.support.errors import StateError

Array = np.ndarray[Any, Any]


class Request(Protocol):
    """A transfer under way."""

    source: int | None  # the rank that a message came from, once it is there

    def test(self) -> bool:
        """Whether it is done; moves it on."""


class Channel(Protocol):
    """Transfers between the ranks of one group. all_reduce and reduce are in place."""

    rank: int
    size: int

    def all_reduce(self, array: Array, op: ReduceOp) -> Request: ...
    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request: ...
    def broadcast(self, array: Array, root: int) -> Request: ...
    def all_gather(self, out: Array, array: Array) -> Request: ...
    def reduce_scatter(self, out: Array, array: Array, op: ReduceOp) -> Request: ...
    def all_to_all(self, out: Array, out_counts: Sequence[int], array: Array, counts: Sequence[int]) -> Request: ...
    def gather(self, out: Array | None, array: Array, root: int) -> Request: ...
    def scatter(self, out: Array, array: Array | None, root: int) -> Request: ...
    def barrier(self) -> Request: ...
    def send(self, array: Array, to: int, tag: int) -> Request: ...
    def receive(self, array: Array, source: int | None, tag: int) -> Request: ...
    def split(self, ranks: Sequence[int], tag: int) -> Channel | None: ...
    def close(self) -> None: ...


class Done:
    """The request of a transfer that was over at once."""

    source: int | None = None

    def test(self) -> bool:
        return True


DONE = Done()


class Alone:
    """A group of this process alone: what it gathers is its own, and no library is needed."""

    rank, size = 0, 1

    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        return DONE

    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request:
        return DONE

    def broadcast(self, array: Array, root: int) -> Request:
        return DONE

    def all_gather(self, out: Array, array: Array) -> Request:
        out[...] = array
        return DONE

    def reduce_scatter(self, out: Array, array: Array, op: ReduceOp) -> Request:
        return self.all_gather(out, array)

    def all_to_all(self, out: Array, out_counts: Sequence[int], array: Array, counts: Sequence[int]) -> Request:
        return self.all_gather(out, array)

    def gather(self, out: Array | None, array: Array, root: int) -> Request:
        assert out is not None
        return self.all_gather(out, array)

    def scatter(self, out: Array, array: Array | None, root: int) -> Request:
        assert array is not None
        return self.all_gather(out, array)

    def barrier(self) -> Request:
        return DONE

    def send(self, array: Array, to: int, tag: int) -> Request:
        raise StateError("send: the group has this process only, and a rank does not send to itself")

    def receive(self, array: Array, source: int | None, tag: int) -> Request:
        raise StateError("recv: the group has this process only, and a rank does not send to itself")

    def split(self, ranks: Sequence[int], tag: int) -> Channel | None:
        return Alone() if ranks else None

    def close(self) -> None: ...
