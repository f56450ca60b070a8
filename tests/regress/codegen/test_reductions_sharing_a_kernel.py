"""Reductions over different dims that meet in one kernel; constants beyond the range of a kernel's dtype."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.codegen.emit.types import BF16, F16, F32, round_to


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("columns", [1, 2, 33])
def test_over_columns_and_over_rows(rows: int, columns: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((rows, columns))

    def step(x: weft.Tensor) -> list[weft.Tensor]:
        return [x.argmax(0), x.sum(-1), x.amax(0), x.sum(), x.argmin(1), x.mean(0), (x * 2).sum(1)]

    expected = [x.argmax(0), x.sum(1), x.max(0), x.sum(), x.argmin(1), x.mean(0), 2 * x.sum(1)]
    for order in (list(range(7)), list(range(7))[::-1], [0, 1], [0, 3], [2, 3, 1]):
        compiled = weft.compile(lambda x, order=order: [step(x)[i] for i in order])
        for a, i in zip(compiled(weft.from_numpy(x)), order, strict=True):
            np.testing.assert_allclose(a.numpy(), expected[i], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [weft.float64, weft.float32])
def test_infinities_become_the_greatest_number_of_the_dtype(dtype: weft.DType) -> None:
    x = weft.tensor([float("nan"), float("inf"), float("-inf"), 1.5], dtype=dtype)
    greatest = float(np.finfo(dtype.numpy).max)
    for run in (weft.nan_to_num, weft.compile(lambda t: weft.nan_to_num(t))):
        assert run(x).tolist() == [0.0, greatest, -greatest, 1.5]


@pytest.mark.parametrize("type,numpy", [(F32, np.float32), (F16, np.float16)])
def test_constants_round_as_numpy_rounds(type: object, numpy: type, rng: np.random.Generator) -> None:
    top = float(np.finfo(numpy).max)
    drawn = np.ldexp(rng.standard_normal(200), rng.integers(-180, 180, 200))
    with np.errstate(over="ignore", under="ignore"):
        for value in [1e308, -1e308, top, top * (1 + 2**-30), top * 1.001, 5e-324, *drawn.tolist()]:
            assert round_to(type, value) == float(numpy(value))  # type: ignore[arg-type]
    assert round_to(BF16, 1e300) == float("inf")


def test_einsum_with_a_size_of_one() -> None:
    w = weft.ones(3, 2)
    step = weft.compile(lambda x: weft.einsum("ij,kj->ik", w, x))
    for n, m in ((2, 1), (4, 2), (3, 1), (1, 2)):
        assert step(weft.ones(n, m)).tolist() == [[2.0] * n] * 3


def test_a_branch_keeps_the_order_of_dims(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((3, 4)))

    def step(x: weft.Tensor) -> weft.Tensor:
        return weft.cond(x.sum() > 0, lambda: x.t() * 2, lambda: x.t() + 1)

    assert weft.compile(step)(x).stride() == step(x).stride() == (1, 4)


def test_orders_do_not_hang_on_the_first_sizes() -> None:
    step = weft.compile(lambda x: weft.zeros_like(x).permute(1, 0, 2) * 2)
    for shape in ((4, 1, 3), (2, 3, 2)):
        expected = (weft.zeros(*shape).permute(1, 0, 2) * 2).stride()
        found = step(weft.ones(*shape)).stride()
        assert [f for f, n in zip(found, (shape[1], shape[0], shape[2]), strict=True) if n > 1] == [
            e for e, n in zip(expected, (shape[1], shape[0], shape[2]), strict=True) if n > 1
        ]
    assert len(step.entries) == 1


def test_pieces_of_nothing() -> None:
    def step(x: weft.Tensor) -> list[weft.Tensor]:
        return [piece.sum() for piece in x[1:].chunk(2)]

    for n in (1, 4):
        x = weft.arange(float(n))
        assert [p.item() for p in weft.compile(step)(x)] == [p.item() for p in step(x)]


@pytest.mark.parametrize("name", ["amax", "sum", "argmax", "mean"])
def test_of_what_is_repeated_along_another_dim(name: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4))
    compiled = weft.compile(lambda x, n: getattr((x * 2).expand(n.shape[0], 3, 4), name)(1))
    for n in (2, 5, 1):
        expected = getattr(np.broadcast_to(x * 2, (n, 3, 4)), name.removeprefix("a") if name == "amax" else name)(1)
        np.testing.assert_allclose(compiled(weft.from_numpy(x), weft.zeros(n)).numpy(), expected, rtol=1e-12)
