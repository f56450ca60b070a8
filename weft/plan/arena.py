"""Memory planning: which buffers share a slot of the arena. Sizes are symbolic, so slots are never cut:
a slot is as large as its largest tenant.

Greedy over the steps in order. A buffer takes, in this order: the memory of an input that dies and that its kernel may
overwrite; a free slot that is provably large enough; a free slot whose size is close in the example, which then grows
to the maximum of both; a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from weft.plan.sizes import is_covered
from weft.support import limits
from weft.types import dims as dm
from weft.types.dims import Dim

ALIGNMENT = 64
WASTE = 4  # a slot this many times too large for its tenant (in the example) is left to others


@dataclass(frozen=True)
class Request:
    """A buffer that needs memory: bytes, the step that writes it first and the last that touches it.

    takes_over: buffers, dead after `first`, whose memory it may take.
    """

    key: Hashable
    size: Dim
    first: int
    last: int
    takes_over: tuple[Hashable, ...] = ()


@dataclass
class Placement:
    """slot of each buffer, and the size of each slot in bytes."""

    slot: dict[Hashable, int] = field(default_factory=dict)
    sizes: list[Dim] = field(default_factory=list)

    @property
    def total(self) -> Dim:
        """Bytes of all slots, each rounded up to the alignment."""
        total: Dim = 0
        for size in self.sizes:
            total = total + aligned(size)
        return total


@lru_cache(limits.RESULTS)
def aligned(size: Dim) -> Dim:
    """`size` rounded up to the alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def plan_slots(requests: Sequence[Request], hint: Callable[[Dim], int]) -> Placement:
    """Place every request. Two buffers share a slot only if one's last step comes before the other's first
    (or one takes over the other's memory).

    hint: the size in the example; it steers the choice, and no result is wrong for other sizes.
    """
    placement = Placement()
    free: dict[Dim, list[int]] = {}  # by size: a training step frees thousands of slots of a few sizes
    hints: dict[Dim, int] = {}

    def remembered(size: Dim) -> int:
        estimate = hints.get(size)
        if estimate is None:
            estimate = hints[size] = hint(size)
        return estimate

    ends: dict[int, list[tuple[int, Hashable]]] = {}  # step -> slots to free after it, if this tenant is still in them
    tenants: dict[int, Hashable] = {}
    step = -1
    for request in sorted(requests, key=lambda r: r.first):
        while step < request.first - 1:
            step += 1
            for left, key in ends.pop(step, []):
                if tenants[left] == key:
                    free.setdefault(placement.sizes[left], []).append(left)
        slot = _inherited(request, placement, tenants)
        if slot is None:
            slot = _chosen(request, placement, free, remembered)
        tenants[slot] = request.key
        placement.slot[request.key] = slot
        ends.setdefault(max(request.last, request.first), []).append((slot, request.key))
    return placement


def _inherited(request: Request, placement: Placement, tenants: Mapping[int, Hashable]) -> int | None:
    """The slot of a dying input, if it is provably large enough and no other buffer of the same step has taken it."""
    for key in request.takes_over:
        slot = placement.slot.get(key)
        if slot is not None and tenants[slot] == key and is_covered(request.size, placement.sizes[slot]):
            return slot
    return None


def _chosen(request: Request, placement: Placement, free: dict[Dim, list[int]], hint: Callable[[Dim], int]) -> int:
    wanted = hint(request.size)
    best: tuple[tuple[int, int], Dim] | None = None
    for size in free:
        have = hint(size)
        covered = is_covered(request.size, size)
        if have > WASTE * max(wanted, ALIGNMENT) or (not covered and wanted > WASTE * max(have, ALIGNMENT)):
            continue
        rank = (0 if size == request.size else 1 if covered else 2, abs(have - wanted))
        if best is None or rank < best[0]:
            best = (rank, size)
    if best is None:
        placement.sizes.append(request.size)
        return len(placement.sizes) - 1
    slots = free[best[1]]
    slot = slots.pop()
    if not slots:
        del free[best[1]]
    placement.sizes[slot] = dm.maximum(placement.sizes[slot], request.size)
    return slot
