"""Orders 1 and 2 of differentiable entries, drawn by the run's seed, against eager mode: the entry in eager mode and
in a compiled forward, walked by the engine and by captured backwards, native and node by node.

WEFT_DERIVATIVES says how many entries; 1000 is all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from derivatives import CONSTANT, WITHOUT_SLOPE, Position, at, differentiable_positions, projected, squared
from sampling import cases
from test_gradients import CASTS, DIFFERENTIABLE, WITHOUT_GRADIENT

import weft
from weft import compiled_autograd as ca
from weft.support.errors import CaptureError, WeftError

COUNT = int(os.environ.get("WEFT_DERIVATIVES", "8"))
ENTRIES = [op for op in DIFFERENTIABLE if op.base not in WITHOUT_GRADIENT | CASTS]
DRAWN = np.random.default_rng(int(os.environ["WEFT_TEST_SEED"])).permutation(len(ENTRIES))[:COUNT]
ASKING = {"aten::narrow.Tensor", "aten::tensor_split.tensor_indices_or_sections"}  # numbers of their tensors: refused
Walk = Callable[[], Any]
WALKS: list[tuple[bool, Walk]] = [
    (False, ca.enable), (True, nullcontext), (True, ca.enable), (True, lambda: ca.enable(ca.interpret))
]


def orders(f: Callable[..., Any], point: list[Any], walk: Walk) -> list[Any] | None:
    """Gradients, and those of their weighted sum; None where there are none."""
    leaves = [weft.from_numpy(np.array(p)).requires_grad_() for p in point]
    with walk():
        value = f(*leaves)
        if not isinstance(value, weft.Tensor) or not value.requires_grad:
            return None
        first = weft.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
        parts = [
            (g * weft.linspace(0.5, 1.5, g.numel(), dtype=g.dtype).reshape(g.shape)).sum() for g in first
            if g is not None and g.requires_grad
        ]
        second = weft.autograd.grad(sum(parts), leaves, allow_unused=True) if parts else ()
    return [None if g is None else g.detach().numpy() for g in (*first, *second)]


def check(found: list[Any], expected: list[Any]) -> None:
    for i, e in enumerate(expected):
        f = found[i] if i < len(found) else None
        if f is None or e is None:  # where nothing flows, one may say None and the other zeros
            assert not np.any(f if e is None else e)
        else:
            np.testing.assert_allclose(f, e, rtol=1e-7, atol=1e-9)


def compilable(op: Any, args: Any, positions: list[Position], point: list[Any]) -> Callable[..., Any] | None:
    """A projection of the results that a compiled forward takes: weights have sizes, which a capture may not know."""
    for f in (projected(op, args, positions, []), squared(op, args, positions)):
        try:
            weft.compile(f)(*[weft.from_numpy(np.array(p)) for p in point])
        except CaptureError:
            continue
        return f
    return None


@pytest.mark.parametrize("op", [ENTRIES[i] for i in DRAWN], ids=lambda op: op.name)
def test_orders_1_and_2_are_those_of_eager_mode(op: Any, rng: np.random.Generator) -> None:
    """Of the first sample that eager mode and a compiled forward take: there is one of each entry with a slope."""
    for args in cases(op, rng):
        positions = differentiable_positions(op, args)
        if not positions or any(isinstance(v, np.ndarray) and v.size > 40 for v in args):
            continue
        f, point = projected(op, args, positions, []), [at(args, p) for p in positions]
        try:
            if orders(f, point, nullcontext) is None:
                continue
        except WeftError:
            continue  # a sample that eager mode refuses
        if op.name not in ASKING:
            taken = compilable(op, args, positions, point)
            if taken is None:
                continue
            f = taken
        expected = orders(f, point, nullcontext)
        for is_compiled, walk in WALKS[:1] if op.name in ASKING else WALKS:
            found = orders(weft.compile(f) if is_compiled else f, point, walk)
            assert found is not None and expected is not None
            check(found, expected)
        return
    assert op.name.removeprefix("aten::") in WITHOUT_SLOPE | CONSTANT, "no sample was compared"
