"""The memory plan on random lifetimes: no two live buffers overlap, for sizes the plan never saw."""

from __future__ import annotations

import random

import pytest

from weft.plan.arena import Request, aligned, plan_slots
from weft.types import dims as dm

S, T = dm.symbol("s0"), dm.symbol("s1")
EXAMPLE = {"s0": 40, "s1": 50}


def _hint(d):
    return dm.evaluate(d, EXAMPLE)


SIZES = [4 * S, 4 * T, 16 * S, 4 * S * T, 256, 4, dm.maximum(S, T) * 4, S + T]


def _requests():
    requests = []
    for i in range(random.randint(1, 25)):
        first = random.randint(0, 20)
        dying = [r.key for r in requests if r.last == first and r.first < first]
        takes = (random.choice(dying),) if dying and random.random() < 0.5 else ()
        requests.append(Request(i, random.choice(SIZES), first, first + random.randint(0, 8), takes))
    return requests


@pytest.mark.parametrize("most", [0, 1, 300])
def test_live_buffers_never_share_memory(most):
    for _ in range(100):
        _check(_requests(), random.randint(0, most), random.randint(0, most))


def _check(requests, s, t):
    placement = plan_slots(requests, _hint)
    values = {"s0": s, "s1": t}
    for r in requests:
        slot = placement.slot[r.key]
        assert dm.evaluate(r.size, values) <= dm.evaluate(placement.sizes[slot], values)
    for i, a in enumerate(requests):
        for b in requests[:i]:
            if placement.slot[a.key] != placement.slot[b.key] or a.last < b.first or b.last < a.first:
                continue
            later, earlier = (a, b) if a.first >= b.first else (b, a)
            assert earlier.key in later.takes_over and earlier.last == later.first
    takers = {}
    for r in requests:
        for key in r.takes_over:
            if placement.slot[key] == placement.slot[r.key]:
                overlap = [o for o in takers.get(key, []) if not (o.last < r.first or r.last < o.first)]
                assert not overlap, "one memory was given to two buffers that live at once"
                takers.setdefault(key, []).append(r)


def test_a_chain_needs_two_slots():
    size = 4 * S
    requests = [Request(i, size, i, i + 1) for i in range(random.randint(5, 40))]
    assert len(plan_slots(requests, _hint).sizes) == 2


def test_a_small_buffer_does_not_block_a_large_slot():
    requests = [Request("large", 1 << 20, 0, 0), Request("small", 64, 1, 9), Request("again", 1 << 20, 2, 3)]
    placement = plan_slots(requests, _hint)
    assert placement.slot["again"] == placement.slot["large"] != placement.slot["small"]


def test_aligned_rounds_up():
    for n in random.sample(range(0, 1000), 20):
        assert aligned(n) == -(-n // 64) * 64
        assert dm.evaluate(aligned(S), {"s0": n}) == aligned(n)
