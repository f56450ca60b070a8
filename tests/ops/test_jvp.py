"""Tangents of every differentiable entry: <u, J v> = <u J, v>, through the written and derived rules and through
the transposed vjp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivatives import CONSTANT, WITHOUT_SLOPE, Position, as_tensors, at, differentiable_positions, placed
from sampling import cases, mine, written_samples

import weft
from weft.func import jvp, vjp
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.errors import WeftError

# no derivative is asked for, or a random one
WITHOUT = WITHOUT_SLOPE | CONSTANT | {"half", "bfloat16"}  # half precisions round too much to compare
TESTED = [op for op in mine() if (op.is_differentiable or op.opens_above_autograd) and op.effect != "random"]


def floats(value: Any) -> list[Any]:
    listed = value if isinstance(value, (tuple, list)) else (value,)
    return [v for v in listed if isinstance(v, weft.Tensor) and v.dtype.is_differentiable]


def inner(left: list[Any], right: list[Any]) -> float:
    """The real inner product."""
    return sum(
        float(weft.real((weft.conj(a) * b).sum()) if a.dtype.is_complex else (a * b).sum())
        for a, b in zip(left, right, strict=True)
    )


def direction(like: Any, rng: np.random.Generator) -> weft.Tensor:
    made = rng.uniform(-1, 1, tuple(like.shape))
    return weft.from_numpy(
        np.asarray(made + 1j * rng.uniform(-1, 1, tuple(like.shape)) if like.dtype.is_complex else made)
    )


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op.name)
def test_forward_is_the_adjoint_of_reverse(op, rng):
    tested = False
    for args in cases(op, rng):
        positions = differentiable_positions(op, args)
        if positions:
            tested = check(op, args, positions, rng) or tested
            check(op, args, [positions[rng.integers(len(positions))]], rng)
    assert tested or op.name.removeprefix("aten::") in WITHOUT, "no sample had a tangent to compare"


def check(op: Op, args: Any, positions: list[Position], rng: np.random.Generator) -> bool:
    """Whether both products were there to be compared."""
    full = as_tensors(args)

    def function(*tensors: Any) -> Any:
        return tuple(floats(call(op, placed(full, positions, tensors))))

    points = tuple(at(full, p) for p in positions)
    try:
        results = function(*points)
    except WeftError:
        if written_samples(op) is not None:
            raise
        return False  # made from the schema alone, and refused
    if not results or any(r.dtype.itemsize < 4 for r in results):
        return False
    v = tuple(direction(p, rng) for p in points)
    u = tuple(direction(r, rng) for r in results)
    value, pushed = jvp(function, points, v)
    pulled = vjp(function, *points)[1](u)
    for a, b, p in zip(value, results, pushed, strict=True):
        assert (p.dtype, p.shape) == (b.dtype, b.shape), op.name
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)
    left, right = inner(list(u), list(pushed)), inner(list(pulled), list(v))
    single = any(r.dtype in (weft.float32, weft.complex64) for r in results)
    if not (np.isfinite(left) and np.isfinite(right)):
        return False
    assert (
        left == pytest.approx(right, rel=1e-4 if single else 1e-7, abs=1e-4 if single else 1e-7)
    ), (op.name, positions, [p.shape for p in points])
    return True
