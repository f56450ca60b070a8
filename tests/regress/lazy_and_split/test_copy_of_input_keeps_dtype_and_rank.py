"""A copy of an input is the input, and no call: a later reader must still say what dtype and rank it has, or steps of
other ranks take each other's programs."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("shapes", [[(), (5,)], [(3,), (2, 3), ()]])
def test_copies_of_inputs_of_other_ranks(shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        x = weft.rand(shape)
        y = x.to("lazy").clone() * 2
        weft.lazy.mark_step()
        assert y.shape == x.shape and weft.equal(y.cpu(), x * 2)
