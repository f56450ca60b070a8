"""A wrapper that a compiled function makes anew of the parts of an older one came back as the older object; an older
one whose parts are wrappers themselves came back as another object."""

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
    parts: Any = None


def _vector(rng: np.random.Generator, n: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(n))


def _of_one(part: weft.Tensor) -> Any:
    return Two(part, part)


MAKE: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "plain": lambda rng, n: Two(_vector(rng, n), _vector(rng, n)),
    "nested": lambda rng, n: Two(Two(_vector(rng, n), _vector(rng, n)), Two(_vector(rng, n), _vector(rng, n))),
    "of a class": lambda rng, n: Two(_vector(rng, n).as_subclass(Kept), _vector(rng, n).as_subclass(Kept)),
    "one part twice": lambda rng, n: _of_one(_vector(rng, n)),
    "one nested part twice": lambda rng, n: _of_one(Two(_vector(rng, n), _vector(rng, n))),
}


def made_anew(x: Any) -> Any:
    again = Two(x.a, x.b)
    return x, again, Two(x.a, x.b), [again, x], x.a


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
@pytest.mark.parametrize("make", MAKE)
def test_each_object_is_itself(make: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    step = weft.compile(made_anew, backend="interpret", **options)
    for n in rng.integers(1, 6, 3):
        x = MAKE[make](rng, int(n))
        same, again, other, (repeated, first), part = step(x)
        assert same is x and first is x and repeated is again and part is x.a
        assert again is not x and other is not x and again is not other
        for out in (again, other):
            assert str(out) == str(x)


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("make", MAKE)
def test_an_argument_is_assigned_as_it_is(make: str, wants: bool, rng: np.random.Generator) -> None:
    held = Held()

    def step(x: Any) -> Any:
        held.value = x
        held.parts = (x, x * 2)
        return x * 3

    compiled = weft.compile(step, backend="interpret")
    for n in rng.integers(1, 6, 3):
        x = MAKE[make](rng, int(n)).requires_grad_(wants)
        compiled(x)
        assert held.value is x and held.parts[0] is x and x.is_leaf


def test_arguments_of_the_same_parts(rng: np.random.Generator) -> None:
    def step(x: Any, y: Any) -> Any:
        return x is y, x, y

    compiled = weft.compile(step, backend="interpret")
    for n in rng.integers(1, 6, 2):
        x = MAKE["plain"](rng, int(n))
        for y in (Two(x.a, x.b), x, MAKE["plain"](rng, int(n)), Two(x.a, x.b)):
            is_same, first, second = compiled(x, y)
            assert is_same == (x is y) and first is x and second is y
