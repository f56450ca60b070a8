"""functional_call and stack_module_state: per-example gradients and ensembles of modules."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.func import functional_call, grad, stack_module_state, vmap


def test_replaced_and_put_back(rng):
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    own = dict(module.named_parameters())
    other = {name: weft.randn_like(p) for name, p in own.items()}
    x = weft.randn(5, 3)
    found = functional_call(module, other, x)
    hidden = np.tanh(x.numpy() @ other["0.weight"].numpy().T + other["0.bias"].numpy())
    np.testing.assert_allclose(
        found.numpy(), hidden @ other["2.weight"].numpy().T + other["2.bias"].numpy(), rtol=1e-5, atol=1e-5
    )
    assert all(dict(module.named_parameters())[name] is p for name, p in own.items())
    partly = functional_call(module, ({"0.bias": other["0.bias"]}, {"2.bias": other["2.bias"]}), (x,))
    assert partly.requires_grad
    with pytest.raises(ZeroDivisionError):
        functional_call(nn.Identity(), {}, 1 / 0)


def test_tied_parameters():
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    module, x = nn.Sequential(first, second), weft.randn(2, 3)
    w = weft.eye(3) * 2
    np.testing.assert_allclose(functional_call(module, {"0.weight": w}, x).numpy(), 4 * x.numpy(), rtol=1e-6)
    untied = functional_call(module, {"0.weight": w}, x, tie_weights=False)
    np.testing.assert_allclose(
        untied.detach().numpy(), 2 * x.numpy() @ first.weight.detach().numpy().T, rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="which are tied"):
        functional_call(module, {"0.weight": w, "1.weight": w * 2}, x)


def test_names_are_checked():
    module, x = nn.Linear(2, 2), weft.ones(1, 2)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        functional_call(module, {"weight": weft.eye(2), "bias": weft.zeros(2), "other": x}, x, strict=True)
    with pytest.raises(RuntimeError, match="Missing key"):
        functional_call(module, {"weight": weft.eye(2)}, x, strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(module, ({"weight": x}, {"weight": x}), x)


def test_buffers_that_the_call_writes():
    module = nn.BatchNorm1d(3)
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    x = weft.randn(8, 3)
    functional_call(module, buffers, x)
    np.testing.assert_allclose(buffers["running_mean"].numpy(), 0.1 * x.numpy().mean(0), rtol=1e-5, atol=1e-6)
    assert float(module.running_mean.abs().sum()) == 0 and int(buffers["num_batches_tracked"]) == 1


def test_per_example_gradients_of_a_module(rng):
    module = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4))
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    n = int(rng.integers(2, 6))
    x, y = weft.randn(n, 3), weft.randint(0, 4, (n,))

    def loss(p, x, y):
        return nn.functional.cross_entropy(functional_call(module, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for i in range(n):
        module.zero_grad()
        nn.functional.cross_entropy(module(x[i : i + 1]), y[i : i + 1]).backward()
        for name, p in module.named_parameters():
            np.testing.assert_allclose(found[name][i].numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_an_ensemble(rng):
    models = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert (
        parameters["weight"].shape == (4, 2, 3) and parameters["weight"].is_leaf and parameters["weight"].requires_grad
        and buffers == {}
    )
    x = weft.randn(5, 3)
    out = vmap(lambda p: functional_call(models[0], p, x))(parameters)
    for k, model in enumerate(models):
        np.testing.assert_allclose(out[k].detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    out.sum().backward()
    np.testing.assert_allclose(parameters["bias"].grad.numpy(), np.full((4, 2), 5.0))
    with pytest.raises(RuntimeError, match="at least one model"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        stack_module_state([nn.Linear(2, 2), nn.ReLU()])
    with pytest.raises(RuntimeError, match="training/eval"):
        stack_module_state([nn.Linear(2, 2), nn.Linear(2, 2).eval()])


def test_batch_norm_under_vmap():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    x = weft.randn(3, 4, 1, 6, 6)
    with pytest.raises(RuntimeError, match=r"running_mean|num_batches|being vmapped"):
        vmap(module)(x)
    assert weft.func.replace_all_batch_norm_modules_(module) is module
    found = vmap(module)(x)
    for k in range(3):
        np.testing.assert_allclose(found[k].detach().numpy(), module(x[k]).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_look_inside():
    seen = []
    x = weft.arange(6.0).reshape(2, 3)
    vmap(grad(lambda a: (
        seen.append(weft.func.debug_unwrap(a)), seen.append(weft.func.debug_unwrap(a, recurse=False)), a.sum()
    )[2]))(x)
    np.testing.assert_array_equal(seen[0].numpy(), x.numpy())
    assert repr(seen[1]).startswith("BatchedTensor(lvl=1") and weft.func.debug_unwrap(x) is x
