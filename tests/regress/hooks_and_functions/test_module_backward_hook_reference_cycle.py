"""What a module with backward hooks gave is let go of with its last name: its history held on to it through a hook."""

from __future__ import annotations

import gc
import weakref

import pytest

import weft
import weft.utils.checkpoint
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


def test_a_module_whose_inputs_need_no_gradient_warns() -> None:
    layer, seen = nn.Linear(2, 2), []
    layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append((inputs, len(outputs))))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(weft.ones(1, 2)).sum().backward()
    assert seen == [((None,), 1)]


def test_a_reentrant_checkpoint_without_gradients_warns() -> None:
    def double(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        weft.utils.checkpoint.checkpoint(double, weft.ones(2), use_reentrant=True)
    out = weft.utils.checkpoint.checkpoint(double, weft.ones(2, requires_grad=True), use_reentrant=True)
    assert out.grad_fn.name() == "CheckpointFunctionBackward"
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        weft.utils.checkpoint.checkpoint(double, weft.ones(2), use_reentrant=True, k=1)
