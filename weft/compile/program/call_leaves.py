"""The leaves of a call, with what only the call itself needs of its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.record.wrappers import WrapperMemo


class CallLeaves(list[Any]):
    """The leaves of a call's arguments, with the tree that they come from, whose containers are the caller's. memo: the
    wrappers that were taken apart."""

    __slots__ = ("memo", "tree")

    def __init__(self, leaves: Iterable[Any], tree: Any, memo: WrapperMemo | None) -> None:
        super().__init__(leaves)
        self.tree, self.memo = tree, WrapperMemo() if memo is None else memo

    def let_go(self) -> None:
        """The call has ended: a backward that needs the leaves keeps no containers and wrappers alive."""
        self.tree, self.memo = (), WrapperMemo()


def memo_of(leaves: list[Any]) -> WrapperMemo:
    """The wrappers that were taken apart for a call, to be taken up."""
    return leaves.memo if type(leaves) is CallLeaves else WrapperMemo()
