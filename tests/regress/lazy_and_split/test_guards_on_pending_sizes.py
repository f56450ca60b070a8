"""Compiled functions guard the sizes of lazy tensors that Python's state holds, though nobody has asked for the number
yet: once they took the first number for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

size: Any = 0


class _Holder:
    size: Any = 0


def _found(count: int) -> Any:
    """The size of a mask's result, which is not known yet."""
    numbers = weft.arange(20).to("lazy")
    return numbers[numbers < count].shape[0]


def test_what_state_holds_is_guarded_then_lifted() -> None:
    global size
    items: list[Any] = [0]
    holder = _Holder()

    @weft.compile
    def from_list(x: weft.Tensor) -> weft.Tensor:
        return x * items[0]

    @weft.compile
    def from_attribute(x: weft.Tensor) -> weft.Tensor:
        return x + holder.size

    @weft.compile
    def from_global(x: weft.Tensor) -> weft.Tensor:
        return x - size

    x, captures = weft.ones(2), []
    for count in np.random.default_rng(5).permutation(np.arange(2, 20))[:5]:
        items[0], holder.size, size = _found(count), _found(count), _found(count)
        n = int(count)
        before = weft.counters.captures
        got = [f(x).tolist() for f in (from_list, from_attribute, from_global)]
        assert got == [[n, n], [1 + n, 1 + n], [1 - n, 1 - n]]
        captures.append(weft.counters.captures - before)
    assert captures == [3, 3, 0, 0, 0]
