"""A branch or a loop body that keeps a value on an object is refused: its program could not say whether it ran.
Under no_grad a loop has no history, and what a checkpoint saves in a loop's body belongs to the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.support.errors import CaptureError
from weft.utils.checkpoint import checkpoint


class Model:
    """An object that is older than the call."""

    def __init__(self) -> None:
        self.last = weft.ones(())


def in_branch(x: weft.Tensor, m: Model) -> weft.Tensor:
    def then(v: weft.Tensor) -> weft.Tensor:
        m.last = v.sum() * 2
        return v * m.last

    return weft.cond(x.sum() > 0, then, lambda v: v * 1, (x,))


def in_scan(x: weft.Tensor, m: Model) -> weft.Tensor:
    def body(carry: weft.Tensor, row: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        m.last = carry.sum()
        return carry * row, carry.sum()

    return weft.scan(body, x, weft.ones(2))[0]


def in_while_loop(x: weft.Tensor, m: Model) -> weft.Tensor:
    def body(i: Any, v: weft.Tensor) -> tuple[Any, weft.Tensor]:
        m.last = v.sum()
        return i + 1, v * 0.5

    return weft.while_loop(lambda i, v: i < 2, body, (0, x))[1]


@pytest.mark.parametrize("step", [in_branch, in_scan, in_while_loop])
def test_it_is_refused_with_its_line(step: Callable[..., weft.Tensor]) -> None:
    m = Model()
    before = m.last
    with pytest.raises(CaptureError, match=r"test_values_that_leave_a_block.py:\d+: .*return it from the branch"):
        weft.compile(lambda x: step(x, m))(weft.ones(3))
    assert m.last is before


def test_a_loop_under_no_grad_beside_a_gradient() -> None:
    w = weft.tensor(0.7, requires_grad=True)

    def step(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor | None]:
        x = x.detach().requires_grad_()
        with weft.no_grad():
            y = weft.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, (v * w).sin() * 0.5), (0, x))[1]
        (x * y * y).sum().backward()
        return y, x.grad

    compiled = weft.compile(step)
    for size in (3, 3, 5):
        x = weft.linspace(-1, 1, size)
        for ours, expected in zip(compiled(x), step(x), strict=True):
            assert ours is not None and ours.allclose(expected) and not ours.requires_grad


@pytest.mark.parametrize("size", [1, 4])
def test_a_checkpoint_around_a_loop(size: int) -> None:
    w = weft.tensor(0.7, requires_grad=True)

    def region(x: weft.Tensor) -> weft.Tensor:
        rows = weft.ones(2)
        carry, sums = weft.scan(lambda c, t: (weft.where(c > 0.2, c.abs() * w, c) * t, c.sum()), x, rows)
        return carry + sums.sum()

    def step(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        x = x.detach().requires_grad_()
        y = checkpoint(region, x, use_reentrant=False)
        return (y.detach(), *weft.autograd.grad((y * y).sum(), (x, w)))

    x = weft.linspace(-1, 1, size)
    for ours, expected in zip(weft.compile(step)(x), step(x), strict=True):
        assert ours.allclose(expected)
