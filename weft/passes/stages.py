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
        self._readers: dict[int, list[tuple[int, int, Item]]] = {}
        self._noted: set[tuple[int, int]] = set()
        self._merged_into: dict[int, Item] = {}
        self._kept_alive: list[Group] = []  # merged groups, so that no other object gets their id
        self._number = itertools.count()

    def note(self, source: Item | None, reader: Item) -> None:
        """An item reads, or must follow, another."""
        if source is None or source is reader or (id(source), id(reader)) in self._noted:
            return
        self._noted.add((id(source), id(reader)))
        heapq.heappush(self._readers.setdefault(id(source), []), (reader.stage, next(self._number), reader))

    def merged(self, group: Group, target: Group) -> None:
        """A group has become part of another."""
        few, many = sorted((self._readers.pop(id(group), []), self._readers.pop(id(target), [])), key=len)
        for entry in few:
            heapq.heappush(many, entry)
        if many:
            self._readers[id(target)] = many
        self._merged_into[id(group)] = target
        self._kept_alive.append(group)

    def current(self, item: Item) -> Item:
        """The item that an item has become by merging."""
        survivor = item
        while id(survivor) in self._merged_into:
            survivor = self._merged_into[id(survivor)]
        while item is not survivor:
            self._merged_into[id(item)], item = survivor, self._merged_into[id(item)]
        return survivor

    def early_readers(self, item: Item, stage: int) -> list[Item]:
        """Readers that have not reached a stage yet: all of them, or more than may be raised."""
        heap = self._readers.get(id(item))
        if not heap or heap[0][0] >= stage:
            return []
        seen: dict[int, Item] = {}
        early: list[Item] = []
        # one of them may be the item that is raised for
        while heap and heap[0][0] < stage and len(early) <= MAX_RAISED + 1:
            reader = self.current(heapq.heappop(heap)[2])
            if reader is item or id(reader) in seen:
                continue
            seen[id(reader)] = reader
            if reader.stage < stage:
                early.append(reader)
        for reader in seen.values():
            heapq.heappush(heap, (reader.stage, next(self._number), reader))
        return early

    def raised(self, starts: Iterable[Start], barrier: Collection[Item]) -> list[Start] | None:
        """What must be raised to which stage so that `starts` may be; None if that leads to an item of `barrier`,
        or too far."""
        stages: dict[int, Start] = {}
        stack = list(starts)
        wanted = {id(item) for item, stage in stack if item.stage < stage}  # what is in `stages` now or will be
        while stack and len(wanted) <= MAX_RAISED + 1:
            item, stage = stack.pop()
            if item.stage >= stage or (id(item) in stages and stages[id(item)][1] >= stage):
                continue
            if item in barrier or len(stages) > MAX_RAISED:
                return None
            stages[id(item)] = (item, stage)
            early = self.early_readers(item, stage + 1)
            if any([item in early for item in barrier]):  # (most are refused: the sooner the better)
                return None
            stack += [(reader, stage + 1) for reader in early]
            wanted.update(map(id, early))
        return None if stack else list(stages.values())

    def raise_all(self, starts: Iterable[Start], barrier: Collection[Item]) -> bool:
        """Raise items and all that waits for them. False, with nothing done, where `raised` finds no way."""
        raised = self.raised(starts, barrier)
        for item, stage in raised or ():
            item.stage = stage
        return raised is not None
