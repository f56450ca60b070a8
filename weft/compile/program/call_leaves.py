"""The leaves of a call, with what only the call itself needs of its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.guards.slots import Key
from weft.record.wrappers import WrapperMemo


class CallLeaves(list[Any]):
    """The leaves of a call's arguments, with the tree that they come from, whose containers are the caller's. memo: the
    wrappers that were taken apart; objects: by the ids of stand-ins among the leaves, the caller's objects; inner: the
    stand-ins for what those hold, by the place and the number among the leaves there; written: the containers that the
    program assigns to, once that begins."""

    __slots__ = ("inner", "memo", "objects", "tree", "written")

    def __init__(
        self, leaves: Iterable[Any], tree: Any, memo: WrapperMemo | None, objects: dict[int, Any] | None = None,
        inner: dict[tuple[Key, int], Any] | None = None,
    ) -> None:
        super().__init__(leaves)
        self.tree, self.memo = tree, WrapperMemo() if memo is None else memo
        self.objects = {} if objects is None else objects
        self.inner: dict[tuple[Key, int], Any] = {} if inner is None else inner
        self.written: list[Any] | None = None

    def let_go(self) -> None:
        """The call has ended: a backward that needs the leaves keeps no containers and wrappers alive."""
        self.tree, self.memo, self.objects, self.written = (), WrapperMemo(), {}, None
        self.inner = {}


def objects_of(leaves: list[Any]) -> dict[int, Any]:
    """The caller's objects, by the ids of their stand-ins among the leaves."""
    return leaves.objects if type(leaves) is CallLeaves else {}


def memo_of(leaves: list[Any]) -> WrapperMemo:
    """The wrappers that were taken apart for a call, to be taken up."""
    return leaves.memo if type(leaves) is CallLeaves else WrapperMemo()
