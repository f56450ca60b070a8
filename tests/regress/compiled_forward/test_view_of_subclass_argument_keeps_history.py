"""A compiled function that returned an argument of a subclass, or a view of one, gave it without its history, where the
argument was no leaf.
"""

from __future__ import annotations

import pytest

import weft
from weft import Tensor


class Kept(Tensor):
    """A subclass that every operator keeps."""


FUNCTIONS = {
    "itself": lambda h: (h, h * 2),
    "view": lambda h: (h[None][0], h * 2),
    "view of a view": lambda h: (h[1:].view(-1), h.as_subclass(Kept) * h),
    "of another class": lambda h: (h.as_subclass(Tensor)[1:], h * 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_history(name: str, is_leaf: bool) -> None:
    function = FUNCTIONS[name]
    grads = []
    for step in (function, weft.compile(function, backend="interpret")):
        x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
        h = x.detach().as_subclass(Kept).requires_grad_() if is_leaf else (x * 3).as_subclass(Kept)
        results = step(h)
        assert [r.requires_grad for r in results] == [True, True]
        sum((r.as_subclass(Tensor) ** 2).sum() for r in results).backward()
        grads.append(h.grad if is_leaf else x.grad)
    assert weft.equal(*grads)


def test_a_result_and_a_view_of_it() -> None:
    def function(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y = x.as_subclass(Kept) * h
        return y[None][0], y

    view, y = weft.compile(function, backend="interpret")(weft.ones(3), weft.ones(3, requires_grad=True))
    assert weft.autograd.grad(view.sum(), y)[0].tolist() == [1.0, 1.0, 1.0]
