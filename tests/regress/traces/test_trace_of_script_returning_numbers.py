"""A trace of a scripted function that gives numbers beside tensors: they are what the run computes, and a list of them
may be of any length.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor


@weft.jit.script
def counted(x: Tensor):
    count, powers, seen = 0, 1.0, [0]
    while float(x.sum()) > 1:
        x = x * 0.5
        count += 1
        powers *= 2.0
        seen.append(count)
    return x, count, (powers, x + 1), seen


def test_numbers_in_a_tuple_are_those_of_the_run() -> None:
    traced = weft.jit.trace(lambda x: (counted(x)[0] * counted(x)[1], counted(x)[2][0] * x), (weft.ones(3),))
    for n in (1, 5, 40):
        x = weft.ones(n)
        y, count, (powers, _), _ = counted(x)
        found = traced(x)
        assert weft.equal(found[0], y * count)
        assert weft.equal(found[1], x * powers)


def test_a_list_of_numbers_may_be_of_another_length() -> None:
    traced = weft.jit.trace(lambda x: counted(x)[0] + 1, (weft.ones(3),))
    for n in (1, 5, 40):
        assert weft.equal(traced(weft.ones(n)), counted(weft.ones(n))[0] + 1)
