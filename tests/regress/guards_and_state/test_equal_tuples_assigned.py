"""A step that assigned another tuple, equal to the one that was there, left the older one in place, and what it read
there again was taken for the older one: which tuples are one object differed from eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

one = weft.ones(3)
kept = (one, 1)


class Holder:
    def __init__(self, k: int) -> None:
        self.a, self.b = weft.ones(3) * k, weft.zeros(3)
        self.pair, self.nest, self.names, self.sizes = (self.a, self.b), ((self.a,), [1]), ("a", "b"), (k, 4)
        self.before, self.owners = tuple(list(self.pair)), (self,)


def takes_over(h: Holder, x: Any) -> Any:
    h.before = h.pair
    return x * (2 if h.before is h.pair else 3)


def asks_before(h: Holder, x: Any) -> Any:
    x = x * (2 if h.before is h.pair else 3)
    h.before = h.pair
    return x


def makes_anew(h: Holder, x: Any) -> Any:
    h.pair = h.before = (h.a, h.b)
    return h.pair, x


def swaps(h: Holder, x: Any) -> Any:
    h.before, h.pair = h.pair, h.before
    return x * 1


def nests(h: Holder, x: Any) -> Any:
    h.nest, h.owners = ((h.a,), h.nest[1]), (h,)
    return x * 1


def reads_it_again(h: Holder, x: Any) -> Any:
    h.nest = (*h.nest,)
    return x * (2 if h.nest[0][0] is h.a else 3)


def holds_plain_values(h: Holder, x: Any) -> Any:
    h.names, h.sizes = tuple(list(h.names)), (h.sizes[0], h.sizes[1])
    return x * h.sizes[0]


def puts_back(h: Holder, x: Any) -> Any:
    old = h.pair
    h.pair = (x, x)
    h.pair = (old[0], old[1])
    return x * 1


def keeps(h: Holder, x: Any) -> Any:
    h.pair, h.before = h.pair, h.before
    return x * 1


def of_a_module(h: Holder, x: Any) -> Any:
    global kept
    kept = (one, 1)
    return x * 1


def rows_of(step: Callable[..., Any]) -> list[Any]:
    """What each call gives, and which tuples are one, and are those from before the call."""
    global kept
    rows, kept = [], (one, 1)
    for k in range(3):
        holder, held = Holder(k), []
        for i in range(3):
            out = step(holder, weft.ones(3) * i)
            tuples = [*[v for v in vars(holder).values() if isinstance(v, tuple)], kept]
            rows.append([
                out.tolist() if isinstance(out, weft.Tensor) else [out[0] is holder.pair, out[0][0] is holder.a],
                [[a is b for a in tuples] for b in tuples], [[a is b for a in tuples] for b in held],
                holder.pair[0] is holder.a, holder.nest[0][0] is holder.a, holder.owners[0] is holder, holder.sizes,
            ])
            held = tuples
    return rows


@pytest.mark.parametrize("function", [
    takes_over, asks_before, makes_anew, swaps, nests, reads_it_again, holds_plain_values, puts_back, keeps,
    of_a_module,
])  # fmt: skip
def test_the_tuple_that_is_assigned_is_there(function: Callable[..., Any]) -> None:
    expected = rows_of(function)
    for options in ({"backend": "interpret"}, {"split": True}):
        assert rows_of(weft.compile(function, **options)) == expected
