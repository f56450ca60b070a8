"""Gradients of every differentiable entry, through weft.Tensor: order 1 and 2, in one random direction,
against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from derivatives import WITHOUT_SLOPE, at, differentiable_positions, has_kink, numeric, projected, slope
from sampling import cases, mine, written_samples

import weft
from weft.ops.packet import aten
from weft.support.errors import WeftError

DIFFERENTIABLE = [
    op for op in mine()
    if (op.vjp or op.view is not None or op.opens_above_autograd) and op.effect != "random" and op.schema.returns
    and any(a.kind == "Tensor" for a in op.schema.arguments)
]
# Composites that end in an operator without gradient, or in no tensor at all.
WITHOUT_GRADIENT = {"unique", "unique_consecutive"}
# Casts that round (differences of 1e-5 vanish) or that leave the real numbers.
CASTS = {"bfloat16", "half", "float", "cfloat", "cdouble"}
# Functions of Hermitian matrices: they read one triangle, so that only a Hermitian change is one.
HERMITIAN = {"linalg_eigh", "linalg_eigvalsh", "linalg_cholesky", "linalg_cholesky_ex", "cholesky"}
# Losses of a log_softmax, whose gradient is that of the logits: changing one logarithm alone says something else.
OF_LOGITS = {"_ctc_loss", "ctc_loss"}
# The history of one tensor for the values of another.
OF_ANOTHER = {"_with_history_of"}
# Numbers that move as their distribution does, and not as the sampler (tests/unit/distributions has their gradients),
# or not at all (tests/regress/random).
IMPLICIT = {"_drawn", "_gamma_numbers", "_dirichlet_numbers"}


def close(got: float, expected: float, scale: float) -> bool:
    return abs(got - expected) <= 2e-4 * max(scale, abs(expected), 1.0)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_first_and_second_order(op, rng):
    if op.base in WITHOUT_GRADIENT | CASTS | OF_LOGITS | OF_ANOTHER | IMPLICIT:
        pytest.skip("no gradient that differences could show")
    tested = 0
    for args in cases(op, rng):
        if any(isinstance(v, np.ndarray) and v.dtype == np.float64 and v.size > 40 for v in args):
            continue
        positions = differentiable_positions(op, args)
        if positions:
            tested += check(op, args, positions, rng)
    assert (
        tested or op.name.removeprefix("aten::") in WITHOUT_SLOPE
    ), "no sample had a gradient to hold against differences"


def test_a_gradient_flows_into_the_tensor_whose_history_it_is(rng):
    x, history = (weft.from_numpy(rng.standard_normal((2, 3))).requires_grad_() for _ in range(2))
    seed = weft.from_numpy(rng.standard_normal((2, 3))).requires_grad_()
    out = aten._with_history_of(x, history)
    found = weft.autograd.grad(out, [x, history], seed, allow_unused=True, create_graph=True)
    assert found[0] is None and weft.equal(out, x) and weft.equal(found[1], seed)
    assert weft.equal(weft.autograd.grad(found[1].sum(), seed)[0], weft.ones_like(seed))


def check(op, args, positions, rng) -> int:
    """1 if both orders were compared, 0 if the sample is refused or lies at a bound."""
    weights: list = []
    function = projected(op, args, positions, weights)
    point = [at(args, p) for p in positions]
    direction, other = ([np.asarray(rng.uniform(-1, 1, p.shape)) for p in point] for _ in range(2))
    if op.base in HERMITIAN:
        direction, other = ([d + np.swapaxes(d, -2, -1) for d in way] for way in (direction, other))
    try:
        value = function(*[weft.from_numpy(np.asarray(p)) for p in point])
    except WeftError:
        if written_samples(op) is not None:
            raise
        return 0  # made from the schema alone, and refused; test_values checks that the type rule says so
    if not isinstance(value, weft.Tensor) or not np.isfinite(float(value)):
        return 0
    first = slope(function, direction)
    tensors = [weft.from_numpy(np.asarray(p)) for p in point]
    got, expected = float(first(*tensors)), numeric(function, point, direction)
    scale = abs(float(value))
    if not close(got, expected, scale) and has_kink(function, point, direction):
        return 0
    assert close(got, expected, scale), f"{op.name}: d = {got}, central difference {expected}, at {args}"
    got, expected = float(slope(first, other)(*tensors)), numeric(first, point, other)
    assert close(got, expected, scale), f"{op.name}: second order {got}, central difference {expected}, at {args}"
    return 1


# ---- PyTorch's choices at kinks and ties
def gradient_at(function, *values):
    leaves = [weft.tensor(v, dtype=weft.float64, requires_grad=True) for v in values]
    gradients = weft.autograd.grad(function(*leaves).sum(), leaves, allow_unused=True)
    return [None if g is None else np.asarray(g.detach().numpy()).tolist() for g in gradients]


KINKS = [
    ("abs at 0", lambda x: x.abs(), ([0.0, -0.0, 2.0],), [[0, 0, 1]]),
    ("sign", lambda x: x.sign(), ([0.0, 3.0],), [[0, 0]]),
    ("full max shares ties", lambda x: x.max(), ([3.0, 3.0, 1.0],), [[0.5, 0.5, 0]]),
    ("full min shares ties", lambda x: x.min(), ([1.0, 3.0, 1.0],), [[0.5, 0, 0.5]]),
    ("max over a dim picks the first", lambda x: x.max(0)[0], ([3.0, 3.0, 1.0],), [[1, 0, 0]]),
    ("amax shares ties", lambda x: x.amax(0), ([3.0, 3.0, 1.0],), [[0.5, 0.5, 0]]),
    ("amin over rows", lambda x: x.amin(1), ([[1.0, 1.0], [2.0, 0.0]],), [[[0.5, 0.5], [0, 1]]]),
    ("maximum shares ties", lambda x, y: weft.maximum(x, y), ([1.0, 2.0, 0.0], [1.0, 0.0, 2.0]), [
        [0.5, 1, 0], [0.5, 0, 1]
    ]),
    ("clamp passes at its bounds", lambda x: x.clamp(0.0, 1.0), ([-1.0, 0.0, 0.5, 1.0, 2.0],), [[0, 1, 1, 1, 0]]),
    ("clamp_min passes at the bound", lambda x: x.clamp_min(0.0), ([-1.0, 0.0, 1.0],), [[0, 1, 1]]),
    ("norm at 0", lambda x: x.norm(), ([0.0, 0.0],), [[0, 0]]),
    ("1-norm at 0", lambda x: x.norm(1), ([0.0, 2.0, -1.0],), [[0, 1, -1]]),
    ("infinity norm shares ties", lambda x: x.norm(float("inf")), ([2.0, -2.0, 1.0],), [[0.5, -0.5, 0]]),
    ("std of equal elements", lambda x: x.std(), ([1.0, 1.0, 1.0],), [[0, 0, 0]]),
    ("product with one zero", lambda x: x.prod(), ([2.0, 0.0, 4.0],), [[0, 8, 0]]),
    ("product with two zeros", lambda x: x.prod(), ([0.0, 0.0, 4.0],), [[0, 0, 0]]),
    ("product along a dim", lambda x: x.prod(1), ([[2.0, 0.0], [3.0, 5.0]],), [[[0, 2], [5, 3]]]),
    ("cumprod through a zero", lambda x: x.cumprod(0), ([2.0, 0.0, 4.0],), [[1, 10, 0]]),
    ("x ** 0 at 0", lambda x: x**0, ([0.0, 2.0],), [[0, 0]]),
    ("x ** 0 tensor at 0", lambda x, e: x**e, ([0.0, 2.0], [0.0, 2.0]), [[0, 4], [0, 4 * np.log(2)]]),
    ("x ** 1 at 0", lambda x: x**1, ([0.0],), [[1]]),
    ("0 ** tensor", lambda e: 0.0**e, ([1.0, 2.0],), [[0, 0]]),
    ("where takes one side", lambda x: weft.where(x > 0, x, 0), ([-1.0, 0.0, 2.0],), [[0, 0, 1]]),
    ("xlogy at 0, 0", lambda x, y: weft.xlogy(x, y), ([0.0, 1.0], [0.0, 1.0]), [[0, 0], [np.nan, 1]]),
    (
        "sort sends gradients home", lambda x: x.sort()[0] * weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64),
        ([3.0, 1.0, 2.0],), [[3, 1, 2]],
    ),
    ("nan_to_num blocks what it replaced", lambda x: x.nan_to_num(), ([np.nan, np.inf, 1.0],), [[0, 0, 1]]),
]


@pytest.mark.parametrize("function,values,expected", [k[1:] for k in KINKS], ids=[k[0] for k in KINKS])
def test_subgradients(function, values, expected):
    got = gradient_at(function, *values)
    for g, e in zip(got, expected, strict=False):
        np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(e, np.float64), atol=1e-12)


def test_where_of_log_at_zero_is_nan_as_in_pytorch():
    [g] = gradient_at(lambda x: weft.where(x > 0, weft.log(x), 0), [0.0, 1.0])
    assert np.isnan(g[0]) and g[1] == 1
