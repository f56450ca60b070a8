"""Functions in the forms that people write: what Python gives for them, a scripted one gives."""

from __future__ import annotations

import copy
import pickle
from typing import Any, List, Optional, Tuple, Union  # noqa: UP035  (what the programs use)

import pytest

import weft
import weft.jit
from weft import Tensor

RNG = weft.Generator().manual_seed(7)


def text_in_several_lines(x: int) -> str:
    found = """
        one
            two"""
  # a comment that stands too far to the left
    if x > 0:
        return found
    return "a\
        b"


def comment_without_result(flag, x):
    # type: (bool, Tensor)
    if flag:
        return x + 1
    return x


def all_of(x: Tensor, counts: list[int]):
    return all(x), any(x), all(counts), any((False, len(counts) > 1))


def ellipsis_by_name(x: Tensor):
    return x[1, Ellipsis, 0:2]


def same_object(n: int):
    return [n is n, n is None, None is None]


def of_numbers(x: Tensor):
    return min(x.sum().item(), 2), max(0.5, x.sum().item())


def length(items: List[int]) -> int:  # noqa: UP006
    return len(items)


def length_or_none(items: Optional[List[float]] = None) -> int:  # noqa: UP006, UP045
    return 0 if items is None else len(items)


def tuples_for_lists(pair: Tuple[int, int]):  # noqa: UP006
    return length(pair) + length((1, 2, 3)) + length_or_none((1.0, 2.0)) + length_or_none()


def one_or_the_other(flag: bool) -> Union[int, str]:  # noqa: UP007
    found: Any = "out" if flag else [1]
    if isinstance(found, str):
        return found
    return 1 if flag else "in"


def method_where(x: Tensor, y: Tensor):
    return x.where(x > 0, y) + weft.where(x > 1, x, y)


def by_name(items: list[float]):
    return round(sum(items, start=0.25), ndigits=1), sorted(items, reverse=True)


def in_place(items: list[int], s: str):
    alias = items
    items *= 2
    return alias, (1, len(alias)) * 2, s.index("o", 5, 9)


def refined_behind_continue(items: list[Optional[int]]):  # noqa: UP045
    total = 0
    for v in items:
        if v is None:
            if total > 3:
                continue
            v = 5
        total += v
    return total


def refined_in_both(n: int) -> int:
    x: Optional[int] = None  # noqa: UP045
    i = j = 0
    while x is None or x > 3:
        if i < n:
            if i < 2:
                x = None
                i += 1
                continue
            x = 1
        else:
            x = 1 if x is None else x
        x = x + 1
        j = x + x
    return j


SIZES, ROWS, MIXED = [3, 1, 2], [[1, 2], [3]], [1, "a"]


def lists_from_outside(x: Tensor, i: int):
    a, b, c = SIZES
    total = 0
    for n in SIZES:
        total += n
    return SIZES, SIZES[i], ROWS[i], MIXED[1], x.view(SIZES), weft.zeros(SIZES).shape[0], total + a + b + c


def truths(items: list[bool]):
    return sum(items), all(items)


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (text_in_several_lines, (1,)),
    (text_in_several_lines, (0,)),
    (comment_without_result, (True, weft.ones(2))),
    (all_of, (weft.tensor([1.0, 0.0]), [1, 2])),
    (all_of, (weft.ones(3), [0])),
    (ellipsis_by_name, (weft.arange(27.0).reshape(3, 3, 3),)),
    (same_object, (3,)),
    (of_numbers, (weft.ones(3),)),
    (tuples_for_lists, ((1, 2),)),
    (one_or_the_other, (True,)),
    (one_or_the_other, (False,)),
    (method_where, (weft.randn(5, generator=RNG), weft.randn(5, generator=RNG))),
    (lists_from_outside, (weft.ones(6), 1)),
    (truths, ([True, 0, 1],)),
    (in_place, ([1, 2], "Hello World")),
    (refined_behind_continue, ([1, None, 2, 3, None, 7],)),
    (refined_in_both, (1,)),
    (refined_in_both, (3,)),
    (by_name, ([1.0, 2.5, 0.0],)),
]


def test_equal_numbers_are_one_object() -> None:
    unit = weft.jit.CompilationUnit("def f(a: float, b: float):\n    return a is b, a is not b, 2 is 2, 2 is 2.0")
    assert unit.f(0.5, 1.0 / 2) == (True, False, True, False)


@pytest.mark.parametrize("function,args", PROGRAMS, ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(PROGRAMS)])
def test_a_script_does_what_python_does(function: Any, args: tuple[Any, ...]) -> None:
    found, wanted = weft.jit.script(function)(*copy.deepcopy(args)), function(*args)
    assert str(found) == str(wanted) and type(found) is type(wanted)


def test_zip_heeds_strict() -> None:
    @weft.jit.script
    def joined(numbers: list[int], texts: list[str]) -> str:
        found = ""
        for number, text in zip(numbers, texts, strict=True):
            found += text * number
        for i, number in zip([1, 2], numbers, strict=False):
            found += str(i + number)
        return found

    assert joined([1, 2], ["a", "b"]) == "abb24"
    with pytest.raises(ValueError, match="argument 2 is shorter or longer than argument 1"):
        joined([1, 2, 3], ["a", "b"])


def test_a_loop_over_a_list_makes_as_many_steps_as_it_has_elements() -> None:
    @weft.jit.script
    def grown(items: list[int]) -> list[int]:
        for item in items:
            items.append(item)
        return items

    @weft.jit.script
    def shrunk(items: list[int]) -> list[int]:
        for _ in items:
            items.pop()
        return items

    assert grown([1, 2]) == [1, 2, 1, 2]
    with pytest.raises(IndexError, match="list index out of range"):
        shrunk([1, 2, 3])


def test_what_is_pickled_says_how_to_store_it() -> None:
    @weft.jit.script
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    for held in (doubled, weft.jit.script(weft.nn.Sequential(weft.nn.ReLU()))):
        with pytest.raises(pickle.PicklingError, match=r"weft\.jit\.save\(program, path\)"):
            pickle.dumps(held)
        assert copy.deepcopy(held)(weft.ones(1)).shape == (1,)
