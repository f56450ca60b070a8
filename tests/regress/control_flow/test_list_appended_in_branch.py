"""What a captured branch gives is taken as it is where the branch ends: a list that it made longer had its old elements
again when it was compared with the other branch's.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor


@weft.jit.script
def grown(x: Tensor) -> tuple[dict[str, Tensor], list[Tensor]]:
    d = {"a": x}
    xs = [x]
    if float(x.sum()) > 1:
        d["b"] = x * 3
        xs.append(x)
        return d, xs
    xs.append(x * 2)
    d["b"] = x * 4
    return d, xs


@weft.jit.script
def of_two_lengths(x: Tensor):
    gs = [0.5, 0.25]
    xs = [x, x * 2]
    for _ in enumerate(xs[:4]):
        return x, gs
    gs.append(1.0)
    return x, gs


def test_both_branches_leave_the_same_structure() -> None:
    f = weft.compile(grown)
    for x in (weft.ones(2), weft.full((2,), 0.25)):
        (d, xs), (e, ys) = f(x), grown(x)
        assert list(d) == list(e) and len(xs) == len(ys) == 2
        assert all(weft.equal(a, b) for a, b in zip([*d.values(), *xs], [*e.values(), *ys], strict=True))


def test_a_list_of_two_lengths_runs_as_it_is_written() -> None:
    compiled = weft.compile(of_two_lengths)
    assert compiled(weft.ones(2))[1] == of_two_lengths(weft.ones(2))[1] == [0.5, 0.25]
    assert "the branches give different structures" in compiled.misses[0]
