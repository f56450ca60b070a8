"""Factories: out= says the device, and results are no views; broadcast_tensors where there is nothing to do."""

from __future__ import annotations

import pytest

import weft

DEVICES = ["cpu", "lazy", "meta"]
FACTORIES = {
    "zeros": lambda out: weft.zeros(3, out=out),
    "full": lambda out: weft.full((2, 3), 4.0, out=out),
    "arange": lambda out: weft.arange(4.0, out=out),
    "eye": lambda out: weft.eye(2, out=out),
    "randn": lambda out: weft.randn(2, out=out),
    "linspace": lambda out: weft.linspace(0, 1, 3, out=out),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FACTORIES)
def test_out_says_the_device(device: str, name: str) -> None:
    out = weft.empty(0, device=device)
    wanted = FACTORIES[name](weft.empty(0))
    assert FACTORIES[name](out) is out and out.device == device and out.shape == wanted.shape
    if device == "lazy" and name != "randn":
        assert out.tolist() == wanted.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_no_views(device: str) -> None:
    x = weft.empty_strided((2, 3), (1, 2), device=device)
    for made in (x, x.new_empty_strided((2, 2), (1, 2)), weft.empty_permuted((2, 3), (1, 0), device=device)):
        assert not made._is_view() and made._base is None
        made.detach_()


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_of_the_joint_shape_are_themselves(device: str) -> None:
    x, row = weft.ones(2, 3, device=device), weft.ones(3, device=device)
    same, shown = weft.broadcast_tensors(x, row)
    assert same is x and shown.shape == x.shape and shown._is_view()


def test_factories_of_a_tensor_s_dtype_are_methods_alone():
    assert not [name for name in dir(weft) if name.startswith("new_")]
    assert weft.ones(2).new_empty_strided((2, 3), (3, 1)).stride() == (3, 1)
