"""Programs of several reductions over parameters and arguments of different sizes, with the same arithmetic before and
beside each: native code gives what eager mode gives, each kernel whatever it shares with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.width import times
from weft.support import pytree

PROGRAMS = 6
BODIES = (
    "w", "w * w", "(w ** 2) * 2 + w", "(w ** 2) * 2 + (w + 1) ** 3 + (w + 2) ** 2 + w", "w.tanh() * w.exp()",
    "weft.where(w > 0, w, w * 0.5)", "(w - w.mean()).abs()",
)
REDUCTIONS = (
    "({b}).sum()", "({b}).sum(-1)", "({b}).sum(0)", "({b}).amax(-1)", "({b}).mean()", "({b}).logsumexp(-1)",
    "({b}).softmax(-1).sum(0)", "({b}).var(-1, unbiased=False)", "({b}).norm()", "({b}).argmax(-1)", "({b}).amin()",
)
ROUNDS = ("once", "accumulated", "penalty")  # how often the whole is computed, and what is asked of it


def draw(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]], str]:
    """The source of a step over a list of tensors, their shapes, and the dtype."""
    sizes = rng.choice([1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 33, 70, 300, 1100], size=6)
    rows = rng.integers(1, 4, 6)
    shapes = [(int(n),) if rng.random() < 0.3 else (int(r), int(n)) for r, n in zip(rows, sizes, strict=True)]
    body, reduction = str(rng.choice(BODIES)), str(rng.choice(REDUCTIONS))
    taken = reduction.format(b=body)
    beside = "w * 2" if rng.random() < 0.5 else "None"
    kind = str(rng.choice(ROUNDS)) if "argmax" not in reduction else "once"
    lines = ["def step(ws, x):"]
    if kind == "once":
        lines += [f"    return [({taken}, {beside}) for w in ws], x.sum()"]
    else:
        turns = 2 if kind == "accumulated" else 1
        lines += ["    total = 0.0", f"    for part in x.chunk({turns}):"]
        lines += [f"        loss = (part ** 2).mean() + sum((({taken}) ** 2).sum() for w in ws)"]
        lines += ["        loss.backward()", "        total = total + loss.detach()"]
        lines += ["    return total, [w.grad for w in ws]"]
    return "\n".join(lines), shapes, str(rng.choice(["float32", "float32", "float64"]))


def results(source: str, arrays: list[np.ndarray[Any, Any]], compiled: bool) -> list[Any]:
    """What two calls give, leaves in order: the tensors are state of the program, then arguments."""
    scope: dict[str, Any] = {"weft": weft}
    exec(source, scope)
    seen: list[Any] = []
    for is_state in (True, False):
        *ws, x = [weft.from_numpy(a.copy()) for a in arrays]
        ws = [w.requires_grad_("backward" in source) for w in ws]
        scope["ws"] = ws
        run = eval("lambda x: step(ws, x)", scope) if is_state else scope["step"]
        run = weft.compile(run) if compiled else run
        leaves, _ = pytree.flatten(run(x) if is_state else run(ws, x))
        seen += [None if leaf is None else leaf.detach().numpy() for leaf in leaves]
    return seen


@pytest.mark.parametrize("part", range(2))
def test_each_is_what_it_is_alone(rng: np.random.Generator, part: int) -> None:
    for _ in range(times(PROGRAMS)):
        source, shapes, dtype = draw(rng)
        arrays = [rng.normal(size=s).astype(dtype) for s in (*shapes, (4, 3))]
        tolerance = 1e-4 if dtype == "float32" else 1e-9
        expected = results(source, arrays, False)
        for i, (a, b) in enumerate(zip(results(source, arrays, True), expected, strict=True)):
            if b is not None:
                message = f"leaf {i} of\n{source}\n{shapes} {dtype}"
                np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=message)
