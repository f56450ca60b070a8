"""An error of a running script named file, line and column, and showed nothing of the program."""

from __future__ import annotations

import pytest

import weft
from weft.testing import FileCheck


def last(numbers: list[int], count: int) -> int:
    if count > 3:
        return numbers[
            count
        ]
    return 1 + numbers.pop()


def outer(numbers: list[int], count: int) -> int:
    return last(numbers, count)


def test_the_expression_is_marked() -> None:
    scripted = weft.jit.script(outer)
    with pytest.raises(IndexError) as caught:
        scripted([], 1)
    FileCheck().check("pop from empty list").check_source_highlighted("numbers.pop()").check_source_highlighted(
        "last(numbers, count)"
    ).run(str(caught.value))


def test_an_expression_of_several_lines_is_marked_where_it_begins() -> None:
    with pytest.raises(IndexError) as caught:
        weft.jit.script(last)([1, 2], 7)
    lines = str(caught.value).split("\n")
    at = lines.index("    return numbers[")
    assert lines[at + 1].strip().startswith("^")
    assert lines[at + 1].index("^") == lines[at].index("numbers")
