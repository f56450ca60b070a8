"""weft.cond runs one branch: that the operators of the other one refuse what they are given is no error of the call."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor
from weft.support.errors import IndexBoundsError, ShapeError


def by_size(x: Tensor) -> Tensor:
    return weft.cond(x.sum() > 3, lambda x: x[:3] + weft.ones(3), lambda x: x + weft.ones(2), (x,))


@pytest.mark.parametrize("options", [{}, {"backend": "interpret"}, {"split": True}])
def test_the_branch_that_runs_is_the_one_that_counts(options: dict[str, Any]) -> None:
    compiled = weft.compile(by_size, **options)
    for x in (weft.ones(4), weft.ones(2), weft.ones(5), weft.zeros(2), weft.ones(6)):
        assert compiled(x).tolist() == by_size(x).tolist()
    for x in (weft.zeros(4), weft.full((2,), 9.0)):
        for function in (by_size, compiled):
            with pytest.raises(ShapeError, match="must match the size"):
                function(x)
    assert compiled(weft.ones(4)).tolist() == [2.0, 2.0, 2.0]


def test_gradients_flow_through_the_branch_that_runs() -> None:
    def step(w: Tensor, x: Tensor) -> Any:
        w = w.detach().requires_grad_()
        y = weft.cond(x.sum() > 3, lambda x: (x * w).sum(), lambda x: (x @ weft.ones(2) * w).sum(), (x,))
        return weft.autograd.grad(y, w)[0]

    compiled = weft.compile(step)
    for w, x in ((weft.ones(4), weft.ones(4)), (weft.ones(2), weft.ones(2)), (weft.ones(4), weft.full((4,), 2.0))):
        assert compiled(w, x).tolist() == step(w, x).tolist()


def test_what_such_a_branch_would_have_written_is_not() -> None:
    count = weft.zeros(2)

    def step(x: Tensor) -> Tensor:
        def first(x: Tensor) -> Tensor:
            count.add_(1.0)
            return x[:2] * 2

        def second(x: Tensor) -> Tensor:
            count.add_(5.0)
            return x[7] + weft.ones(2)

        return weft.cond(x.sum() > 0, first, second, (x,))

    compiled = weft.compile(step)
    for x, counted in ((weft.ones(3), 1.0), (weft.ones(3), 2.0), (-weft.ones(9), 7.0), (weft.ones(9), 8.0)):
        compiled(x)
        assert count.tolist() == [counted, counted]
    with pytest.raises(IndexBoundsError, match="index 7 is out of bounds"):
        compiled(-weft.ones(3))


def test_both_branches_refused() -> None:
    compiled = weft.compile(
        lambda x: weft.cond(x.sum() > 0, lambda x: x + weft.ones(7), lambda x: x + weft.ones(8), (x,))
    )
    with pytest.raises(ShapeError, match="must match the size"):
        compiled(weft.ones(3))
