"""A name that setattr() or vars() makes is not there before the call, also where another function of the step reads it
by a computed name: it was taken for older, and the symbol stayed on the object when the capture was tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.symbols_left import symbols_left


class Held:
    size = 0


def by_setattr(held: Any, name: str, value: Any) -> None:
    setattr(held, name, value)


def by_vars(held: Any, name: str, value: Any) -> None:
    vars(held)[name] = value


def settle(held: Any) -> None:
    for name in [name for name in vars(held) if name.startswith("new")]:
        setattr(held, name, getattr(held, name).detach())


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
@pytest.mark.parametrize("write", [by_setattr, by_vars])
def test_it_is_new(write: Callable[..., None], options: dict[str, Any], rng: np.random.Generator) -> None:
    held = Held()

    def step(x: weft.Tensor) -> weft.Tensor:
        held.size = x.shape[0]
        write(held, f"new_{held.size}", x * 3)
        settle(held)
        return x * 2

    compiled = weft.compile(step, backend="interpret", **options)
    for n in (2, 3, 3, int(rng.integers(4, 9))):
        x = weft.from_numpy(rng.standard_normal(n))
        assert compiled(x).tolist() == (x * 2).tolist()
        assert getattr(held, f"new_{n}").tolist() == (x * 3).tolist()
        assert not symbols_left(held)
