"""A compiled call raises version counters as eager mode does, and hands back gradients as the objects that they are."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import nn


def _twins() -> tuple[list[Any], list[Any]]:
    matrix = weft.arange(6.0).reshape(2, 3) / 7
    one, other = ([nn.Parameter(matrix.clone()), nn.Parameter(weft.ones(3)), weft.zeros(3)] for _ in range(2))
    return one, other


def _step(w: Any, v: Any, buffer: Any) -> Any:
    average = w.data  # (before w itself: the storage met first is not the one that counts)

    def step(x: Any) -> Any:
        average.mul_(0.9)
        (x * w * v).sum().backward()
        with weft.no_grad():
            for p in (w, v):
                p.sub_(0.1 * p.grad).mul_(0.5)
            buffer.copy_(x.sum(0)).add_(1).clamp_(-1, 1)
        x.data.zero_()
        v.data.add_(1.0)
        x.add_(1).mul_(2)
        return w.grad, v.grad[1:], v.grad.detach(), [p.grad for p in (w, v)]

    return step


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_versions_and_gradients(backend: str) -> None:
    mine, theirs = _twins()
    compiled, step = weft.compile(_step(*mine), backend=backend), _step(*theirs)
    for call in range(4):
        x = weft.randn(2, 3)
        y = x.clone()
        found, expected = compiled(x), step(y)
        assert x._version == y._version and weft.equal(x, y)
        for a, b in zip(mine, theirs, strict=True):
            assert a._version == b._version, call
            weft.testing.assert_close(a, b)
        w, v, _ = mine
        assert found[0] is w.grad and all(g is p.grad for g, p in zip(found[3], (w, v), strict=True))
        found[1].fill_(5.0)
        expected[1].fill_(5.0)
        for a, b in zip(found[:3], expected[:3], strict=True):
            weft.testing.assert_close(a, b)
        assert v.grad[2].item() == 5.0 == found[2][2].item()
        if call == 2:
            for p, q in zip(mine[:2], theirs[:2], strict=True):
                p.grad, q.grad = weft.ones_like(p), weft.ones_like(q)
    assert not compiled.misses


def test_a_write_through_data_spares_a_graph_that_is_alive() -> None:
    w = weft.ones(3, requires_grad=True)
    kept = (w * w).sum()

    @weft.compile
    def soften() -> None:
        w.data.mul_(0.5)

    soften()
    kept.backward()
    weft.testing.assert_close(w.grad, weft.ones(3))


def test_only_reading_a_gradient_returns_the_one_of_now() -> None:
    w = weft.ones(3, requires_grad=True)
    read = weft.compile(lambda: w.grad)
    assert read() is None
    for _ in range(2):
        w.grad = weft.randn(3)
        assert read() is w.grad
