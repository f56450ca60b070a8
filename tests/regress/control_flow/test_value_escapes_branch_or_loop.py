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
    with pytest.raises(CaptureError, match=r"test_value_escapes_branch_or_loop.py:\d+: .*return the value from"):
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


class Counter:
    """Python's state, changed in each way that a branch may try."""

    def __init__(self) -> None:
        self.count, self.seen, self.table, self.kept = 0, [0.5], {"a": 1}, weft.ones(())

    def rebind(self, v: weft.Tensor) -> None:
        self.count += 1

    def append(self, v: weft.Tensor) -> None:
        self.seen.append(0.5)

    def put(self, v: weft.Tensor) -> None:
        self.table["b"] = 2

    def keep(self, v: weft.Tensor) -> None:
        self.kept = v.sum()  # the value of an equal expression outside


@pytest.mark.parametrize("change", ["rebind", "append", "put", "keep"])
@pytest.mark.parametrize("construct", ["cond", "scan", "while_loop"])
def test_python_state_is_not_changed_in_a_block(construct: str, change: str) -> None:
    """Whatever it is, and also where the program could compute the value outside of the block."""
    counter = Counter()

    def body(v: weft.Tensor) -> weft.Tensor:
        getattr(counter, change)(v)
        return v * 2

    def step(x: weft.Tensor) -> weft.Tensor:
        total = x.sum()
        if construct == "cond":
            return weft.cond(total > 100, body, lambda v: v * 1, (x,))
        if construct == "scan":
            return weft.scan(lambda c, t: (body(c) * t, t), x, weft.ones(2))[0]
        return weft.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, body(v)), (0, x))[1]

    before = dict(vars(counter))
    with pytest.raises(CaptureError, match=r"test_value_escapes_branch_or_loop.py:\d+: .*changes"):
        weft.compile(step)(weft.ones(3))
    assert vars(counter) == before and counter.seen == [0.5] and counter.table == {"a": 1}


def test_objects_of_a_block_are_its_own() -> None:
    """Lists and objects that a branch makes may change in it, and what the function made before it may be read."""

    def then(v: weft.Tensor) -> weft.Tensor:
        parts = [v]
        parts.append(v * 2)
        counter = Counter()
        counter.rebind(v)
        return parts[-1] * counter.count

    compiled = weft.compile(lambda x: weft.cond(x.sum() > 0, then, lambda v: v * 1, (x,)))
    for sign in (1.0, -1.0):
        x = weft.full((3,), sign)
        assert compiled(x).tolist() == [2.0 if sign > 0 else -1.0] * 3
