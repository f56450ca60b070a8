"""Masks run natively: what they pick, where they write, and the gradients, for sizes that change from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.codegen.lower.mask_kernels import CHUNK
from weft.support.errors import OutOfBounds, ShapeError


def put(x: weft.Tensor, where: Any, values: weft.Tensor) -> weft.Tensor:
    x = x.clone()
    x[where] = values
    return x


Sizes = Callable[[np.ndarray[Any, Any]], tuple[int, ...]]
STEPS: dict[str, tuple[Callable[..., weft.Tensor], Sizes]] = {
    "elements": (lambda x, m: x[m], lambda m: ()),
    "rows": (lambda x, m: x[m.any(1)], lambda m: ()),
    "columns": (lambda x, m: x[:, m.any(0)], lambda m: ()),
    "rows of a third dim": (lambda x, m: x.unsqueeze(2).expand(*x.shape, 3)[m] * 2, lambda m: ()),
    "masked_select": (lambda x, m: x.masked_select(m[0]), lambda m: ()),
    "put": (lambda x, m, v: put(x, m, v), lambda m: (int(m.sum()),)),
    "put rows": (lambda x, m, v: put(x, m.any(1), v), lambda m: (int(m.any(1).sum()), m.shape[1])),
    "masked_scatter": (lambda x, m, v: x.masked_scatter(m, v), lambda m: (m.size + 2,)),
    "masked_scatter, a mask for all rows": (lambda x, m, v: x.masked_scatter(m[0], v), lambda m: (m.size,)),
}


def masks(rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    shapes = [tuple(int(n) for n in rng.integers(2, 40, 2)), (3, int(rng.integers(CHUNK, 2 * CHUNK))), (2, CHUNK // 2)]
    drawn = [rng.random(shape) < p for shape, p in zip(shapes, rng.permutation([0.03, 0.5, 0.97]), strict=True)]
    for mask in drawn:
        mask[0, :2] = True
    return drawn


@pytest.mark.parametrize("name", STEPS)
def test_values_and_gradients(name: str, rng: np.random.Generator) -> None:
    forward, sizes_of = STEPS[name]

    def step(m: weft.Tensor, *inputs: weft.Tensor) -> Any:
        y = forward(inputs[0], m, *inputs[1:])
        first = weft.autograd.grad((y**3).sum(), inputs, create_graph=True)
        second = weft.autograd.grad(sum((g**2).sum() for g in first), inputs)
        return y.detach(), *(g.detach() for g in first), *second

    compiled = weft.compile(step)
    weft.counters.reset()
    for mask in masks(rng):
        sizes = sizes_of(mask)
        drawn = [rng.standard_normal(d) for d in (mask.shape, *((sizes,) if sizes else ()))]
        inputs = [weft.from_numpy(x).requires_grad_() for x in drawn]
        arguments = (weft.from_numpy(mask), *inputs)
        for got, wanted in zip(compiled(*arguments), step(*arguments), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
    assert weft.counters.foreign_segments == 0 and weft.counters.captures <= 2


@pytest.mark.parametrize("dtype", [weft.bool, weft.int8, weft.bfloat16, weft.float32, weft.int64], ids=str)
def test_dtypes_and_places(dtype: weft.dtype, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        return x[x != 0], weft.nonzero(x), put(x, x == 0, x[x == 0])

    compiled = weft.compile(step)
    weft.counters.reset()
    for n in (1, 7, 0, CHUNK // 2 + 3):
        x = weft.from_numpy(rng.integers(0, 2, (3, n, 2))).to(dtype)
        for got, wanted in zip(compiled(x), step(x), strict=True):
            assert got.dtype is wanted.dtype and got.shape == wanted.shape
            np.testing.assert_array_equal(got.double().numpy(), wanted.double().numpy())
    assert weft.counters.foreign_segments == 0


def test_nan_is_not_zero_and_minus_zero_is(rng: np.random.Generator) -> None:
    x = weft.tensor([0.0, -0.0, float("nan"), 1.0, float("-inf")])
    assert weft.compile(lambda x: weft.nonzero(x))(x).tolist() == [[2], [3], [4]]
    kept = weft.compile(lambda x: put(weft.full((5,), -0.0), x > 0, x[x > 0]))(x)
    assert np.signbit(kept.numpy()).tolist() == [True, True, True, False, True]


def test_what_does_not_fit_is_refused_and_leaves_state_alone() -> None:
    state = weft.zeros(10)

    def write(x: weft.Tensor, values: weft.Tensor) -> None:
        state[x > 4] = values

    def scatter(x: weft.Tensor, values: weft.Tensor) -> weft.Tensor:
        return weft.zeros(10).masked_scatter(x > 4, values)

    for step, error in ((write, ShapeError), (scatter, OutOfBounds)):
        compiled = weft.compile(step)
        compiled(weft.arange(10), weft.ones(5))
        before = state.clone()
        with pytest.raises(error, match="5"):
            compiled(weft.arange(10), weft.ones(3))
        assert state.tolist() == before.tolist()


def test_masks_inside_of_loops_and_branches(rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        total = x.sum() * 0
        for i in range(4):
            total = total + (x[x > i * 0.3] ** 2).sum()
        return weft.cond(total > 0, lambda x: x[x > 0].sum(), lambda x: x[x < 0].prod(), (x,))

    compiled = weft.compile(step)
    for n in (5, 0, 300):
        x = weft.from_numpy(rng.standard_normal(n))
        np.testing.assert_allclose(compiled(x).numpy(), step(x).numpy(), rtol=1e-10)
