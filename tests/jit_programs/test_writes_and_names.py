"""Random scripted functions of two tensors with several names each, written in place within and behind loops, branches
and lists: they do as Python does, for trip counts that are none at some calls."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

import weft
from tests.conftest import SEED

COUNT = int(os.environ.get("TEST_MIXED", "24")) * 4
TRIPS = (2, 1, 2, 0, 3, 1, 0)


def draw(seed: int) -> str:
    """The source of a function."""
    r = random.Random(seed)
    names, lines = ["a", "b"], ["a = x * 2", "b = x + 1", "held = [a]"]

    def statement(depth: int) -> list[str]:
        v, w = r.choice(names), r.choice(names)
        target = r.choice([*names, f"v{len(names)}"] if depth == 0 else names)
        kind = r.random()
        if 0.66 <= kind < 0.88 and depth < 2:
            inner = ["    " + line for _ in range(r.randint(1, 2)) for line in statement(depth + 1)]
            if kind < 0.78:
                return [f"for i{depth} in range(k{r.choice(['', ' % 2', ' - 1'])}):", *inner]
            condition = r.choice(["k > 1", f"bool({v}.sum() > 0)"])
            other = ["else:", *["    " + line for line in statement(depth + 1)]] if r.random() < 0.5 else []
            return [f"if {condition}:", *inner, *other]
        if 0.35 <= kind < 0.5:
            return [f"{v} += {r.choice(['0.5', w])}"]
        if 0.58 <= kind < 0.66:
            return [f"{v}[0] = 0.25"]
        if 0.88 <= kind < 0.94:
            return [f"held.append({v})"]
        if target not in names:
            names.append(target)
        if kind < 0.2:
            return [f"{target} = weft.tanh({v})"]
        if kind < 0.35:
            return [f"{target} = {v}"]
        if kind < 0.58:
            return [f"{target} = {v}[{r.choice(['0:1', '1:', '0:2'])}]" if depth == 0 else f"{target} = {v} * {w}"]
        return [f"{target} = held[-1] + {v}"]

    for _ in range(r.randint(4, 9)):
        lines += statement(0)
    body = "".join(f"    {line}\n" for line in lines)
    return f"def f(x: Tensor, k: int):\n{body}    return {', '.join(names)}, held\n"


def outcome(function: Any, k: int) -> Any:
    """The results as a flat list of arrays, or the kind of error."""
    x = weft.tensor([0.3, -0.4, 0.7], dtype=weft.float64)
    try:
        *tensors, held = function(x, k)
    except Exception as error:
        return "an error" if isinstance(error, RuntimeError) else type(error).__name__
    return [t.numpy() for t in (*tensors, *held)]


def test_scripts_do_as_python_does() -> None:
    start = int(np.random.default_rng([SEED, 507]).integers(1 << 30))
    for seed in range(start, start + COUNT):
        text = draw(seed)
        space: dict[str, Any] = {"weft": weft, "Tensor": weft.Tensor}
        exec(text, space)
        scripted = weft.jit.CompilationUnit(text).f
        for k in TRIPS:
            here, there = outcome(scripted, k), outcome(space["f"], k)
            assert isinstance(here, str) == isinstance(there, str), f"{k}: {here}, {there}\n{text}"
            for mine, plain in () if isinstance(here, str) else zip(here, there, strict=True):
                same = mine.shape == plain.shape and np.allclose(mine, plain, 1e-9, 1e-9, equal_nan=True)
                assert same, f"seed {seed}, k {k}: {mine}, not {plain}\n{text}"
