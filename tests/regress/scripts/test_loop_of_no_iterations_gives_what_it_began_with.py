"""A scripted loop of no iterations gives the tensor that it began with. As a result of a compiled group that was one of
its own: a write into it behind the loop was not seen by the other name, in silence, from the second call on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

HEAD = "def f(x: Tensor, k: int):\n"
BODIES = {
    "two names": """
    t = x * 2
    other = t
    for i in range(k):
        t = weft.tanh(t)
    t += 0.5
    return t, other, t * 1.5""",
    "a list": """
    t = x * 2
    kept = [t]
    for i in range(k):
        t = weft.tanh(t)
    kept.append(t)
    t += 0.5
    return t, kept[0], kept[1]""",
    "a view": """
    base = x * 2
    t = base[1:]
    for i in range(k):
        t = weft.tanh(t)
    t += 0.5
    return t, base, base * 2""",
    "while": """
    t = x * 2
    other = t
    while bool(t.sum() > 1000):
        t = weft.tanh(t)
    t *= 3
    return t, other, other + k""",
    "nested": """
    t = x * 2
    other = t
    for j in range(2):
        for i in range(k):
            t = weft.tanh(t)
    t += 0.5
    return t, other, other + t""",
    "a branch": """
    t = x * 2
    other = t
    u = weft.sin(other) * 3
    if k > 0:
        t = weft.tanh(t) + u
    t += 0.5
    return t, other, u""",
}


def agree(body: str, rng: np.random.Generator, counts: tuple[int, ...], positive: bool = False) -> None:
    """A script does as Python does, for these numbers of iterations."""
    text = HEAD + body.lstrip("\n")
    space: dict[str, Any] = {"weft": weft, "Tensor": weft.Tensor}
    exec(text, space)
    scripted = weft.jit.CompilationUnit(text).f
    for k in counts:
        values = rng.standard_normal(int(rng.integers(2, 6)))
        values = abs(values) if positive else values
        results = [function(weft.from_numpy(values), k) for function in (scripted, space["f"])]
        for mine, plain in zip(*results, strict=True):
            np.testing.assert_allclose(mine.numpy(), plain.numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize("name", BODIES)
def test_writes_are_seen_in_both(name: str, rng: np.random.Generator) -> None:
    agree(BODIES[name], rng, (0, 0, 1, 0, 2, 0))


WRITES = {
    "behind a branch that reads it": """
    a = x * 2
    b = x + 1
    kept = [a]
    for i in range(k):
        a = kept[-1] + b
    a = weft.tanh(a)
    if k > 1:
        b = weft.tanh(a)
    a[0] = 0.25
    return a, b, b * 2""",
    "within a loop, of what a list has": """
    a = x * 2
    kept = [a]
    for i in range(k):
        if bool(x.sum() > 0):
            a[0] = 0.25
        a = weft.tanh(a)
    return a, kept[0], a * x""",
    "behind a loop, by another name": """
    b = x + 1
    a = b
    for i in range(k):
        a = a * a
    b[0] = 0.25
    c = weft.tanh(a)
    return a, b, c""",
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_items(name: str, rng: np.random.Generator) -> None:
    """A write moved over what reads the tensor, or was made into a copy of it."""
    agree(WRITES[name], rng, (2, 2, 0, 1, 3, 0), positive=True)
