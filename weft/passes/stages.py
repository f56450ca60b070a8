"""Stages of items: who reads whom, and what must be put off (raised to a later stage) so that an item may be.

What flows from one item to another goes to a higher stage. Stages only grow, so the readers of an item wait in a heap
by the stage that they were last seen at: a question looks at those that are too early, never at the thousands that read
a common source long after it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable

from weft.passes.group import Group, Item

MAX_RAISED = 64  # how many items may be put off to let two groups become one

Start = tuple[Item, int]  # an item, and the stage that it should have


class Stages:
    """Readers of items, followed through merges."""

    def __init__(self) -> None:
        # heaps of (stage when last seen, running number, reader)
        self._readers: dict[Item, list[tuple[int, int, Item]]] = {}
        self._noted: set[tuple[Item, Item]] = set()
        self._merged_into: dict[Item, Item] = {}
        self._number = itertools.count()

    def note(self, source: Item | None, reader: Item) -> None:
        """An item reads, or must follow, another."""
        if source is None or source is reader or (source, reader) in self._noted:
            return
        self._noted.add((source, reader))
        heapq.heappush(self._readers.setdefault(source, []), (reader.stage, next(self._number), reader))

    def merged(self, group: Group, target: Group) -> None:
        """A group has become part of another."""
        few, many = sorted((self._readers.pop(group, []), self._readers.pop(target, [])), key=len)
        for entry in few:
            heapq.heappush(many, entry)
        if many:
            self._readers[target] = many
        self._merged_into[group] = target

    def current(self, item: Item) -> Item:
        """The item that an item has become by merging."""
        survivor = item
        while survivor in self._merged_into:
            survivor = self._merged_into[survivor]
        while item is not survivor:
            self._merged_into[item], item = survivor, self._merged_into[item]
        return survivor

    def early_readers(self, item: Item, stage: int) -> list[Item]:
        """Readers that have not reached a stage yet: all of them, or more than may be raised."""
        heap = self._readers.get(item)
        if not heap or heap[0][0] >= stage:
            return []
        seen: dict[Item, None] = {}  # (a dict is a set in order)
        early: list[Item] = []
        # one of them may be the item that is raised for
        while heap and heap[0][0] < stage and len(early) <= MAX_RAISED + 1:
            reader = self.current(heapq.heappop(heap)[2])
            if reader is item or reader in seen:
                continue
            seen[reader] = None
            if reader.stage < stage:
                early.append(reader)
        for reader in seen:
            heapq.heappush(heap, (reader.stage, next(self._number), reader))
        return early

    def raised(self, starts: Iterable[Start], barrier: Collection[Item]) -> list[Start] | None:
        """What must be raised to which stage so that `starts` may be; None if that leads to an item of `barrier`,
        or too far."""
        stages: dict[Item, int] = {}
        stack = list(starts)
        wanted = {item for item, stage in stack if item.stage < stage}  # what is in `stages` now or will be
        while stack and len(wanted) <= MAX_RAISED + 1:
            item, stage = stack.pop()
            if item.stage >= stage or stages.get(item, -1) >= stage:
                continue
            if item in barrier or len(stages) > MAX_RAISED:
                return None
            stages[item] = stage
            early = self.early_readers(item, stage + 1)
            if any([item in early for item in barrier]):  # (most are refused: the sooner the better)
                return None
            stack += [(reader, stage + 1) for reader in early]
            wanted.update(early)
        return None if stack else list(stages.items())

    def raise_all(self, starts: Iterable[Start], barrier: Collection[Item]) -> bool:
        """Raise items and all that waits for them. False, with nothing done, where `raised` finds no way."""
        raised = self.raised(starts, barrier)
        for item, stage in raised or ():
            item.stage = stage
        return raised is not None
