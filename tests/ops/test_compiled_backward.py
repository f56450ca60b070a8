"""The backward of every differentiable entry through compiled autograd: captured from placeholders that refuse any
read, at order 1 and 2, with the gradients that the engine gives (which test_gradients.py holds against differences).

Node by node by default; natively for entries that are drawn, for all of them where WEFT_AGREE is set.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from derivatives import at, differentiable_positions, projected
from sampling import cases
from test_gradients import DIFFERENTIABLE

import weft
from weft import compiled_autograd as ca
from weft.compiled_autograd.cache import cache
from weft.support.errors import WeftError

DRAWN = 8
SAMPLES = 2 if os.environ.get("WEFT_AGREE") else 1
_draw = np.random.default_rng(int(os.environ["WEFT_TEST_SEED"]))
NATIVE = (
    DIFFERENTIABLE if os.environ.get("WEFT_AGREE")
    else [DIFFERENTIABLE[i] for i in sorted(_draw.choice(len(DIFFERENTIABLE), DRAWN, replace=False))]
)


def gradients(function, values):
    """Of orders 1 and 2, with None where there is none."""
    leaves = [weft.from_numpy(np.array(v)).requires_grad_() for v in values]
    out = function(*leaves)
    if not isinstance(out, weft.Tensor) or not out.requires_grad:
        return None
    first = weft.autograd.grad(out, leaves, create_graph=True, allow_unused=True)
    slopes = [g for g in first if g is not None and g.requires_grad]
    second = (
        weft.autograd.grad(sum((g * g).sum() for g in slopes), leaves, allow_unused=True) if slopes
        else [None] * len(leaves)
    )
    return [None if g is None else g.detach().numpy().copy() for g in (*first, *second)]


def check(op, compiler, rng):
    """Compare the first samples. An entry whose results have no gradient has none to compare."""
    tested = 0
    for args in cases(op, rng):
        positions = differentiable_positions(op, args)
        if not positions or any(isinstance(v, np.ndarray) and v.size > 40 for v in args):
            continue
        function, values = projected(op, args, positions, []), [at(args, p) for p in positions]
        try:
            expected = gradients(function, values)
        except WeftError:
            continue  # refused, by either walk
        if expected is None:
            continue
        calls = cache.calls
        with ca.enable(compiler), ca.trap_metadata():
            found = gradients(function, values)
        assert cache.calls > calls
        for f, e in zip(found, expected, strict=True):
            assert (f is None) == (e is None)
            if e is not None:
                assert f.shape == e.shape and f.dtype == e.dtype
                np.testing.assert_allclose(f, e, rtol=1e-7, atol=1e-9)
        tested += 1
        if tested == SAMPLES:
            break


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_node_by_node(op, rng):
    check(op, ca.interpret, rng)


@pytest.mark.parametrize("op", NATIVE, ids=lambda op: op.name)
def test_natively(op, rng):
    check(op, ca.native, rng)
