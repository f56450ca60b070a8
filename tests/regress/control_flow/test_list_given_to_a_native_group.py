"""A list that a scripted group of operators was given and gave back ended the call with an AttributeError about `tree`:
programs of groups were run without the containers of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor


def sums(x: Tensor, n: int):  # type: ignore[no-untyped-def]
    total = x * 1.0
    kept = [total]
    total += 0.75
    for _ in range(1, n):
        total = total + x
    return total, kept


def two_lists(x: Tensor, n: int):  # type: ignore[no-untyped-def]
    total = x * 1.0
    first = [total]
    second = [total, x]
    total += 0.5
    for i in range(n):
        total = total * x + i
    first.append(total)
    return total, first, second


@pytest.mark.parametrize("function", [sums, two_lists])
@pytest.mark.parametrize("wants", [False, True])
def test_lists_come_back(function, wants: bool, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    scripted = weft.jit.script(function)
    for n in (2, 4, 4, *rng.integers(3, 7, 3).tolist()):
        values = rng.standard_normal(3)
        outcomes = []
        for program in (function, scripted):
            x = weft.tensor(values, requires_grad=wants)
            total, *lists = program(x, n)
            if wants:
                (total.sum() + sum(t.sum() for tensors in lists for t in tensors)).backward()
            grad: Any = None if x.grad is None else x.grad.tolist()
            outcomes.append((total.tolist(), [[t.tolist() for t in tensors] for tensors in lists], grad))
        (value, lists, expected), (other, others, gradient) = outcomes
        np.testing.assert_allclose(other, value, rtol=1e-12)
        assert [len(tensors) for tensors in others] == [len(tensors) for tensors in lists]
        for tensors, again in zip(lists, others, strict=True):
            np.testing.assert_allclose(again, tensors, rtol=1e-12)
        if wants:
            np.testing.assert_allclose(gradient, expected, rtol=1e-12)
