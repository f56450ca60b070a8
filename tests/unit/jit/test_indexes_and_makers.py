# ruff: noqa: UP006, UP035  (programs as people write them)
"""Slices as objects, `dict(...)`, extrema and order of lists, lists of tensors' elements: what Python gives, a program
gives too.
"""

from __future__ import annotations

import collections
import copy
import enum
from typing import Dict, List, Optional, Tuple

import numpy as np
import pytest

import weft
import weft.jit
from tests.unit.jit.test_files import again
from weft import Tensor, nn


def slices(x: Tensor, items: List[int], text: str, n: int):
    part = slice(1, n)
    rest = items[part]
    items[slice(0, 1)] = [7, 8]
    del items[slice(n, None)]
    return x[part, 0], x[slice(None), ..., 1], x[part][slice(None, None, 2)], rest, items, text[part], part.stop


def makers(n: int):
    pairs = dict([(i, float(i)) for i in range(n)])
    ordered = collections.OrderedDict([(2, n), (1, 2)])
    named = dict({"x": 1}, y=n)
    return pairs, dict(ordered), named, dict(named, x=3), dict(zip(["a", "b"], [n, 2]))  # noqa: B905


def extrema(n: int):
    return min([1, n], [1, 2]), max([1, 2], [1, n], [0]), min((1, 2.5), (1, 2.0)), max([True], [False])


def order(n: int):
    items = [weft.tensor(n), weft.tensor(1), weft.tensor(2.5)]
    first = sorted(items)
    items.sort(reverse=True)
    return first, items


def once(items: List[List[int]], n: int):
    """The index of `+=` is computed once."""
    places = [0, 1]
    items[places.pop()] += [n]
    items[0][slice(0, 1)] = [n, n]
    return items, places


@pytest.mark.parametrize("function", [slices, makers, extrema, order, once], ids=lambda f: f.__name__)
def test_as_in_python(function, rng) -> None:
    scripted = weft.jit.script(function)
    for n in rng.integers(0, 5, 6):
        x = weft.arange(24.0).reshape(6, 4)
        args = {
            "slices": (x, [int(i) for i in rng.integers(9, size=5)], "hello", int(n)), "once": ([[1], [2, 3]], int(n))
        }.get(function.__name__, (int(n),))
        expected, found = function(*copy.deepcopy(args)), scripted(*copy.deepcopy(args))
        assert str(expected) == str(found)


def test_ranges_are_lists_of_integers() -> None:
    assert weft.jit.script(extrema_of)(range(2, 5)) == 9


def extrema_of(items: List[int]) -> int:
    return sum(items)


def rows(x: Tensor) -> List[List[float]]:
    found: List[List[float]] = x.tolist()
    return found


def test_what_tolist_gives_is_of_the_type_that_was_written() -> None:
    scripted = weft.jit.script(rows)
    x = weft.from_numpy(np.ones((2, 3)))
    assert scripted(x) == x.tolist()
    for wrong in (x[0], x.long()):
        with pytest.raises(weft.jit.Error, match=r"annotated as List\[List\[float\]\]"):
            scripted(wrong)


class Color(enum.Enum):
    RED = 1


class Shape(enum.Enum):
    ROUND = 1


def test_members_of_two_enumerations_differ() -> None:
    def same(c: Color) -> Tuple[bool, bool]:
        return c == Shape.ROUND, c != Shape.ROUND  # type: ignore[comparison-overlap]

    assert weft.jit.script(same)(Color.RED) == (False, True)
    assert weft.jit.script(Color) is Color


@pytest.mark.parametrize("kind,shown", [(List, "List"), (Dict, "Dict"), (Tuple, "Tuple"), (Optional, "Optional")])
def test_types_without_what_they_hold_are_refused(kind, shown) -> None:
    with pytest.raises(weft.jit.CompileError, match=f"use {shown} without a contained type"):
        weft.jit.isinstance([], kind)
    with pytest.raises(weft.jit.CompileError, match=f"use {shown} without a contained type"):
        weft.jit.CompilationUnit(f"def f(x: {shown}):\n    return 1")


class Constant(nn.Module):
    __constants__ = ("w",)

    def __init__(self, w) -> None:
        super().__init__()
        self.w = w

    def forward(self, x):
        return x, self.w


@pytest.mark.parametrize("w", [2, None, "text", (2, 3)])
def test_constants_of_a_module_are_stored(w) -> None:
    loaded = again(weft.jit.script(Constant(w)))
    assert loaded.w == w and loaded(weft.ones(1))[1] == w


class Replaced(nn.Module):
    def __prepare_scriptable__(self) -> nn.Module:
        return nn.ReLU()

    def forward(self, x):
        return x.nothing()


def test_a_module_may_say_what_is_compiled_in_its_place() -> None:
    scripted = weft.jit.script(nn.Sequential(Replaced(), nn.Tanh()))
    assert scripted(-weft.ones(2)).tolist() == [0, 0]
    assert weft.jit.script(Replaced())(-weft.ones(1)).item() == 0


class Unmade(nn.Module):
    def __init__(self) -> None:
        self.x = 2


def test_a_module_that_is_not_made_is_refused() -> None:
    with pytest.raises(weft.jit.CompileError, match="has not been initialized"):
        weft.jit.script(Unmade())


def test_a_folder_that_is_missing_is_told(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="Parent directory"):
        weft.jit.script(extrema).save(tmp_path / "none" / "file")
    with pytest.raises(FileNotFoundError, match="Parent directory"):
        weft.save({}, tmp_path / "none" / "file")
