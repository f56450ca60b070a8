"""A size that a branch or a loop body finds is found again where its backward reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft

Body = Callable[[weft.Tensor], weft.Tensor]


def counted(v: weft.Tensor) -> weft.Tensor:
    return v * weft.nonzero(v.detach() > 0).shape[0]


def halved(v: weft.Tensor) -> weft.Tensor:
    return (v * (weft.nonzero(v.detach() > 0).shape[0] * 0.5)).sin()


def selected(v: weft.Tensor) -> weft.Tensor:
    return v[v.detach() > 0].sum() * v


def ordered(v: weft.Tensor) -> weft.Tensor:
    """The slope of sort begins with zeros of a size that only the block finds."""
    return weft.sort(v[v.detach() > 0])[0].sum() + v


def written(v: weft.Tensor) -> weft.Tensor:
    part = v[v.detach() > 0].clone()
    part[:1] = 0.5
    return part.sum() + v


def in_branch(body: Body, x: weft.Tensor) -> weft.Tensor:
    return weft.cond(x.sum() > 0, body, lambda v: v * 3, (x,))


def in_scan(body: Body, x: weft.Tensor) -> weft.Tensor:
    return weft.scan(lambda c, t: (body(c) * t, c.sum()), x, weft.full((2,), 0.5))[0]


@pytest.mark.parametrize("body", [counted, halved, selected, ordered, written])
@pytest.mark.parametrize("construct", [in_branch, in_scan])
def test_its_gradient_is_that_of_eager_mode(construct: Callable[..., weft.Tensor], body: Body) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        x = x.detach().requires_grad_()
        return weft.autograd.grad(construct(body, x).sum(), x)[0]

    compiled = weft.compile(step)
    for low, size in ((-0.5, 5), (-0.5, 5), (0.1, 3), (-2.0, 8)):
        x = weft.linspace(low, 1, size)
        weft.testing.assert_close(compiled(x), step(x))
