"""`.data =` and resize_ of views of arguments in a compiled function: results show the memory that was given."""

from __future__ import annotations

import pytest

import weft


def first(x: weft.Tensor) -> weft.Tensor:
    v = x.reshape(-1)
    v.data = v.data[:1]
    return v


def apart(x: weft.Tensor) -> weft.Tensor:
    v = x.reshape(-1)
    v.data = v.data.clone()
    return v.add_(1)


def another(x: weft.Tensor) -> weft.Tensor:
    v = x.view(-1)[1:]
    v.data = x.t()
    return v


def grown(x: weft.Tensor) -> weft.Tensor:
    return x.view(-1).resize_((8,))[6:].zero_()


@pytest.mark.parametrize("function", [first, apart, another, grown])
def test_memory_of_views_that_were_given_other_data(function) -> None:
    step = weft.compile(function, backend="interpret")
    for start in (0.0, 5.0):
        x, y = ((weft.arange(6.0) + start).view(2, 3).clone() for _ in range(2))
        found, wanted = step(x), function(y)
        for a, b in ((found, wanted), (x, y)):
            assert a.tolist() == b.tolist() and a.stride() == b.stride()
        found.fill_(9)
        wanted.fill_(9)
        assert x.tolist() == y.tolist()


def test_data_assigned_from_itself_stays_a_view() -> None:
    w = weft.ones(4, requires_grad=True)
    base = w * 1
    v = base[1:3]
    v.data -= 1
    v.mul_(3)
    base.sum().backward()
    assert w.grad.tolist() == [1, 3, 3, 1]


def test_data_of_a_detached_value_of_the_function() -> None:
    def program(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        v = (x * 1).detach()
        v.data = y
        return v.add_(1)

    step = weft.compile(program, backend="interpret")
    before = weft.counters.captures
    for start in range(3):
        x = weft.full((2,), float(start))
        assert step(x, x.detach()).tolist() == x.tolist() == [start + 1.0] * 2
    assert weft.counters.captures == before + 1
