"""Gradients and tangents of every differentiable entry for a batch of examples at once,
against one example at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivatives import (
    CONSTANT,
    WITHOUT_SLOPE,
    Position,
    as_tensors,
    at,
    differentiable_positions,
    placed,
    weighted,
)
from refusals import REFUSING
from sampling import cases, mine

import weft
from tests.agree.width import times
from weft.func import grad, jvp, vmap
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.errors import StateError, WeftError

TESTED = [
    op for op in mine()
    if (op.is_differentiable or op.opens_above_autograd) and op.effect != "random" and "as_strided" not in op.name
]
# Only what one differentiates by is batched here; indices and counts are not, so that few operators refuse.
REFUSED = {"aten::masked_select", "aten::unique"}
WITHOUT = {f"aten::{name}" for name in WITHOUT_SLOPE | CONSTANT - {"new_empty_strided"}}


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_derivatives_of_examples_at_once(op, rng):
    found, checked = list(cases(op, rng)), 0
    for k in rng.permutation(len(found)):
        args = found[k]
        positions = differentiable_positions(op, args)
        if positions and checked < times(4):
            checked += check(op, args, positions)
    assert (checked > 0) == (op.name not in WITHOUT)


def check(op: Op, args: Any, positions: list[Position]) -> bool:
    """Hold the derivatives of a batch against those of its examples. Whether there were any."""
    full, weights = as_tensors(args), []

    def function(*tensors: Any) -> Any:
        return weighted(call(op, placed(full, positions, tensors)), weights)

    numbers = tuple(range(len(positions)))
    gradient = grad(function, argnums=numbers)
    batches = [[np.asarray(at(args, p) * (1 + 0.03 * i)) for i in range(2)] for p in positions]
    stacked = [weft.from_numpy(np.stack(b)) for b in batches]
    try:
        expected = [gradient(*[weft.from_numpy(b[i]) for b in batches]) for i in range(2)]
    except WeftError as refusal:  # the entry refuses this sample, or gives no float result: so it does for a batch
        with pytest.raises(type(refusal)):
            vmap(gradient)(*stacked)
        return False
    if op.name in REFUSED:
        with pytest.raises(StateError, match=REFUSING[op.name]):
            vmap(gradient)(*stacked)
        return True
    got = vmap(gradient)(*stacked)
    pushed = vmap(lambda *points: jvp(function, points, points)[1])(*stacked)
    for k in numbers:
        np.testing.assert_allclose(
            got[k].numpy(), np.stack([e[k].numpy() for e in expected]), rtol=1e-8, atol=1e-8,
            err_msg=f"{op.name}, input {k}",
        )
    alone = [
        jvp(function, point, point)[1] for point in (tuple(weft.from_numpy(b[i]) for b in batches) for i in range(2))
    ]
    np.testing.assert_allclose(
        pushed.numpy(), np.stack([t.numpy() for t in alone]), rtol=1e-8, atol=1e-8, err_msg=op.name
    )
    return True
