"""A view that is made before its base is told to require a gradient has no history, where a compiled function gives
both back, too: it was made anew when the base had its flag, and gradients went through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def computed(x: weft.Tensor) -> list[weft.Tensor]:
    a = x * 1
    first, flat = a[0], a.view(-1)[1:]
    a.requires_grad_()
    return [a, first, flat, a[1]]


def of_argument(x: weft.Tensor) -> list[weft.Tensor]:
    first = x[0]
    x.requires_grad_()
    return [x, first, x[1]]


def used(x: weft.Tensor) -> list[weft.Tensor]:
    a = x * 1
    first = a[0]
    a.requires_grad_()
    loss = a.sum() * 2 + first.sum()
    loss.backward()
    return [a, first, loss.detach()]


kept: dict[str, weft.Tensor] = {}


def assigned(x: weft.Tensor) -> list[weft.Tensor]:
    a = x * 1
    kept["first"] = a[0]
    kept["whole"] = a.requires_grad_()
    return [kept["whole"], kept["first"]]


def seen(tensors: list[weft.Tensor]) -> list[Any]:
    facts: list[Any] = [(t.requires_grad, t.is_leaf, t._base is None) for t in tensors]
    try:
        tensors[1].mul_(2)
    except RuntimeError as error:
        facts.append(str(error).partition(": ")[2] or str(error))
    sum(t.sum() for t in tensors if t.requires_grad).backward()
    return [*facts, tensors[0].grad.tolist(), [t.tolist() for t in tensors]]


@pytest.mark.parametrize("f", [computed, of_argument, used, assigned])
@pytest.mark.parametrize("split", [False, True])
def test_it_has_no_history(f: Callable[..., list[weft.Tensor]], split: bool, rng: np.random.Generator) -> None:
    compiled = weft.compile(f, split=split)
    for n in rng.integers(2, 6, 4).tolist():
        values = weft.from_numpy(rng.integers(-4, 5, (n, 3)).astype(np.float64))
        facts = seen(f(values.clone()))
        assert facts[1][0] is False
        assert seen(compiled(values.clone())) == facts
