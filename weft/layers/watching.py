"""Operators of tensors, watched: while somebody looks, each call goes through a watcher's function on its way.

The routes of calls are what is changed, so that nobody pays while nobody looks: those of call signatures, found out
anew, the classes' own, that of factories, and the short ways of indexing. What an operator calls on its way is seen
like what a user calls.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from weft.layers import walk as walk_module
from weft.layers.fast_indexing import short_ways
from weft.ops import route
from weft.ops.call_signatures import Entries, renew_routes
from weft.ops.op import Op
from weft.ops.route import Route
from weft.tensor.tensor import Tensor

Watcher = Callable[[Route, bool], Route]  # of a route, and whether it writes in place


class _Watched:
    """The routes as they were."""

    def __init__(self, watcher: Watcher) -> None:
        self.short_ways = copy(short_ways())
        self.entries: dict[bool, Entries] = {}
        self.watcher = watcher

    def put(self) -> None:
        """Let calls go through the watcher."""
        _set_routes(self.watcher(walk_module.walk, False), self.watcher(walk_module.inplace, True))
        short_ways().take(self.short_ways.through(self.watcher))
        renew_routes(self._entries)

    def take_away(self) -> None:
        """Let them go as before."""
        _set_routes(walk_module.walk, walk_module.inplace)
        short_ways().take(self.short_ways)
        renew_routes(lambda _, inplace: self.entries[inplace])

    def _entries(self, offered: Entries, inplace: bool) -> Entries:
        self.entries[inplace] = offered
        watcher = self.watcher

        def find(op: Op, args: tuple[Any, ...]) -> Route | None:
            entry = offered(op, args)
            return None if entry is None else watcher(entry, inplace)

        return find


def _set_routes(functional: Route, inplace: Route) -> None:
    Tensor.__weft_route__ = staticmethod(functional)  # type: ignore[attr-defined]
    Tensor.__weft_inplace__ = staticmethod(inplace)  # type: ignore[attr-defined]
    route.install_base(functional)


_current: list[_Watched] = []


def watch_operators(watcher: Watcher | None) -> None:
    """Let every call of an operator on tensors, in all threads, go through `watcher(route, whether in place)`; None:
    nobody watches. One watcher at a time: the latest."""
    for watched in _current:
        watched.take_away()
    _current[:] = [] if watcher is None else [_Watched(watcher)]
    for watched in _current:
        watched.put()
