"""The backward of every differentiable entry through compiled autograd: captured from placeholders that refuse any
read, at order 1 and 2, with the gradients that the engine gives (which test_gradients.py holds against differences).

Node by node by default; natively for entries that are drawn, for all of them where WEFT_AGREE is set.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from derivatives import NO_FORMULA, at, differentiable_positions, projected
from sampling import cases
from test_gradients import DIFFERENTIABLE

import weft
from weft import compiled_autograd as ca
from weft.compiled_autograd.cache import cache
from weft.support.errors import WeftError

DRAWN = 8
OTHERS = {"aten::view_as_real", "aten::view_as_real_copy", "aten::view_bits_scatter"}  # tested below
SAMPLES = 2 if os.environ.get("WEFT_AGREE") else 1
_draw = np.random.default_rng(int(os.environ["WEFT_TEST_SEED"]))
NATIVE = (
    DIFFERENTIABLE if os.environ.get("WEFT_AGREE")
    else [DIFFERENTIABLE[i] for i in sorted(_draw.choice(len(DIFFERENTIABLE), DRAWN, replace=False))]
)


@pytest.fixture(autouse=True)
def _empty_cache():
    """A new graph is compared with all that are kept, to say what is new in it."""
    ca.reset()


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
    """Compare the first samples: one at least of an entry that has a node, unless its samples are complex."""
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
    assert tested or not op.is_differentiable or op.name in OTHERS or op.base in NO_FORMULA


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_node_by_node(op, rng):
    check(op, ca.interpret, rng)


@pytest.mark.parametrize("op", NATIVE, ids=lambda op: op.name)
def test_natively(op, rng):
    check(op, ca.native, rng)


@pytest.mark.parametrize("compiler", [ca.interpret, ca.native])
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_entries_of_complex_tensors(name, compiler, rng):
    """Against closed forms: of sum(w * |z|^2), written in parts, and of what takes the place of the parts."""
    z = weft.from_numpy(rng.standard_normal(4) + 1j * rng.standard_normal(4)).requires_grad_()
    scale, parts = (weft.from_numpy(rng.standard_normal((4, 2))) for _ in range(2))
    parts.requires_grad_()
    with ca.enable(compiler), ca.trap_metadata():
        if name == "aten::view_bits_scatter":
            made = weft.ops.aten.view_bits_scatter(z.unsqueeze(1), parts, weft.float64, 16)
            (g,) = weft.autograd.grad((made.real * 2 + made.imag * 3).sum(), parts)
            np.testing.assert_allclose(g.numpy(), np.tile([2.0, 3.0], (4, 1)))
            return
        show = weft.view_as_real if name == "aten::view_as_real" else weft.view_as_real_copy
        (first,) = weft.autograd.grad((show(z).square() * scale).sum(), z, create_graph=True)
        (second,) = weft.autograd.grad(show(first).square().sum(), z)
    slopes = 2 * show(z.detach()).numpy() * scale.numpy()
    np.testing.assert_allclose(show(first.detach()).numpy(), slopes)
    np.testing.assert_allclose(show(second).numpy(), 4 * slopes * scale.numpy())
