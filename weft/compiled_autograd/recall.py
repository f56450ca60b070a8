"""A schedule by the walk of an earlier one: where a backward call has the structure of one that was seen before,
its steps are those, and only what stands beside them is collected.

A live graph matches if walking it in the earlier order meets the same kinds of nodes with the same edges, which saved
and deliver values of the same kinds, and if that order is its own: the latest node first. What is more than a formula,
a leaf, a Function or hooks on what a node made (hooks on nodes, writes through views) is written down anew and
compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.engine import Walk
from weft.autograd.node import Node
from weft.autograd.saved import SavedTensor
from weft.compiled_autograd.evaluate import epoch
from weft.compiled_autograd.live_hooks import LEAF as A_LEAF
from weft.compiled_autograd.live_hooks import calls_hooks
from weft.compiled_autograd.matched import Mismatch, meeting
from weft.compiled_autograd.records import ANEW, FORMULA, TENSOR, UNREAD, Record, holds_numbers, record_of
from weft.compiled_autograd.schedule import Scheduler
from weft.compiled_autograd.steps import ADD, Key, Schedule, emptied, kind_of, last_call
from weft.compiled_autograd.writer import Place, hooked_in, place_of, saved_in, unpacked

TRIES = 4  # earlier walks that a call is compared with
KEPT = 8  # for each place where they are looked for
PLACES = 1024


class Recall:
    """What is kept of a walk: the structure, without a node or tensor of it."""

    def __init__(self, walk: Walk, scheduler: Scheduler, origin: Key) -> None:
        """origin: the key of the steps before it was looked up what calls of Python give."""
        plan = scheduler.out
        self.origin, self.patterns, self.cut = origin, scheduler.patterns, scheduler.cut
        self.steps, self.outputs, self.key, self.owners = plan.steps, plan.outputs, plan.key, plan.owners
        self.gives = plan.kind
        self.last_call = last_call(plan.steps)
        self.ends, self.epoch, self.tensors = plan.ends, epoch(), len(plan.tensors)
        places = {node: place for place, node in enumerate(plan.live)}
        self.count = len(places)
        self.roots = [
            (places.get(node, -1), index, ref) for (node, index), ref in zip(walk.roots, scheduler.seeds, strict=True)
        ]
        self.wanted = None if walk.wanted is None else [(places.get(n), i) for n, i in walk.wanted]
        self.runs = None if plan.nodes == plan.live else [places[node] for node in plan.nodes]
        ends = [*[visit.first for visit in scheduler.visits[1:]], len(plan.steps)][: self.count]  # there may be none
        self.records = [
            record_of(node, visit, last, scheduler, places)
            for node, visit, last in zip(plan.live, scheduler.visits, ends, strict=True)
        ]
        self.meets = [meeting(record, place) for place, record in enumerate(self.records)]

        # of which nodes, by place, something is kept though they let go of it
        self.rememberable = {i for i, record in enumerate(self.records) if record.kind in (FORMULA, ANEW)}
        runs = range(self.count) if self.runs is None else self.runs
        self.holds_numbers = frozenset([
            number for number, place in enumerate(runs) if holds_numbers(plan.live[place], self.records[place])
        ])

    def match(self, walk: Walk) -> Schedule | None:
        """The schedule of a walk of this structure; None if it is of another one."""
        if self.epoch != epoch():
            return None
        try:
            return _Match(self, walk).run()
        except Mismatch:
            return None

    def known(self, node: Any, place: int) -> tuple[Any, ...] | None:
        """What a node of a matched walk saved, its tensors by number."""
        record = self.records[place]
        if record.kind != FORMULA:
            return None
        values: tuple[Any, ...] = node.raw_values()
        if not record.holds_tensors:
            return values
        kept = list(values)
        for kind, i, expected in record.slots:
            if kind == TENSOR:
                kept[i] = Place(expected)
            elif kind == UNREAD:
                kept[i : i + 1] = emptied((values[i],))
        return tuple(kept)


class _Match:
    """One walk in an earlier order."""

    def __init__(self, recall: Recall, walk: Walk) -> None:
        self.recall, self.walk = recall, walk
        self.scheduler = Scheduler(walk, recall.patterns)
        self.out = self.scheduler.out
        self.hooks = self.out.hooks.known

    def run(self) -> Schedule:
        """Walk. Raises Mismatch."""
        live = self._roots()
        latest = 1 << 64
        for meet in self.recall.meets:
            latest = meet(self, live, latest)
        return self._finished(live)

    def _roots(self) -> list[Any]:
        """The nodes by place, as far as they are known before the walk."""
        live: list[Any] = [None] * self.recall.count
        for (place, slot, ref), (node, index), seed in zip(
            self.recall.roots, self.walk.roots, self.walk.seeds, strict=True
        ):
            if slot != index or (place < 0) is (node in self.walk.dependencies):
                raise Mismatch
            if place >= 0:
                if live[place] is not None and live[place] is not node:
                    raise Mismatch
                live[place] = node
            if self.scheduler.seed(node, index, seed) != ref:
                raise Mismatch
        return live

    def tensor(self, value: SavedTensor, node: Any, expected: int) -> None:
        """A saved tensor: a new one where a new one is expected, else the same as earlier in the walk."""
        out = self.out
        tensor = unpacked(value, node)
        key, tensors = place_of(tensor), out.tensors
        if expected != ~len(tensors):
            if out.places.get(key) != expected:
                raise Mismatch
            return
        if key in out.places:
            raise Mismatch
        out.places[key] = expected
        tensors.append(tensor)
        out.saved.append((value, node))

    def unread(self, value: Any, node: Any) -> None:
        """A saved value that no formula reads: it is looked at."""
        if hooked_in(value):
            raise Mismatch
        for saved in saved_in(value):
            unpacked(saved, node)

    def without_hooks(self, node: Node) -> None:
        """A node that has no hooks (any more)."""
        if node.tensor_hooks:
            raise Mismatch
        self.only_on_tensors(node)

    def only_on_tensors(self, node: Node) -> None:
        """A node that has no hooks but those on tensors."""
        if node.retain_hooks or node.pre_hooks or node.post_hooks:
            raise Mismatch

    def without_calls(self, node: AccumulateGrad) -> None:
        """A leaf behind whose gradient nothing is called."""
        if calls_hooks(node):
            raise Mismatch

    def leaf(self, node: Any, record: Record) -> None:
        """A leaf that takes a gradient."""
        calls = calls_hooks(node)
        if node.edges or calls is not record.slots[0][2]:
            raise Mismatch
        if calls:
            self.out.hooks.at(node, A_LEAF, (True,), record.visit.first)
        self.out.objects.append(node)
        self.scheduler.note_gradient(node, record.visit.first)

    def anew(self, node: Node, record: Record) -> None:
        """Write down a node's steps, and compare."""
        scheduler, visit = self.scheduler, record.visit
        scheduler.restart(visit)
        out = scheduler.compute(node, list(visit.grads))
        if out is not None and len(out) != len(node.edges):  # (a call of Python that gave something else)
            raise Mismatch
        delivered = iter(visit.delivered)
        for i, edge in enumerate(node.edges):
            if edge is None or out is None:
                continue
            gradient, present = next(delivered, (None, None))
            if scheduler.fit(node, i, out[i], *edge) != gradient:
                raise Mismatch
            if gradient is not None and present is not None:
                scheduler.emit((ADD, present, gradient))
        if scheduler.steps != self.recall.steps[visit.first : record.last]:
            raise Mismatch

    def _finished(self, live: list[Any]) -> Schedule:
        recall, out = self.recall, self.out
        distinct = set(live)
        if len(distinct) != len(live) or len(out.tensors) != recall.tensors or self.scheduler.cuts() != recall.cut:
            raise Mismatch
        if kind_of(out.tensors, recall.gives.is_differentiable) != recall.gives:
            raise Mismatch
        if recall.wanted is not None:
            for (node, index), (place, slot) in zip(self.walk.wanted or (), recall.wanted, strict=True):
                if index != slot or (node in distinct if place is None else live[place] is not node):
                    raise Mismatch
        out.live, out.steps, out.outputs, out.owners = live, recall.steps, recall.outputs, recall.owners
        out.nodes = live if recall.runs is None else [live[place] for place in recall.runs]
        out.ends, out.key, out.kind, out.recall = recall.ends, recall.key, recall.gives, recall
        out.holds_numbers = recall.holds_numbers
        return out


class Recollections:
    """The walks that are kept, by what is known of a backward call before it is walked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, list[Recall]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, walk: Walk) -> Schedule | None:
        """The schedule of a walk by an earlier one of the same structure, if there is one."""
        place = _place(walk)
        kept = self._kept.get(place, [])
        for recall in kept[:TRIES]:
            found = recall.match(walk)
            if found is not None:
                if recall is not kept[0]:
                    self._first(place, recall)
                return found
        return None

    def keep(self, walk: Walk, recall: Recall) -> None:
        """Keep a walk. The one that was not met for the longest time goes."""
        self._first(_place(walk), recall)

    def drop(self, walk: Walk, recall: Recall) -> None:
        """Forget a walk whose calls of Python have given something else."""
        place = _place(walk)
        with self._lock:
            self._kept[place] = [other for other in self._kept.get(place, ()) if other is not recall]

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._kept.clear()

    def _first(self, place: Any, recall: Recall) -> None:
        with self._lock:
            others = [r for r in self._kept.pop(place, ()) if r is not recall and r.key != recall.key]
            self._kept[place] = [recall, *others][:KEPT]
            while len(self._kept) > PLACES:
                self._kept.popitem(last=False)


def _place(walk: Walk) -> tuple[Any, ...]:
    return (
        *[type(node) for node, _ in walk.roots], walk.accumulate, walk.create_graph,
        None if walk.wanted is None else len(walk.wanted),
    )
