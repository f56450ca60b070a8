"""Restart: what a capture finds out too late, for the next try."""

from __future__ import annotations

from types import CodeType
from typing import Any

from weft.guards import Slot

SlotKey = tuple[Any, ...]


class Restart(Exception):
    """The capture must start again.

    lift: more places are inputs; static: more arguments have fixed sizes; identical: places in which an object
    is the same one at every call;
    knows_gradients: gradients are known before they are added to; lifted: more code uses math and `len` on symbols;
    same_containers: containers that are one object have one stand-in; unrolled: loops of Python's are recorded
    iteration by iteration; counted: each has the number of iterations of the call; loops: which ones, and why.
    """

    def __init__(
        self, lift: dict[SlotKey, Slot] | None = None, static: set[Any] | None = None,
        identical: set[SlotKey] | None = None, knows_gradients: bool = False, lifted: tuple[CodeType, ...] = (),
        same_containers: bool = False, unrolled: bool = False, counted: bool = False,
        loops: tuple[str, ...] = (),
    ) -> None:
        super().__init__("capture restarts")
        self.lift, self.static, self.identical, self.knows_gradients = (
            lift or {}, static or set(), identical or set(), knows_gradients
        )
        self.lifted, self.same_containers, self.unrolled, self.counted = lifted, same_containers, unrolled, counted
        self.loops = loops
