"""A check for tests: what an earlier walk says of a backward call is what writing it down anew says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.autograd.engine import Walk
from weft.compiled_autograd.recall import Recollections
from weft.compiled_autograd.schedule import schedule


def _identity(tensor: Any) -> Any:
    """The array that a tensor holds; of a wrapper, which is made anew whenever it is unpacked, its class."""
    data = tensor._data
    return id(data) if type(data) is np.ndarray else (type(tensor), type(data))


@contextmanager
def compared() -> Iterator[list[int]]:
    """Within the block every schedule that is found by an earlier walk is compared with one that is written anew.
    Gives how many nodes each of these walks had."""
    found: list[int] = []
    find = Recollections.find

    def checked(self: Recollections, walk: Walk) -> Any:
        plan = find(self, walk)
        if plan is not None:
            anew = schedule(walk, plan.recall.patterns)
            assert (tuple(plan.steps), plan.outputs) == (tuple(anew.steps), anew.outputs)
            assert (plan.sizes, plan.numbers) == (anew.sizes, anew.numbers)
            assert (plan.ints, plan.floats) == (anew.ints, anew.floats)
            assert plan.key == anew.key and list(plan.ends) == list(anew.ends)
            assert [type(f) for f in plan.floats] == [type(f) for f in anew.floats]
            for name in ("objects", "nodes", "live", "origins"):
                assert [id(o) for o in getattr(plan, name)] == [id(o) for o in getattr(anew, name)], name
            assert list(map(_identity, plan.tensors)) == list(map(_identity, anew.tensors))
            assert [None if s is None else tuple(map(id, s)) for s in plan.saved] == [
                None if s is None else tuple(map(id, s)) for s in anew.saved
            ]
            found.append(len(plan.live))
        return plan

    Recollections.find = checked  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Recollections.find = find  # type: ignore[method-assign]
