"""A hook on the node of a compiled forward was given gradients that the backward call was not asked for."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import weft
from weft.compiled_autograd import enable, interpret


@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize("creates", [False, True])
def test_gradients_that_nobody_asked_for(captures: bool, creates: bool) -> None:
    w = weft.ones(3, requires_grad=True)
    for asked, there in (("x", [True, False]), ("w", [False, True]), ("xw", [True, True])):
        x = weft.ones(3, requires_grad=True)
        y = weft.compile(lambda x: x * w + w.sin(), backend="interpret")(x)
        heard: list[Any] = []

        def hook(grads: Any, outputs: Any, heard: list[Any] = heard) -> None:
            heard.append([g is not None for g in grads])

        y.grad_fn.register_hook(hook)
        with enable(interpret) if captures else nullcontext():
            weft.autograd.grad(y.sum(), [{"x": x, "w": w}[name] for name in asked], create_graph=creates)
        assert [sorted(grads) for grads in heard] == [sorted(there)]
