"""Which objects are older than a block in which the collector rests."""

from __future__ import annotations

import gc

import pytest

from weft.support.births import Births


class Object:
    """Any object of a class."""


@pytest.mark.parametrize("are_old", [False, True])
def test_older_and_made_since(are_old: bool) -> None:
    before = [Object() for _ in range(5)]
    if are_old:
        gc.collect()
    births, enabled = Births(), gc.isenabled()
    gc.disable()
    try:
        births.begin()
        since: list[Object] = []
        for count in range(5, 20, 5):
            since += [Object() for _ in range(5)]
            assert [births.is_older(each) for each in (*before, *since)] == [True] * 5 + [False] * count
        assert births.is_older("untracked") is None
        later = Object()
        gc.collect()
        assert births.is_older(later) is None
        assert births.is_older(since[0]) is False
        births.end()
        assert births.is_older(before[0]) is None
    finally:
        if enabled:
            gc.enable()
