"""Traced pointwise bodies give what the bodies give: whatever is absent, for zeros of both signs, for long operands,
in memory of their own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops.packet import aten
from weft.ops.plan import Calls, trace_body
from weft.ops.scalar_numpy import BLOCK
from weft.types import dtype as dt

functional = weft.nn.functional


def test_numbers_that_are_defaults_and_others_in_every_order(rng: np.random.Generator) -> None:
    x = rng.standard_normal(5).astype(np.float32)
    for order in itertools.permutations([(1.0, 1.0), (0.7, 1.0), (1.0, 1.2), (0.3, 0.4)]):
        for alpha, scale in order:
            got = aten.elu(weft.tensor(x), alpha, scale, 1 / alpha)
            np.testing.assert_allclose(
                got.numpy(), scale * np.where(x > 0, x, alpha * np.expm1(x / alpha)), rtol=1e-5, atol=1e-6
            )
    for alpha in (1.0, 0.5, 1.0, 2.0):
        np.testing.assert_allclose(
            functional.celu(weft.tensor(x), alpha).numpy(),
            np.where(x > 0, x, alpha * np.expm1(x / alpha)), rtol=1e-5, atol=1e-6,
        )


def test_the_sign_of_zero() -> None:
    x = weft.tensor([1.0, -2.0])
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit((x * zero).numpy()).tolist() == [math.copysign(1, zero) < 0, math.copysign(1, zero) > 0]
        assert weft.copysign(x, zero).numpy().tolist() == [math.copysign(1.0, zero), math.copysign(2.0, zero)]


def test_a_number_of_another_type_is_another_plan() -> None:
    x = weft.tensor([3, 4])
    assert (x * True).dtype is weft.int64 and (x * 1).dtype is weft.int64 and (x * 1.0).dtype is weft.float32
    assert (
        (x**2).numpy().tolist() == [9, 16] and (x**2.0).numpy().tolist() == [9.0, 16.0]
        and (x**3).numpy().tolist() == [27, 64]
    )


@pytest.mark.parametrize("size", [0, 1, 7, 4 * BLOCK - 1, 4 * BLOCK, 4 * BLOCK + 3])
def test_long_operands_and_short_ones(size: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(size).astype(np.float32)
    for _ in range(2):
        np.testing.assert_allclose(
            functional.silu(weft.tensor(x)).numpy(), x / (1 + np.exp(-x.astype(np.float64))), rtol=2e-5, atol=1e-6
        )
        np.testing.assert_array_equal(functional.relu(weft.tensor(x)).numpy(), np.maximum(x, 0))


def written(scalar: Callable[..., Any], *operands: Any) -> Callable[..., Any]:
    """The body as a plan for operands like these."""
    calls = Calls(len(operands))
    return calls.function(calls.inline(trace_body(scalar, operands, dt.float32), range(len(operands))))


def test_a_result_is_never_an_operand() -> None:
    x, wide = np.arange(6, dtype=np.float32), np.ones((2, 6), np.float32)
    same = written(lambda s, v: v, x)(x)
    assert same is not x and same.tolist() == x.tolist() and not np.may_share_memory(same, x)
    assert written(lambda s, v, w: s.add(v, v), x, wide)(x, wide).shape == (2, 6)
    assert written(lambda s, v: s.const(3, dt.float32), x)(x).tolist() == [3.0] * 6
    twice = written(lambda s, v: s.sub(s.const(1, dt.float32), s.mul(v, v)), x)
    assert twice(x).tolist() == (1 - x * x).tolist() and twice(x[:2]).tolist() == [1.0, 0.0]


def test_what_a_body_reads_in_python_is_part_of_the_plan(rng: np.random.Generator) -> None:
    x = rng.standard_normal(4)
    for approximate in ("none", "tanh", "none"):
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        exact = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])
        expected = 0.5 * x * (1 + np.tanh(inner)) if approximate == "tanh" else exact
        np.testing.assert_allclose(
            functional.gelu(weft.tensor(x), approximate=approximate).numpy(), expected, rtol=1e-9
        )


def test_errors_still_come_from_the_type_rule() -> None:
    x, y = weft.zeros(2, 3), weft.zeros(4)
    weft.maximum(x, x)
    with pytest.raises(RuntimeError, match="size of tensor a"):
        weft.maximum(x, y)
    weft.where(x > 0, x, x)
    with pytest.raises(RuntimeError, match="size of tensor"):
        weft.where(x > 0, x, y)


@pytest.mark.parametrize("number", [2, 0.1, 3.0])
def test_numbers_alone_are_computed_as_python_does(number: float) -> None:
    """A quotient or a root of integers is no float32 on its way."""
    assert aten.div(1, number) == 1 / number
    assert aten.sqrt(number) == math.sqrt(number)
    assert aten.lt(number, 3) is (number < 3)
    assert type(aten.mul(number, 2)) is type(number)
