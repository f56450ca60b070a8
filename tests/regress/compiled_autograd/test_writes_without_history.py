"""Nodes of one operator differ in their edges: a write of what has no gradient, behind one of what has, ended with
ValueError in a captured backward."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.compiled_autograd
from weft.compiled_autograd.collectors import COLLECTORS


def gradient(has_history: bool, factor: float) -> list[float]:
    x = weft.ones(3, requires_grad=True)
    y = (x * 2).clone()
    y.copy_(x * factor if has_history else weft.full((3,), factor))
    with weft.compiled_autograd.enable():
        (y * x).sum().backward()
    assert x.grad is not None
    values: list[float] = x.grad.tolist()
    return values


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_in_either_order(order: tuple[bool, bool], rng: np.random.Generator) -> None:
    before = dict(COLLECTORS)
    COLLECTORS.clear()
    try:
        for has_history in order * 2:
            factor = float(rng.integers(2, 9))
            assert gradient(has_history, factor) == [factor * (2 if has_history else 1)] * 3
    finally:
        COLLECTORS.update(before)
