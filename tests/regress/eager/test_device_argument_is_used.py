"""A `device` that a program names is where the tensor lies: masks, lazy layers, `new`, `update_bn`, `make_tensor`."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.testing import make_tensor

LAZY = weft.device("lazy")


def test_a_causal_mask_on_a_device() -> None:
    made = weft.nn.Transformer.generate_square_subsequent_mask(3, device="lazy")
    assert made.device == LAZY
    with LAZY:
        assert weft.nn.Transformer.generate_square_subsequent_mask(3).device == LAZY


@pytest.mark.parametrize("how", ["device", "to", "to_empty", "block"])
@pytest.mark.parametrize("layer", ["LazyLinear", "LazyBatchNorm1d"])
def test_a_lazy_layer_learns_its_sizes_on_its_device(layer: str, how: str) -> None:
    arguments: tuple[Any, ...] = (4,) if layer == "LazyLinear" else ()
    kind = getattr(weft.nn, layer)
    if how == "device":
        module = kind(*arguments, device="lazy")
    elif how == "block":
        with LAZY:
            module = kind(*arguments)
    else:
        module = kind(*arguments).to("lazy") if how == "to" else kind(*arguments).to_empty(device="lazy")
    module(weft.randn(2, 3, device="lazy"))
    assert module.weight.numel() > 0
    assert {t.device for t in (*module.parameters(), *module.buffers())} == {LAZY}


def test_a_lazy_layer_keeps_its_dtype_when_it_moves() -> None:
    module = weft.nn.LazyBatchNorm1d().double().to("lazy")
    module(weft.randn(2, 3, device="lazy", dtype=weft.float64))
    assert module.running_mean.dtype is module.weight.dtype is weft.float64


def test_new_makes_tensors_where_the_tensor_lies() -> None:
    x = weft.randn(3, device="lazy")
    assert x.new(2, 3).device == x.new([1.0, 2.0]).device == LAZY
    assert x.new(2, device="cpu").device == weft.device("cpu")


def test_update_bn_moves_its_batches() -> None:
    module = weft.nn.BatchNorm1d(2).to("lazy")
    batch = weft.randn(5, 2)
    weft.optim.swa_utils.update_bn([batch], module, device="lazy")
    weft.testing.assert_close(module.running_mean.cpu(), batch.mean(0))


def test_make_tensor_takes_a_device() -> None:
    made = make_tensor(2, 3, dtype=weft.float32, device="lazy", requires_grad=True)
    assert made.device == LAZY and made.is_leaf


def test_a_compiler_may_give_the_captured_graph_back() -> None:
    x = weft.randn(3, requires_grad=True)
    with weft.compiled_autograd.enable(lambda graph: graph):
        for _ in range(2):
            (x * x).sum().backward()
    weft.testing.assert_close(x.grad, 4 * x.detach())
