"""Where tensors are made, and which tensors of other devices an operator takes."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import lazy

FACTORIES = {
    "zeros": lambda: weft.zeros(2, 3), "tensor": lambda: weft.tensor([1.0, 2.0]), "arange": lambda: weft.arange(3),
    "randn": lambda: weft.randn(3), "randperm": lambda: weft.randperm(3), "linear": lambda: weft.nn.Linear(2, 3).weight,
    "as_tensor of an array": lambda: weft.as_tensor(np.zeros(3)), "frequencies": lambda: weft.fft.fftfreq(4),
    "permuted": lambda: weft.empty_permuted((2, 3), (1, 0)), "window": lambda: weft.hann_window(4),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_chosen_device_is_that_of_factories(name):
    make = FACTORIES[name]
    with weft.device("lazy"):
        assert weft.get_default_device().type == "lazy"
        assert make().device.type == "lazy"
        with weft.device("cpu"):
            assert make().device.type == "cpu"
        assert make().device.type == "lazy"
        assert weft.zeros(2, device="cpu").device.type == "cpu"
        assert weft.from_numpy(np.zeros(2)).device.type == "cpu"
    assert make().device.type == weft.get_default_device().type == "cpu"
    weft.set_default_device("lazy")
    try:
        assert make().device.type == "lazy"
    finally:
        weft.set_default_device(None)
    assert make().device.type == "cpu"


def test_a_failure_within_the_block_ends_it():
    with pytest.raises(ZeroDivisionError), weft.device("lazy"):
        _ = 1 / 0
    assert weft.zeros(1).device.type == "cpu"


def test_a_compiled_function_knows_the_device_of_its_factories():
    @weft.compile
    def made():
        return weft.ones(3) * 2

    assert made().device.type == "cpu"
    with weft.device("meta"), pytest.raises(RuntimeError, match="makes a tensor on the meta device"):
        made()
    assert made().tolist() == [2, 2, 2]


def test_data_that_is_a_tensor_stays_where_it_is():
    x = weft.ones(2, device="lazy")
    assert weft.tensor(x).device.type == "lazy"
    assert weft.tensor(x, device="cpu").device.type == "cpu"


@pytest.mark.parametrize("index", [weft.tensor([0, 2]), weft.tensor([True, False, True]), weft.tensor(1)])
def test_indices_may_be_on_the_cpu(index, rng):
    array = rng.standard_normal((3, 4)).astype(np.float32)
    x = weft.tensor(array, device="lazy")
    np.testing.assert_array_equal(x[index].cpu().numpy(), array[index.numpy()])
    x[index] = 7.0
    array[index.numpy()] = 7
    np.testing.assert_array_equal(x.cpu().numpy(), array)


def test_other_operands_may_not(rng):
    x = weft.ones(3, device="lazy")
    index, row = weft.tensor([0]), weft.ones(3)
    for call in (lambda: x + row, lambda: x.index_select(0, index), lambda: weft.cat([x, row])):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            call()
    assert (x * weft.tensor(2.0)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("native", [True, False])
def test_an_index_that_is_out_of_bounds_is_named(native):
    x = weft.ones(3, 2, device="lazy")
    index = weft.tensor([1, 5], device="lazy")
    if native:
        lazy.mark_step()
    y = x[index]
    with pytest.raises(IndexError, match=r"test_devices.py.*index 5 is out of bounds for dimension 0 with size 3"):
        y.cpu()
    lazy.mark_step()  # once
    y = x.index_select(0, index)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        lazy.mark_step(wait=True)


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_set_shows_storages_and_nothing(device):
    a, b = weft.arange(3.0, device=device), weft.arange(6.0, device=device)
    rest = a[1:]
    a.set_()
    assert (a.shape, a.dtype, a.device.type) == ((0,), weft.float32, device)
    assert rest.tolist() == [1, 2]
    c = weft.zeros(2, device=device)
    c.set_(b.untyped_storage(), 1, (2, 2), (2, 1))
    c.add_(1)
    assert c.tolist() == [[2, 3], [4, 5]]
    assert b.tolist() == [0, 2, 3, 4, 5, 5]
    assert c.storage_offset() == 1
    if device == "lazy":
        with pytest.raises(RuntimeError, match="devices must match"):
            c.set_(weft.ones(2))
        with pytest.raises(RuntimeError, match="devices must match"):
            c.set_(weft.ones(2).untyped_storage())


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
def test_strides_without_elements(device):
    """PyTorch's: a size of 0 counts as 1."""
    e = weft.empty(0, 3, device=device)
    assert e.stride() == (3, 1)
    assert [t.stride() for t in (e.t(), e[:, 1:], e.unsqueeze(0), e.expand(2, 0, 3))] == [
        (1, 3), (3, 1), (0, 3, 1), (0, 3, 1)
    ]
    assert (e.view(3, 0).stride(), e.view(3, 0).storage_offset()) == ((1, 1), 0)
    assert weft.zeros(2, 0, 3, device=device).stride() == (3, 3, 1)
    assert e.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert weft.empty_permuted((2, 3, 4), (2, 0, 1), device=device).stride() == (3, 1, 6)


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
def test_views_without_elements_of_another_dtype(device):
    x = weft.zeros(0, 3, dtype=weft.complex64, device=device).unsqueeze(1)
    assert (weft.view_as_real(x).dtype, weft.view_as_real(x).shape) == (weft.float32, (0, 1, 3, 2))
    assert (x.real.dtype, weft.zeros(0, 2, device=device).view(weft.int16).shape) == (weft.float32, (0, 4))


def _facts(device):
    x = weft.empty(2, 3, device=device)
    x.resize_(4, 5)
    found = [(x.shape, x.stride())]
    z = weft.empty(1, device=device)
    for arguments in ((weft.empty(3, 4, device=device).t(),), (weft.empty(12, device=device), 2, (2, 3)), ()):
        z.set_(*arguments)
        found.append((z.shape, z.stride(), z.storage_offset()))
    return found


@pytest.mark.parametrize("device", ["meta", "lazy"])
def test_resize_and_set_have_eager_s_geometry(device):
    assert _facts(device) == _facts("cpu")
