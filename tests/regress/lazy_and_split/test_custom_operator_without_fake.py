"""Operators of users that do not say which types they give run at once on lazy tensors and in split functions."""

from __future__ import annotations

import weft
from weft.func import functionalize


@weft.library.custom_op("fakeless::first_raised", mutates_args=())
def first_raised(x: weft.Tensor) -> weft.Tensor:
    """A copy with its first row raised by one."""
    y = x.clone()
    y[0].add_(1)
    return y


@weft.library.custom_op("fakeless::raised_and_doubled", mutates_args=("x",))
def raised_and_doubled(x: weft.Tensor) -> weft.Tensor:
    """Raises its argument by one, and gives twice of it."""
    x.add_(1)
    return x * 2


def test_lazy_tensors() -> None:
    x = weft.ones(2, 3, device="lazy")
    x[1].mul_(2)
    weft.lazy.metrics.reset()
    y = first_raised(x)
    assert y.device == "lazy" and y.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert weft.lazy.metrics.counter_value("aten::first_raised") == 1
    assert raised_and_doubled(x[1]).tolist() == [6, 6, 6] and x.tolist() == [[1, 1, 1], [3, 3, 3]]


def test_split_and_functionalized() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        return first_raised(x.mul_(2)) + 1

    for function in (weft.compile(step, split=True), functionalize(step)):
        x = weft.ones(2, 2)
        assert function(x).tolist() == [[4, 4], [3, 3]] and x.tolist() == [[2, 2], [2, 2]]
