"""A custom Function's own vmap is told the dims that the mapped function was called with, in the form of its arguments;
what linearize gives says what is wrong with tangents."""

from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.func import grad, linearize, vmap

told: list[Any] = []


class LastSum(weft.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sum(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.n = inputs[0].shape[-1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient[..., None].expand(*gradient.shape, ctx.n)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor) -> Any:
        told.append((in_dims, x.shape[in_dims[0]]))
        return LastSum.apply(x.movedim(in_dims[0], 0)), 0


class Same(weft.autograd.Function):
    @staticmethod
    def forward(x: Tensor, others: list[Tensor]) -> Any:
        return x, others

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor, others: list[Tensor]) -> Any:
        told.append(in_dims)
        return (x, others), in_dims


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_the_dim_of_the_call(dim: int) -> None:
    x = np.random.default_rng(dim % 3).standard_normal((4, 3, 5))
    out = vmap(LastSum.apply, in_dims=dim)(weft.tensor(x))
    np.testing.assert_allclose(out.numpy(), np.moveaxis(x, dim, 0).sum(-1))
    assert told[-1] == ((dim % 3,), x.shape[dim])
    slopes = vmap(grad(lambda t: LastSum.apply(t * 3).sum()), in_dims=dim)(weft.tensor(x))
    np.testing.assert_array_equal(slopes.numpy(), np.full_like(np.moveaxis(x, dim, 0), 3))


def test_each_level_has_its_own() -> None:
    x = weft.arange(60.0).reshape(4, 3, 5)
    out = vmap(vmap(LastSum.apply, in_dims=1), in_dims=1)(x)
    assert [dims for dims, _ in told[-2:]] == [(1,), (0,)]
    np.testing.assert_array_equal(out.numpy(), x.numpy().transpose(1, 2, 0).sum(-1))


def test_lists_stay_lists() -> None:
    x, y = weft.arange(6.0).reshape(2, 3), weft.arange(3.0)
    a, (b, c) = vmap(Same.apply, in_dims=(1, [0, None]), out_dims=(1, [0, None]))(x, [y, y])
    assert told[-1] == (1, [0, None])
    assert (a == x).all() and (b == y).all() and c is y


def test_what_is_wrong_with_a_tangent_of_linearize() -> None:
    x = weft.ones(3, 2)
    _, pushed = linearize(weft.sin, x)
    for bad, what in ((x[:1], "shape"), (x.double(), "dtype"), (2.0, "shape")):
        with pytest.raises(RuntimeError, match=f"in flattened pytree doesn't match the {what}"):
            pushed(bad)
    with pytest.raises(RuntimeError, match="same argspec as the primals"):
        pushed((x, x))
