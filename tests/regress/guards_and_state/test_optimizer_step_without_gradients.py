"""A compiled step of an optimizer that has no state yet (no parameter had a gradient) raised an IndentationError: of no
entries the guard had a `try` without lines."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adadelta"])
def test_a_step_without_gradients_is_compiled(name: str) -> None:
    p = weft.ones(2, requires_grad=True)
    opt = getattr(weft.optim, name)([p], lr=0.1)

    @weft.compile
    def step(x: weft.Tensor, trains: bool) -> weft.Tensor:
        opt.zero_grad()
        if trains:
            (p * x).sum().backward()
        opt.step()
        return x * 2

    for trains in (False, True, False, True):
        before = p.detach().clone()
        assert step(weft.ones(2), trains).tolist() == [2, 2]
        assert bool((p != before).all()) is trains
