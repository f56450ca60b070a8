"""Truth values that are scattered stay truth values when a pass writes the scatter as a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("dtype", [weft.bool, weft.int8, weft.float16], ids=str)
@pytest.mark.parametrize(
    "write",
    [lambda x, i: weft.zeros_like(x).scatter_add(0, i, x[-1:]), lambda x, i: weft.zeros_like(x).scatter(0, i, x[-1:])],
    ids=["add", "put"],
)
def test_one_for_each_row(write: Callable[..., Any], dtype: weft.dtype) -> None:
    x, i = weft.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype), weft.tensor([[0, 1, 1]])
    expected, found = write(x, i), weft.compile(write)(x, i)
    assert found.dtype is expected.dtype is dtype
    assert found.tolist() == expected.tolist()
