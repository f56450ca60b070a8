"""Gradients and tangents of every differentiable entry for a batch of examples at once, against one example at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivatives import as_tensors, differentiable_positions, weighted
from sampling import cases, mine

import weft
from weft.func import grad, jvp, vmap
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.errors import StateError, WeftError

TESTED = [op for op in mine() if (op.is_differentiable or op.opens_above_autograd) and op.effect != "random" and "as_strided" not in op.name]
REFUSED = ("dynamic shape", "asks a tensor for its value", "a mask that differs")


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_derivatives_of_examples_at_once(op, rng):
    found = list(cases(op, rng))
    for k in rng.permutation(len(found))[:3]:
        args = found[k]
        positions = differentiable_positions(op, args)
        if positions:
            check(op, args, positions)


def check(op: Op, args: Any, positions: list[int]) -> None:
    full, weights = [as_tensors(a) for a in args], []

    def function(*tensors: Any) -> Any:
        listed = list(full)
        for at, t in zip(positions, tensors, strict=True):
            listed[at] = t
        return weighted(call(op, tuple(listed)), weights)

    numbers = tuple(range(len(positions)))
    gradient = grad(function, argnums=numbers)
    batches = [[np.asarray(args[at] * (1 + 0.03 * i)) for i in range(2)] for at in positions]
    try:
        expected = [gradient(*[weft.from_numpy(b[i]) for b in batches]) for i in range(2)]
    except WeftError:
        return  # the entry refuses this sample, or gives no float result
    stacked = [weft.from_numpy(np.stack(b)) for b in batches]
    try:
        got = vmap(gradient)(*stacked)
        pushed = vmap(lambda *points: jvp(function, points, points)[1])(*stacked)
    except StateError as error:
        if any(words in str(error) for words in REFUSED):
            return
        raise
    for k in numbers:
        np.testing.assert_allclose(got[k].numpy(), np.stack([e[k].numpy() for e in expected]), rtol=1e-8, atol=1e-8, err_msg=f"{op.name}, input {k}")
    alone = [jvp(function, point, point)[1] for point in (tuple(weft.from_numpy(b[i]) for b in batches) for i in range(2))]
    np.testing.assert_allclose(pushed.numpy(), np.stack([t.numpy() for t in alone]), rtol=1e-8, atol=1e-8, err_msg=op.name)
