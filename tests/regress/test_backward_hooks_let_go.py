"""What a module with backward hooks gave is let go of with its last name: its history held on to it through a hook."""

from __future__ import annotations

import gc
import weakref

import pytest

import weft
from weft import nn


@pytest.mark.parametrize("runs", [False, True])
def test_modules_and_results_are_freed_without_a_collection(runs: bool) -> None:
    gc.disable()
    try:
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        for part in model:
            part.register_full_backward_hook(lambda *given: None)
            part.register_full_backward_pre_hook(lambda *given: None)
        out = model(weft.ones(1, 2, requires_grad=True))
        kept = [weakref.ref(out), weakref.ref(model), weakref.ref(out.grad_fn)]
        if runs:
            out.sum().backward()
        del out, model, part
        assert [ref() for ref in kept] == [None] * 3
    finally:
        gc.enable()
