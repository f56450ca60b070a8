"""Every node knows the user's line that made it, whichever way its call took: an entry looks past frames of weft's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

functional = weft.nn.functional
CALLS: list[Callable[[Any], Any]] = [
    lambda x: x * 2,
    lambda x: x @ x,
    lambda x: weft.mul(x, 2),
    lambda x: x.sin(),
    lambda x: x.view(16),
    lambda x: x[1],
    lambda x: x[:, 1:3],
    lambda x: x[weft.tensor([0, 1])],
    lambda x: x.sum(),
    lambda x: x.max(1).values,
    lambda x: functional.gelu(x),
    lambda x: functional.layer_norm(x, (4,)),
    lambda x: weft.cat([x, x]),
    lambda x: x.unbind()[0],
    lambda x: weft.ops.aten.mul(x, x),
    lambda x: weft.ops.aten.mul.Tensor(x, x),
    lambda x: x.clone().add_(1),
    lambda x: x.clone().requires_grad_().mul_(x),
    lambda x: weft.nn.Linear(4, 2)(x),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_a_node_knows_its_line(call: Any) -> None:
    x = weft.ones(4, 4, requires_grad=True)
    for _ in range(2):  # by the search for an entry, and by the entry
        made = call(x).grad_fn.forward_line
        assert (made.file, made.line) == (__file__, call.__code__.co_firstlineno)


def test_a_write_through_a_view_knows_its_line() -> None:
    base = weft.ones(4, requires_grad=True) * 1
    for _ in range(2):
        view = base.view(2, 2)
        write = lambda: view.sin_()  # noqa: B023, E731
        write()
        assert base.grad_fn.inner.forward_line.line == write.__code__.co_firstlineno
        look = lambda: view.grad_fn  # noqa: B023, E731
        assert look().forward_line.line == look.__code__.co_firstlineno  # made anew where it is asked for
