"""A border that cuts off more than there is is refused, whatever the other side adds."""

from __future__ import annotations

from typing import Any

import pytest

import weft


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
@pytest.mark.parametrize(
    "size,pad", [(0, (-1, 1)), (0, (1, -1)), (1, (-2, 2)), (1, (-2, 5)), (3, (-2, -2)), (2, (4, -3))]
)
def test_one_side_cannot_cut_what_the_other_adds(size: int, pad: tuple[int, int], wrap: Any) -> None:
    x = weft.ones(2, size)
    with pytest.raises(RuntimeError, match="negative output size"):
        wrap(lambda x: weft.nn.functional.pad(x, pad))(x)


def test_a_program_for_wider_tensors_does_not_read_before_narrower_ones() -> None:
    compiled = weft.compile(lambda x: weft.nn.functional.pad(x, (-2, 3), value=7.0))
    assert compiled(weft.ones(1, 4)).tolist() == [[1, 1, 7, 7, 7]]
    with pytest.raises(RuntimeError, match="negative output size"):
        compiled(weft.ones(1, 1))
