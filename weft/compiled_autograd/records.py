"""What is kept of each node of a walk (recall.py): how it is taken again, and what is expected of what it saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.function import FunctionNode
from weft.autograd.node import Node, OpNode
from weft.compiled_autograd.live_hooks import calls_hooks
from weft.compiled_autograd.schedule import Scheduler, Visit
from weft.compiled_autograd.steps import CALL, FLOAT, INT, OP, SIZE, TENSOR_HOOK, Constant
from weft.compiled_autograd.writer import Slots, saved_in
from weft.types.dtype import DType

# How a node is taken again.
FORMULA, LEAF, PASSED, CALLED, ANEW = range(5)
# What is expected of a value that a node saved.
TENSOR, ABSENT, A_SIZE, AN_INT, A_FLOAT, DIMS, SAME, UNREAD = range(8)
_NUMBERS = {SIZE: A_SIZE, INT: AN_INT, FLOAT: A_FLOAT}
Slot = tuple[int, int, Any]  # kind, number, and what is expected


class Edge(NamedTuple):
    """An edge of a node: where it leads, and of the gradient that is delivered there how many dims it has and of
    which dtype, if it is checked."""

    place: int  # -1: to a node that has no turn
    slot: int
    rank: int  # -1: nothing is checked
    dtype: DType | None


class Record(NamedTuple):
    """A node of the earlier walk, and what is expected of each saved value that is looked at."""

    kind: int
    type: type
    counts: tuple[int, ...]
    slots: tuple[Slot, ...]
    edges: tuple[Edge | None, ...]
    inputs: int  # gradients that may come in
    visit: Visit
    last: int  # number of the step behind its last
    hooks: tuple[tuple[int, int], ...]  # on the tensors that it made: whose they are, and how many
    is_part: bool  # whether the walk may leave nodes out
    holds_tensors: bool  # whether tensors are among what it saved


def record_of(node: Node, visit: Visit, last: int, scheduler: Scheduler, places: Mapping[Node, int]) -> Record:
    edges: list[Edge | None] = []
    delivered = iter(visit.delivered)
    for edge in node.edges:
        if edge is None:
            edges.append(None)
            continue
        target, slot = edge
        gradient, _ = next(delivered, (None, None))
        metadata = target.metadata_of_inputs[slot] if slot < len(target.metadata_of_inputs) else None
        place = places.get(target, -1)
        if gradient is None or metadata is None:
            edges.append(Edge(place, slot, -1, None))
        else:
            edges.append(Edge(place, slot, len(metadata.dims), metadata.dtype))
    kind, slots, counts = _kind(node, visit, last, scheduler)
    hooks = tuple([(index, len(registered)) for index, registered in (node.tensor_hooks or {}).items()])
    return Record(
        kind, type(node), counts, slots, tuple(edges), len(node.metadata_of_inputs), visit, last, hooks,
        scheduler.walk.needed is not None, any([slot[0] in (TENSOR, UNREAD) for slot in slots]),
    )


def holds_numbers(node: Node, record: Record) -> bool:
    """Whether a node of this record is sure to let go of what it saved, and that is no tensor."""
    if record.kind != FORMULA or record.holds_tensors or not isinstance(node, OpNode):
        return False
    plan = node.plan
    there = {i for kind, i, _ in record.slots if kind != ABSENT and i != plan.number_slot}
    return plan.may_save_tensors and not there.isdisjoint(plan.operands)


def _kind(node: Node, visit: Visit, last: int, scheduler: Scheduler) -> tuple[int, tuple[Slot, ...], tuple[int, ...]]:
    anew: tuple[int, tuple[Slot, ...], tuple[int, ...]] = (ANEW, (), ())
    if node.retain_hooks or node.pre_hooks or node.post_hooks:
        return anew
    at = visit.first
    while at < last and scheduler.steps[at][0] == TENSOR_HOOK:
        at += 1
    first = scheduler.steps[at] if last > at else None
    if isinstance(node, FunctionNode) and first is not None and first[0] == CALL:
        return CALLED, (), ()
    if node.tensor_hooks and not isinstance(node, OpNode):
        return anew
    if type(node) is AccumulateGrad:
        if visit.grads[0] is None and calls_hooks(node):
            return anew
        return (PASSED, (), ()) if first is None else (LEAF, ((SAME, 0, calls_hooks(node)),), ())
    if not isinstance(node, OpNode):
        return anew
    if first is None:
        return PASSED, (), ()
    if first[0] != OP:
        return anew
    slots = _slots(first[4], scheduler.out.known[node], scheduler.slots[node.plan, first[3]])
    return anew if slots is None else (FORMULA, slots, node.argument_counts)


def _slots(packed: tuple[Any, ...], known: tuple[Any, ...], asked: Slots) -> tuple[Slot, ...] | None:
    """What is expected of the values that a node saved; None where they have to be written down anew."""
    slots: list[Slot] = []
    for i, (value, was, (is_read, _, decides)) in enumerate(zip(packed, known, asked, strict=True)):
        kind = type(value)
        if not is_read:
            if any(saved_in(was)):
                slots.append((UNREAD, i, None))
            continue
        if value is None:
            slots.append((ABSENT, i, None))
        elif kind is int:
            slots.append((TENSOR, i, value))
        elif kind is str:
            slots.append((_NUMBERS[value], i, decides))
        elif kind is Constant:
            slots.append((SAME, i, was))
        elif kind is tuple and value.count(SIZE) == len(value):
            slots.append((DIMS, i, len(value)))
        else:
            return None
    return tuple(slots)
