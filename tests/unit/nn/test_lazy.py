"""Lazy layers: what they become, what is refused before they know their sizes, saving, copying and conversion."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
from weft import nn

SHAPES = {1: (2, 6, 9), 2: (2, 6, 9, 8), 3: (2, 6, 5, 4, 6)}
LAZY = [("Linear", (5,), (3, 4, 7), {"in_features": 7})]
LAZY += [(f"Conv{k}d", (4, 2), SHAPES[k], {"in_channels": 6, "groups": 1}) for k in SHAPES]
LAZY += [(f"ConvTranspose{k}d", (4, 2), SHAPES[k], {"in_channels": 6}) for k in SHAPES]
LAZY += [(f"{norm}{k}d", (), SHAPES[k], {"num_features": 6}) for norm in ("BatchNorm", "InstanceNorm") for k in SHAPES]


@pytest.mark.parametrize("name, args, shape, known", LAZY, ids=[e[0] for e in LAZY])
def test_a_lazy_layer_becomes_the_ordinary_one(name: str, args: tuple, shape: tuple, known: dict) -> None:
    layer = getattr(nn, "Lazy" + name)(*args)
    assert layer.has_uninitialized_params()
    parameters = list(layer.parameters())
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (
            type(again) is type(layer)
            and again(weft.randn(*shape)).shape == layer.double()(weft.randn(*shape, dtype=weft.float64)).shape
        )
        layer = getattr(nn, "Lazy" + name)(*args)
        parameters = list(layer.parameters())
    x = weft.randn(*shape)
    first = layer(x)
    assert type(layer) is getattr(nn, name) and not layer._forward_pre_hooks
    assert {key: getattr(layer, key) for key in known} == known
    assert all(a is b and type(a) is nn.Parameter for a, b in zip(parameters, layer.parameters(), strict=True))
    ordinary = copy.deepcopy(layer)
    np.testing.assert_allclose(first.detach().numpy(), ordinary(x).detach().numpy(), rtol=1e-6, atol=1e-6)
    first.sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in layer.parameters())


def test_a_lazy_layer_is_drawn_as_the_ordinary_one() -> None:
    layer = nn.LazyLinear(300)
    layer(weft.ones(2, 400))
    values = layer.weight.detach().numpy()
    assert np.abs(values).max() <= 1 / 20 and values.std() == pytest.approx(1 / 20 / np.sqrt(3), rel=0.05)


def test_conversion_before_the_first_input_is_kept() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()).double()
    model(weft.randn(5, 3, dtype=weft.float64))
    assert {t.dtype for t in model.state_dict().values()} == {weft.float64, weft.int64}


def test_state_of_lazy_and_ordinary_layers() -> None:
    ordinary, lazy = nn.Linear(3, 4), nn.LazyLinear(4)
    with pytest.raises(RuntimeError, match="uninitialized"):
        ordinary.load_state_dict(lazy.state_dict())
    assert lazy.load_state_dict(nn.LazyLinear(4).state_dict()).missing_keys == [] and lazy.has_uninitialized_params()
    lazy.load_state_dict(ordinary.state_dict())
    x = weft.randn(2, 3)
    assert weft.equal(lazy(x), ordinary(x)) and type(lazy) is nn.Linear and lazy.in_features == 3


def test_what_is_refused_before_the_first_input() -> None:
    layer = nn.LazyConv2d(4, 3)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        layer.weight.shape  # noqa: B018
    with pytest.raises(ValueError, match="uninitialized parameter in add"):
        layer.weight + 1
    with pytest.raises(ValueError, match="uninitialized parameter"):
        weft.optim.SGD(layer.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="LazyConv2d"):
        layer(weft.ones(3))


def test_a_compiled_forward_gets_its_first_input() -> None:
    """The hook that makes the parameters is called, and what is captured is the ordinary layer behind it."""
    layers = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(2))
    x = weft.randn(5, 3)
    found = weft.compile(layers)(x)
    assert type(layers[0]) is nn.Linear and layers[2].weight.shape == (2, 4)
    found.square().sum().backward()
    got = [p.grad.clone() for p in layers.parameters()]
    layers.zero_grad()
    expected = layers(x)
    expected.square().sum().backward()
    for a, b in zip([found, *got], [expected, *[p.grad for p in layers.parameters()]], strict=True):
        assert weft.allclose(a, b, atol=1e-5)


def test_a_module_of_ones_own() -> None:
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x: weft.Tensor) -> None:
            self.weight.materialize(x.shape[-1:])
            nn.init.constant_(self.weight, 2.0)

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            return x * self.weight

    module = Scale()
    assert nn.parameter.is_lazy(module.weight) and "Uninitialized" in repr(module.weight)
    assert module(weft.ones(2, 3)).tolist() == [[2.0] * 3] * 2 and type(module.weight) is nn.Parameter
