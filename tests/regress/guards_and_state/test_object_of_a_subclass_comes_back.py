"""A tensor of a class, read from Python's state and returned or assigned as it is, came back as another object of the
same parts until its place was an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.subclasses.wrappers import Two


class Kept(weft.Tensor):
    """A subclass that every operator keeps."""


class Held:
    value: Any = None
    again: Any = None


def make_kept(rng: np.random.Generator) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(3)).as_subclass(Kept)


def make_two(rng: np.random.Generator) -> weft.Tensor:
    return Two(weft.from_numpy(rng.standard_normal(3)), weft.from_numpy(rng.standard_normal(3)))


WAYS: list[Callable[[Any], Callable[..., Any]]] = [
    lambda held: lambda x: held.value, lambda held: lambda x: {"k": held.value, "y": x * 2}["k"],
    lambda held: lambda x: vars(held).get("value"), lambda held: lambda x: [held.value, x + held.value][0],
]  # fmt: skip


@pytest.mark.parametrize("make", [make_kept, make_two])
@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
def test_it_is_the_same_object(make: Any, options: dict[str, Any], rng: np.random.Generator) -> None:
    for way in WAYS:
        held = Held()
        step = weft.compile(way(held), backend="interpret", **options)
        for call in range(4):
            held.value = make(rng) if call != 1 else held.value
            assert step(weft.ones(3, dtype=weft.float64)) is held.value


@pytest.mark.parametrize("make", [make_kept, make_two])
def test_it_is_assigned_as_it_is(make: Any, rng: np.random.Generator) -> None:
    held = Held()

    def step(x: weft.Tensor) -> Any:
        held.again = (held.value, x)
        return x * 2

    compiled = weft.compile(step, backend="interpret")
    for _ in range(3):
        held.value = make(rng)
        compiled(weft.ones(3))
        assert held.again[0] is held.value


def test_what_the_call_makes_of_older_parts_is_new(rng: np.random.Generator) -> None:
    a, b = weft.from_numpy(rng.standard_normal(3)), weft.from_numpy(rng.standard_normal(3))
    compiled = weft.compile(lambda x: Two(a, b), backend="interpret")
    results = [compiled(weft.ones(3)) for _ in range(3)]
    assert len(set(map(id, results))) == 3 and all(r.a is a for r in results)


def test_registry_that_is_given_a_list_then_a_wrapper(rng: np.random.Generator) -> None:
    registry: dict[str, Any] = {}

    def step(a: Any, b: Any) -> Any:
        before, registry["a"] = registry.get("a"), b
        return before

    compiled, pair = weft.compile(step, backend="interpret"), make_two(rng)
    listed = [weft.ones(3), pair]
    expected = None
    for a, b in ((1, 2.5), (listed, listed), (1, pair), (1, range(2)), (1, 3.5)):
        result = compiled(a, b)
        assert result is expected or (type(result) is float and result == expected)
        expected = b
