"""An empty part of a list that is written out was a list of tensors, whatever the list held."""

from __future__ import annotations

from typing import Any

import pytest

import weft.jit

CASES: dict[str, Any] = {
    "sum([7][:-1])": 0,
    "sum([1.5, 2.5][2:])": 0.0,
    "[1][1:] + [2]": [2],
    "len(['a'][1:] + ['b'])": 1,
    "sum([[1]][1:][0] if len([[1]][1:]) > 0 else [2])": 2,
    "[i * 2 for i in [1][:-1]] + [5]": [5],
    "max([3, 4][:1] + [1, 2][2:])": 3,
}


@pytest.mark.parametrize("text", CASES)
def test_the_part_has_the_type_of_the_list(text: str) -> None:
    assert weft.jit.CompilationUnit(f"def f():\n    return {text}\n").f() == CASES[text]
