"""Where the members of a set lie depends on how it was filled: a set that a capture fills and empties again may come
back in another order, which the guard took for a change of the caller's."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Holder:
    def __init__(self, members: list[int]) -> None:
        self.members: set[int] = set()
        for member in members:  # one by one: their hashes meet in a small table
            self.members.add(member)


def step(h: Holder, x: Any, new: tuple[int, ...], gone: tuple[int, ...]) -> Any:
    for at, member in enumerate(h.members):
        x = x + at * member
    for member in new:
        h.members.add(member)
    for member in gone:
        h.members.discard(member)
    return x


SETS = {
    "grown": ([8, 16, 1, 0, 24], (5, 32)),
    "from a small table": ([16, 8, 0], (24, 1)),
    "with gaps": ([0, 8, 16, 24, 32, 40, 48], (56, 64)),
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", list(SETS))
def test_a_set_is_filled_by_each_call(kind: str, split: bool) -> None:
    members, new = SETS[kind]
    eager, kept = Holder(members), Holder(members)
    compiled = weft.compile(lambda h, x, new, gone: step(h, x, new, gone), split=split)
    x = weft.ones(2)
    first = step(eager, x, new, (8,)), compiled(kept, x, new, (8,))
    assert first[0].tolist() == first[1].tolist()
    for gone in ((8,), (new[0],), (0,)):
        expected = x
        for at, member in enumerate(kept.members):
            expected = expected + at * member
        step(eager, x, new, gone)
        assert compiled(kept, x, new, gone).tolist() == expected.tolist()
        assert kept.members == eager.members


@pytest.mark.parametrize("split", [False, True])
def test_what_is_added_to_a_small_set_keeps_the_order(split: bool) -> None:
    eager, kept = Holder([16, 8, 0]), Holder([16, 8, 0])
    compiled = weft.compile(lambda h, x: step(h, x, (24,), ()), split=split)
    for _ in range(3):
        assert step(eager, weft.ones(2), (24,), ()).tolist() == compiled(kept, weft.ones(2)).tolist()
        assert list(kept.members) == list(eager.members)


@pytest.mark.parametrize("split", [False, True])
def test_a_frozenset_is_assigned(split: bool) -> None:
    def grow(h: Any, x: Any, k: int) -> Any:
        h.members = h.members | {k}
        h.pairs = frozenset([("a", k % 2), *h.pairs])
        return x * len(h.members) + len(h.pairs)

    eager, kept = Holder([]), Holder([])
    for holder in (eager, kept):
        holder.members, holder.pairs = frozenset(), frozenset()  # type: ignore[assignment, attr-defined]
    compiled = weft.compile(lambda x, k: grow(kept, x, k), split=split)
    for k in (0, 1, 2, 2, 1):
        assert compiled(weft.ones(2), k).tolist() == grow(eager, weft.ones(2), k).tolist()
        assert kept.members == eager.members and kept.pairs == eager.pairs  # type: ignore[attr-defined]
        assert all(type(member) is int for member in kept.members)
