"""Parametrized and pruned modules, trained eagerly and as compiled steps, beside stored results of PyTorch
(make_parametrized_values.py); stateless calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.nn.make_parametrized_values import modules, train
from weft import nn
from weft.nn.utils.stateless import functional_call

STORED = json.loads((Path(__file__).parent / "parametrized_values.json").read_text())


@pytest.mark.parametrize("name", list(modules(weft)))
def test_training_goes_as_in_pytorch(name: str) -> None:
    stored = STORED[name]
    for mode in (lambda step: step, weft.compile):
        results = train(weft, modules(weft)[name](), mode)
        assert list(results["state"]) == list(stored["state"])
        for key in ("losses", "out"):
            np.testing.assert_allclose(results[key], stored[key], rtol=1e-8, atol=1e-10, err_msg=key)
        for key, value in stored["state"].items():
            np.testing.assert_allclose(results["state"][key], value, rtol=1e-8, atol=1e-10, err_msg=key)


def test_a_stateless_call_takes_other_tensors_and_leaves_the_module(rng: np.random.Generator) -> None:
    layer = nn.Linear(3, 2).double()
    layer.register_buffer("calls", weft.zeros(()))
    nn.utils.parametrizations.weight_norm(layer)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = weft.from_numpy(rng.normal(size=(4, 3)))
    direction = weft.from_numpy(rng.normal(size=(2, 3))).requires_grad_()
    state = {"parametrizations.weight.original1": direction, "bias": weft.zeros(2).double()}
    length = layer.parametrizations.weight.original0.detach()

    def loss(call: Any) -> Any:
        return call(layer, state, (x,)).square().sum()

    expected = (x @ (direction * (length / direction.norm(dim=1, keepdim=True))).t()).square().sum()
    wanted, = weft.autograd.grad(expected, direction)
    for call in (functional_call, weft.compile(functional_call)):
        value = loss(call)
        gradient, = weft.autograd.grad(value, direction)
        np.testing.assert_allclose(value.detach(), expected.detach(), rtol=1e-12)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-10, atol=1e-12)
    assert all(weft.equal(value, before[name]) for name, value in layer.state_dict().items())
    with pytest.raises(weft.WeftError, match="absent"):
        functional_call(layer, {"absent": direction}, x, strict=True)


def test_skip_init_leaves_the_values_out(rng: np.random.Generator) -> None:
    drawn = weft.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False, dtype=weft.float64)
    assert weft.equal(weft.get_rng_state(), drawn)  # nothing was drawn
    assert layer.weight.shape == (2, 3) and layer.weight.dtype is weft.float64 and layer.bias is None
    assert layer.weight.requires_grad and isinstance(layer.weight, nn.Parameter) and layer.weight.device.type == "cpu"
    weight = weft.from_numpy(rng.normal(size=(2, 3)))
    layer.load_state_dict({"weight": weight})
    x = weft.from_numpy(rng.normal(size=(4, 3)))
    np.testing.assert_allclose(layer(x).detach(), x.numpy() @ weight.numpy().T, rtol=1e-12)
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.ReLU)
