"""Memo: results by what they were computed from, a dict that starts anew when it is full."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """At most `limit` results. One that is full is emptied before the next result joins it: what is asked for again is
    computed again, and reading costs what it costs in a dict."""

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.limit and key not in self:
            self.clear()
        super().__setitem__(key, value)

    def setdefault(self, key: K, value: V) -> V:
        """The result that is there, or else this one, which is kept."""
        if len(self) >= self.limit and key not in self:
            self.clear()
        return super().setdefault(key, value)
